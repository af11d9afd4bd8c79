"""Servers that come, go, fail and stand beside each other on one database: nothing is lost, nothing is told twice."""

from __future__ import annotations

import asyncio
import os
import stat
import time
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path

import asyncpg
import pytest

from muster.api.crds import HUB
from muster.registration.hub.install import install, install_base
from muster.runtime.client import KubeError
from muster.runtime.client.builtin import CRDS
from muster.runtime.client.http import HttpClient
from muster.runtime.client.kubeconfig import load_kubeconfig
from muster.store import StoreError
from muster.transport.contract.event import METADATA, RESOURCE_VERSION
from muster.transport.contract.rows import CLUSTERS, LEASE_ROW, WORKS
from muster.transport.contract.types import Action
from muster.transport.services.store.hub import SqlHubOptions, sql_hub
from tests.unit.store.postgres_server import PostgresServer
from tests.unit.transport.services.store.hubs import (
    UPDATE,
    RunningHub,
    applied,
    data_of,
    running_hub,
    sequence,
    until,
)


async def two_hubs(stack: AsyncExitStack, database: str, directory: Path) -> tuple[RunningHub, RunningHub]:
    one = await stack.enter_async_context(running_hub(database, directory))
    return one, await stack.enter_async_context(running_hub(database, directory))


# Starting


async def test_the_kubeconfig_is_its_owners_alone_and_leads_to_the_hub(database: str, tmp_path: Path) -> None:
    kubeconfig = tmp_path / "private" / "hub.kubeconfig"
    async with sql_hub(SqlHubOptions(database, kubeconfig), install_base) as hub:
        assert stat.S_IMODE(os.stat(kubeconfig).st_mode) == 0o600
        client = HttpClient(load_kubeconfig(kubeconfig))
        try:
            served = await client.list(CRDS)
        finally:
            await client.close()
        assert {kind.name for kind in HUB} <= {found["metadata"]["name"] for found in served.items}
        assert hub.url in kubeconfig.read_text()
        assert hub.problem() is None


async def test_the_kubeconfig_leads_to_the_name_that_the_hub_is_known_by(tmp_path: Path) -> None:
    options = SqlHubOptions(f"sqlite:///{tmp_path}/hub.db", tmp_path / "k", host_names=("localhost", "hub.example.com"))
    async with sql_hub(options, install_base) as hub:
        assert load_kubeconfig(options.kubeconfig).server.startswith("https://localhost:")
        client = HttpClient(load_kubeconfig(options.kubeconfig))
        try:
            await client.list(CRDS)
        finally:
            await client.close()
        assert hub.url.startswith("https://localhost:")


async def test_servers_that_start_at_the_same_time_install_one_hub(postgres: str, tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        hubs = await asyncio.gather(*(stack.enter_async_context(running_hub(postgres, tmp_path)) for _ in range(3)))
        await hubs[0].join("c1")
        for hub in hubs:
            await until(lambda h=hub: h.known(CLUSTERS, "c1"), "the cluster is known")  # type: ignore[misc]


async def test_starting_again_leaves_what_is_there(database: str, tmp_path: Path) -> None:
    async with running_hub(database, tmp_path) as hub:
        await hub.join("c1")
        before = {crd["metadata"]["name"]: crd["metadata"]["uid"] for crd in (await hub.admin.list(CRDS)).items}
    async with running_hub(database, tmp_path) as again:
        assert {crd["metadata"]["name"]: crd["metadata"]["uid"] for crd in (await again.admin.list(CRDS)).items} == before
        assert len(again.known(CLUSTERS, "c1")) == 1
        revision = again.hub.server.store.revision
        await install_base(again.admin)
        leases = 5  # renewals of the servers' own election
        assert again.hub.server.store.revision <= revision + leases


async def test_webhooks_that_the_hub_has_configured_stay_configured(database: str, tmp_path: Path) -> None:
    async with running_hub(database, tmp_path) as hub:
        await install(hub.admin)
        name = "managedclusteraddons.addon.open-cluster-management.io"
        webhook = {"clientConfig": {"url": "https://127.0.0.1:1/convert"}, "conversionReviewVersions": ["v1"]}
        await hub.admin.patch(CRDS, name, {"spec": {"conversion": {"strategy": "Webhook", "webhook": webhook}}})
        await install_base(hub.admin)
        found = await hub.admin.get(CRDS, name)
        assert found["spec"]["conversion"]["strategy"] == "Webhook"


async def test_a_second_process_on_one_sqlite_file_is_refused(tmp_path: Path) -> None:
    database = f"sqlite:///{tmp_path}/hub.db"
    async with running_hub(database, tmp_path):
        with pytest.raises(StoreError):
            async with running_hub(database, tmp_path):
                pass


# Beside each other


async def test_what_is_written_by_one_server_is_told_once_by_the_other(postgres: str, tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        one, two = await two_hubs(stack, postgres, tmp_path)
        agent = await one.join("c1")
        await two.hub.server.store.synced()
        for number in range(30):
            await one.create_work("c1", f"w{number}")
        await two.hub.server.store.synced()
        assert two.told(WORKS, "c1") == [Action.CREATE] * 30
        assert Counter(change[3] for change in two.changes if change[0] is WORKS).most_common(1)[0][1] == 1
        lease = data_of(two.known(LEASE_ROW, "c1")[0])
        await two.publish(LEASE_ROW, UPDATE, {**lease, "spec": {"renewTime": "2026-11-16T00:00:01.000000Z"}}, agent)
        await one.hub.server.store.synced()
        assert data_of(one.known(LEASE_ROW, "c1")[0])["spec"]["renewTime"] == "2026-11-16T00:00:01.000000Z"


async def test_a_report_by_a_server_that_is_behind_counts(postgres: str, tmp_path: Path) -> None:
    """The work came a moment ago by another server, and the agent has it already."""
    async with AsyncExitStack() as stack:
        one, two = await two_hubs(stack, postgres, tmp_path)
        agent = await one.join("c1")
        for number in range(10):
            work = await one.create_work("c1", f"w{number}")
            await two.report(work, applied(str(number)), agent)
            assert (await one.work("c1", f"w{number}"))["status"]["conditions"][0]["message"] == str(number)


async def test_of_reports_by_two_servers_the_newest_stays_whatever_their_order(postgres: str, tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        one, two = await two_hubs(stack, postgres, tmp_path)
        agent = await one.join("c1")
        work = await one.create_work("c1", "w")
        for _ in range(5):
            numbers = [sequence.next() for _ in range(6)]
            shuffled = [numbers[3], numbers[5], numbers[0], numbers[4], numbers[1], numbers[2]]
            await asyncio.gather(
                *((one, two)[turn % 2].report(work, applied(str(number)), agent, number) for turn, number in enumerate(shuffled))
            )
            found = await one.work("c1", "w")
            assert found["status"]["conditions"][0]["message"] == str(numbers[-1])


# Away


async def test_what_happened_while_no_server_was_up_is_known_afterwards(database: str, tmp_path: Path) -> None:
    async with running_hub(database, tmp_path) as hub:
        await hub.join("c1")
        works = {name: await hub.create_work("c1", name) for name in ("same", "changed", "gone")}
    async with sql_hub(SqlHubOptions(database, tmp_path / "other.kubeconfig"), install_base) as other:
        await other.client.patch(WORKS.resource, "changed", {"spec": {"deleteOption": {"propagationPolicy": "Orphan"}}}, "c1")
        await other.client.delete(WORKS.resource, "gone", "c1")
    async with running_hub(database, tmp_path) as again:
        service = again.service(WORKS)
        versions = {found.resource_id: found.version for found in service.versions("c1")}
        assert versions == {works["same"]["metadata"]["uid"]: 1, works["changed"]["metadata"]["uid"]: 2}
        gone = service.tombstone("c1", works["gone"]["metadata"]["uid"])
        assert gone is not None
        assert '"name":"gone"' in str(gone.attributes[METADATA])
        assert gone.attributes[RESOURCE_VERSION] == 1
        assert service.tombstone("c2", works["gone"]["metadata"]["uid"]) is None
        assert service.tombstone("c1", works["same"]["metadata"]["uid"]) is None
        assert again.changes == [], "what was there already is no change"


async def test_a_hub_whose_database_is_away_refuses_and_goes_on_afterwards(
    database_server: PostgresServer, postgres: str, tmp_path: Path
) -> None:
    name = postgres.split("?")[0].rsplit("/", 1)[1]
    admin = await asyncpg.connect(postgres)
    await admin.execute("DROP ROLE IF EXISTS muster")
    await admin.execute("CREATE ROLE muster LOGIN SUPERUSER")
    try:
        database = database_server.dsn(name).replace("postgres@", "muster@")
        async with running_hub(database, tmp_path) as hub:
            agent = await hub.join("c1")
            work = await hub.create_work("c1", "w")
            await hub.report(work, applied("before"), agent)
            await admin.execute("ALTER ROLE muster NOLOGIN")
            await admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'muster'")
            await until(lambda: hub.hub.problem() is not None, "it is not ready, though nobody has written")
            with pytest.raises(KubeError):
                await hub.report(work, applied("during"), agent)
            assert len(hub.known(WORKS, "c1")) == 1, "what is known stays known"
            await until(lambda: hub.hub.problem() is not None, "it is not ready")
            await admin.execute("ALTER ROLE muster LOGIN")
            await until(lambda: hub.hub.problem() is None, "it is ready without a write", 30)

            async def reported() -> bool:
                try:
                    await hub.report(work, applied("after"), agent)
                except KubeError:
                    return False
                return True

            async with asyncio.timeout(30):
                while not await reported():  # noqa: ASYNC110 - an agent tries again, too
                    await asyncio.sleep(0.1)
            assert (await hub.work("c1", "w"))["status"]["conditions"][0]["message"] == "after"
            await hub.create_work("c1", "later")
            await until(lambda: len(hub.known(WORKS, "c1")) == 2, "changes are told again")
    finally:
        await admin.close()


# Much


async def test_ten_thousand_known_and_unknown_works_are_looked_up_in_no_time(tmp_path: Path) -> None:
    async with running_hub("memory", tmp_path) as hub:
        await hub.join("c1")
        for start in range(0, 2000, 100):
            await asyncio.gather(*(hub.create_work("c1", f"w{number}") for number in range(start, start + 100)))
        service = hub.service(WORKS)
        began = time.process_time()
        for _ in range(5):
            known = {found.resource_id: found.version for found in service.versions("c1")}
        for number in range(10_000):
            assert service.tombstone("c1", f"unknown-{number}") is None
        took = time.process_time() - began
        assert len(known) == 2000
        assert took < 1.0
