"""What is known of clusters follows the hub: joined live, with the rights of the gateway's own account and no others."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import orjson
import pytest

from muster.api.crds import ACCOUNTS as ACCOUNT_KINDS
from muster.api.crds import HUB, definitions
from muster.fleet.in_process import InProcessClient, embedded_cluster
from muster.gateway.install import RULES
from muster.gateway.inventory import Health, Inventory
from muster.gateway.inventory.inventory import ACCOUNTS, CLUSTERS
from muster.gateway.names import COMPONENT, CREDENTIALS_NAMESPACE
from muster.gateway.permissions import ACCOUNT, namespace_permissions
from muster.gateway.target import CREDENTIAL_EXPIRED, CREDENTIAL_MISSING, BearerToken, Target
from muster.machinery.clock import SYSTEM
from muster.machinery.logs import diverted
from muster.runtime.client.builtin import CRDS, SECRETS
from muster.runtime.client.errors import Forbidden
from muster.runtime.install import account_permissions, apply_all, await_definitions, ensure_namespace
from tests.support.eventually import eventually
from tests.support.fake_clock import FakeClock
from tests.unit.gateway.inventory.objects import (
    AUTHORITY,
    NOW,
    URL,
    account,
    account_secret,
    b64,
    client_pair,
    credential,
    jwt,
    managed_cluster,
)

CA = AUTHORITY.pem.decode()
HOME = "open-cluster-management-hub"
CLUSTER_KINDS = tuple(kind for kind in HUB if kind.resource.plural == "managedclusters")


class Hub:
    """A hub with an inventory of it that runs."""

    def __init__(self, admin: InProcessClient) -> None:
        self.admin = admin
        self.account = admin.as_user(f"system:serviceaccount:{HOME}:{ACCOUNT}")
        self.clock = FakeClock(NOW)
        self.health = Health(clock=self.clock)
        self.told: list[tuple[str, dict[str, Any] | None]] = []
        self.withdrawn: list[str] = []
        self.inventory = Inventory(self.account, self.health, self._tell, on_withdrawal=self.withdrawn.append, clock=self.clock)

    def _tell(self, name: str, document: dict[str, Any] | None) -> None:
        self.told.append((name, document))

    @property
    def shown(self) -> dict[str, dict[str, Any]]:
        return {name: document for name, document in dict(self.told).items() if document is not None}

    async def install(self) -> None:
        for namespace in (HOME, CREDENTIALS_NAMESPACE, "c1", "c2"):
            await ensure_namespace(self.admin, namespace)
        elsewhere = [one for here in (True, False) for one in namespace_permissions(HOME, credentials=here)]
        await apply_all(self.admin, [*account_permissions(ACCOUNT, HOME, COMPONENT, RULES), *elsewhere], "test")

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.inventory.run())
        try:
            await self.until(lambda: self.inventory.problem() is None)
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def until(self, condition: Any) -> None:
        async def look() -> bool:
            return bool(condition())

        await eventually(look, "what the hub says to be known", timeout=10, poll=0.002)

    async def found(self, name: str, condition: Any = lambda target: True) -> Target:
        await self.until(lambda: (target := self.inventory.find(name)) is not None and condition(target))
        target = self.inventory.find(name)
        assert target is not None
        return target

    async def create_account(self, cluster: str = "c1", **data: str) -> None:
        await self.admin.create(ACCOUNTS, account(cluster))
        await self.admin.create(SECRETS, account_secret(cluster, **data))


@pytest.fixture
async def hub() -> AsyncIterator[Hub]:
    async with embedded_cluster((*CLUSTER_KINDS, *ACCOUNT_KINDS)) as admin:
        hub = Hub(admin)
        await hub.install()
        yield hub


def problem(target: Target) -> str:
    return "" if target.problem is None else target.problem.cause


async def test_what_is_there_is_joined_with_the_gateways_own_rights(hub: Hub) -> None:
    await hub.admin.create(CLUSTERS, managed_cluster("c1", labels={"region": "eu"}))
    await hub.create_account(token=jwt(), ca__crt=CA)
    await hub.admin.create(SECRETS, credential("foreign", endpoint=URL, ca__crt=CA, token="t"))
    assert hub.inventory.problem() is not None
    assert hub.inventory.find("c1") is None
    async with hub.running():
        target = await hub.found("c1")
        assert target.problem is None
        assert target.credential == BearerToken(jwt())
        assert problem(await hub.found("foreign")) == ""
        assert hub.inventory.find("unknown") is None
        assert sorted(hub.inventory.clusters()) == ["c1", "foreign"]
        await hub.until(lambda: {"c1", "foreign"} <= hub.shown.keys())
        shown = hub.shown["c1"]
        assert shown["metadata"]["labels"]["region"] == "eu"
        assert shown["metadata"]["uid"]
        assert shown["status"]["healthyReason"].startswith("NotProbed")


async def test_the_gateway_may_read_no_other_secret(hub: Hub) -> None:
    await hub.admin.create(SECRETS, {"metadata": {"name": "other", "namespace": "c1"}})
    with pytest.raises(Forbidden):
        await hub.account.get(SECRETS, "other", "c1")
    with pytest.raises(Forbidden):
        await hub.account.list(SECRETS, "c1")
    with pytest.raises(Forbidden):
        await hub.account.list(SECRETS)
    with pytest.raises(Forbidden):
        await hub.account.create(SECRETS, credential("x"))
    assert (await hub.account.list(SECRETS, field_selector=f"metadata.name={COMPONENT}")).items == []


async def test_a_cluster_comes_changes_and_goes_without_a_restart(hub: Hub) -> None:
    async with hub.running():
        await hub.admin.create(CLUSTERS, managed_cluster(accepted=False))
        await hub.create_account(token="first", ca__crt=CA)
        await hub.admin.create(CLUSTERS, managed_cluster("c2"))
        await hub.found("c2")
        assert hub.inventory.find("c1") is None
        await hub.admin.patch(CLUSTERS, "c1", {"spec": {"hubAcceptsClient": True}})
        assert (await hub.found("c1")).credential == BearerToken("first")
        secret = account_secret(token="second", ca__crt=CA)
        await hub.admin.patch(SECRETS, COMPONENT, {"data": secret["data"]}, "c1")
        await hub.found("c1", lambda target: target.credential == BearerToken("second"))
        moved = [{"url": "https://moved.example:6443"}]
        await hub.admin.patch(CLUSTERS, "c1", {"spec": {"managedClusterClientConfigs": moved}})
        await hub.found("c1", lambda target: target.endpoints[0].host == "moved.example")
        await hub.admin.delete(SECRETS, COMPONENT, "c1")
        await hub.found("c1", lambda target: problem(target) == CREDENTIAL_MISSING)
        await hub.admin.patch(CLUSTERS, "c1", {"spec": {"hubAcceptsClient": False}})
        await hub.until(lambda: hub.inventory.find("c1") is None)
        assert hub.told[-1] == ("c1", None)


async def test_only_what_changes_to_be_seen_is_told_and_the_target_stays_the_same(hub: Hub) -> None:
    await hub.admin.create(CLUSTERS, managed_cluster())
    await hub.create_account(token="first", ca__crt=CA)
    async with hub.running():
        before = await hub.found("c1")
        hub.told.clear()
        await hub.admin.patch(CLUSTERS, "c1", {"spec": {"leaseDurationSeconds": 61}})
        await hub.admin.patch(CLUSTERS, "c1", {"metadata": {"labels": {"now": "seen"}}})
        await hub.until(lambda: hub.told)
        assert [document["metadata"]["labels"] for _, document in hub.told if document] == [{"now": "seen"}]
        assert hub.inventory.find("c1") is before


async def test_a_removed_cluster_loses_its_gateway_though_its_secret_remains(hub: Hub) -> None:
    await hub.admin.create(CLUSTERS, managed_cluster(finalizers=["example.com/held"]))
    await hub.admin.create(SECRETS, credential("c1", endpoint=URL, ca__crt=CA, token="t"))
    async with hub.running():
        await hub.found("c1")
        await hub.admin.delete(CLUSTERS, "c1")
        await hub.until(lambda: hub.inventory.find("c1") is None)
        await hub.admin.patch(CLUSTERS, "c1", {"metadata": {"finalizers": None}})
        await hub.admin.create(CLUSTERS, managed_cluster("c2"))
        await hub.found("c2")
        assert hub.inventory.find("c1") is None
        assert await hub.inventory.refreshed("c1") is None
        await hub.admin.patch(SECRETS, "c1", {"metadata": {"annotations": {"again": "yes"}}}, CREDENTIALS_NAMESPACE)
        await hub.found("c1")


async def test_a_credential_ends_at_its_second_and_that_is_seen(hub: Hub) -> None:
    await hub.admin.create(CLUSTERS, managed_cluster())
    await hub.create_account(token=jwt(NOW + timedelta(minutes=5)), ca__crt=CA)
    async with hub.running():
        assert problem(await hub.found("c1")) == ""
        await hub.clock.advance(299.5)
        assert problem(await hub.found("c1")) == ""
        await hub.clock.advance(0.5)
        assert problem(await hub.found("c1")) == CREDENTIAL_EXPIRED
        assert hub.shown["c1"]["status"]["healthyReason"].startswith(CREDENTIAL_EXPIRED)
        fresh = account_secret(token=jwt(NOW + timedelta(hours=5)), ca__crt=CA)
        await hub.admin.patch(SECRETS, COMPONENT, {"data": fresh["data"]}, "c1")
        await hub.found("c1", lambda target: target.problem is None)


async def test_accounts_that_are_defined_later_count_without_a_restart() -> None:
    async with embedded_cluster(CLUSTER_KINDS) as admin:
        hub = Hub(admin)
        await hub.install()
        await hub.admin.create(CLUSTERS, managed_cluster())
        async with hub.running():
            assert problem(await hub.found("c1")) == CREDENTIAL_MISSING
            await apply_all(admin, [(CRDS, document) for document in definitions(ACCOUNT_KINDS)], "test")
            await await_definitions(admin, [kind.name for kind in ACCOUNT_KINDS], SYSTEM)
            await hub.create_account(token="t", ca__crt=CA)
            await hub.clock.advance(31)
            await hub.found("c1", lambda target: target.problem is None)


async def test_a_poisoned_object_harms_itself_alone(hub: Hub) -> None:
    poisons: dict[str, dict[str, Any]] = {
        "rubbish": {"endpoint": "x" * 500_000, "token": "y" * 200_000},
        "binary": {"endpoint": bytes(range(256)), "token": bytes(range(256))},
    }
    for name, data in poisons.items():
        await hub.admin.create(SECRETS, credential(name, **data))
    await hub.admin.create(SECRETS, credential("fine", endpoint=URL, ca__crt=CA, token="t"))
    async with hub.running():
        assert problem(await hub.found("fine")) == ""
        for name in poisons:
            assert problem(await hub.found(name)) != ""
        await hub.until(lambda: len(hub.shown) == 3)
        assert all(len(orjson.dumps(document)) < 4000 for document in hub.shown.values())


async def test_one_that_cannot_be_shown_does_not_stop_the_others(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    tell = hub._tell

    def refuse_one(name: str, document: dict[str, Any] | None) -> None:
        if name == "bad":
            raise RuntimeError("no")
        tell(name, document)

    monkeypatch.setattr(hub.inventory, "_on_change", refuse_one)
    for name in ("bad", "good"):
        await hub.admin.create(SECRETS, credential(name, endpoint=URL, ca__crt=CA, token="t"))
    async with hub.running():
        await hub.until(lambda: "good" in hub.shown)
        assert problem(await hub.found("bad")) == ""


async def test_the_hub_itself_is_asked_for_what_a_cluster_refused(hub: Hub) -> None:
    await hub.admin.create(CLUSTERS, managed_cluster())
    await hub.create_account(token="first", ca__crt=CA)
    # The caches are never filled: nobody runs them.
    target = await hub.inventory.refreshed("c1")
    assert target is not None
    assert target.credential == BearerToken("first")
    await hub.admin.patch(SECRETS, COMPONENT, {"data": account_secret(token="second")["data"]}, "c1")
    assert await hub.inventory.refreshed("c1") is target
    await hub.clock.advance(1)
    again = await hub.inventory.refreshed("c1")
    assert again is not None
    assert again.credential == BearerToken("second")
    assert await hub.inventory.refreshed("unknown") is None
    await hub.admin.patch(CLUSTERS, "c1", {"spec": {"hubAcceptsClient": False}})
    await hub.clock.advance(1)
    assert await hub.inventory.refreshed("c1") is None


async def test_health_is_shown_as_it_changes(hub: Hub) -> None:
    await hub.admin.create(SECRETS, credential("c1", endpoint=URL, ca__crt=CA, token="t"))
    async with hub.running():
        target = await hub.found("c1")
        hub.health.answered(target)
        assert hub.shown["c1"]["status"] == {"healthy": True, "healthyReason": ""}
        told = len(hub.told)
        for _ in range(100):
            hub.health.answered(target)
        assert len(hub.told) == told


async def test_no_log_line_and_no_object_has_a_token_or_key(hub: Hub) -> None:
    pair, token = client_pair(), jwt(NOW + timedelta(minutes=5))
    lines: list[str] = []
    with diverted(lines.append):
        async with hub.running():
            await hub.admin.create(CLUSTERS, managed_cluster())
            await hub.create_account(token=token, ca__crt=CA)
            certificate: dict[str, Any] = {"tls__crt": pair.certificate, "tls__key": pair.key}
            await hub.admin.create(SECRETS, credential("x509", "X509Certificate", endpoint=URL, **certificate))
            await hub.admin.create(SECRETS, credential("broken", endpoint=URL, token=f"{token} x", insecure="perhaps"))
            await hub.admin.create(SECRETS, credential("mixed", endpoint=URL, token=token, ca__crt=pair.key))
            await hub.until(lambda: len(hub.shown) == 4)
            await hub.clock.advance(400)
            assert await hub.inventory.refreshed("c1") is not None
    told = orjson.dumps(hub.told).decode() + "\n".join(lines) + repr([hub.inventory.find(name) for name in hub.shown])
    assert lines
    for secret in (token, token.rpartition(".")[2], pair.key.decode().splitlines()[1], "PRIVATE KEY"):
        assert secret not in told


# What may not go on.


async def test_a_cluster_that_is_taken_away_is_withdrawn(hub: Hub) -> None:
    for name in ("c1", "c2"):
        await hub.admin.create(CLUSTERS, managed_cluster(name))
        await hub.create_account(name, token=jwt(), ca__crt=CA)
    async with hub.running():
        await hub.admin.patch(CLUSTERS, "c1", {"spec": {"hubAcceptsClient": False}})
        await hub.until(lambda: hub.withdrawn == ["c1"])
        assert hub.inventory.find("c1") is None
        await hub.admin.delete(CLUSTERS, "c2")
        await hub.until(lambda: hub.withdrawn == ["c1", "c2"])


@pytest.mark.parametrize("removed", ["secret", "label", "key"])
async def test_an_administrators_credential_that_is_taken_away_is_withdrawn(hub: Hub, removed: str) -> None:
    await hub.admin.create(CLUSTERS, managed_cluster("c1"))
    secret = credential("c1", endpoint=URL, ca__crt=CA, token="t")
    await hub.admin.create(SECRETS, secret)
    # Another way to the same cluster makes no difference: what was begun was begun with the administrator's credential.
    await hub.create_account(token=jwt(), ca__crt=CA)
    async with hub.running():
        assert (await hub.found("c1")).credential == BearerToken("t")
        if removed == "secret":
            await hub.admin.delete(SECRETS, "c1", CREDENTIALS_NAMESPACE)
        else:
            gone = {"metadata": {"labels": None}} if removed == "label" else {"data": {"token": None}}
            await hub.admin.patch(SECRETS, "c1", gone, CREDENTIALS_NAMESPACE)
        await hub.until(lambda: hub.withdrawn == ["c1"])


async def test_an_account_that_is_taken_away_is_withdrawn(hub: Hub) -> None:
    for name in ("c1", "c2"):
        await hub.admin.create(CLUSTERS, managed_cluster(name))
        await hub.create_account(name, token=jwt(), ca__crt=CA)
    async with hub.running():
        await hub.admin.delete(ACCOUNTS, COMPONENT, "c1")
        await hub.until(lambda: hub.withdrawn == ["c1"])
        await hub.admin.delete(SECRETS, COMPONENT, "c2")
        await hub.until(lambda: hub.withdrawn == ["c1", "c2"])


async def test_what_is_renewed_in_its_place_is_not_withdrawn(hub: Hub) -> None:
    await hub.admin.create(CLUSTERS, managed_cluster("c1"))
    await hub.create_account(token=jwt(NOW + timedelta(hours=1)), ca__crt=CA)
    await hub.admin.create(SECRETS, credential("foreign", endpoint=URL, ca__crt=CA, token="t"))
    async with hub.running():
        renewed = jwt(NOW + timedelta(hours=1), nonce="2")
        await hub.admin.patch(SECRETS, COMPONENT, {"data": {"token": b64(renewed)}}, "c1")
        await hub.found("c1", lambda target: target.credential is not None and target.credential.token == renewed)
        await hub.clock.advance(3600)
        assert problem(await hub.found("c1")) == CREDENTIAL_EXPIRED
        other = "https://api.elsewhere.example"
        await hub.admin.patch(SECRETS, "foreign", {"data": {"token": b64("u"), "endpoint": b64(other)}}, CREDENTIALS_NAMESPACE)
        await hub.found("foreign", lambda target: target.endpoints[0].host == "api.elsewhere.example")
        assert hub.withdrawn == []
