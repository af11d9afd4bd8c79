"""A hosted Klusterlet: agents on one cluster, accounts, roles and definitions on the cluster they manage."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from muster.api.addons import NAMESPACE_LABEL
from muster.api.crds import SPOKE
from muster.kube import yaml
from muster.machinery.clock import SYSTEM, Clock
from muster.machinery.objects import Object
from muster.operator.klusterlet.removal import APPLIED_WORK_FINALIZER, APPLIED_WORKS
from muster.operator.names import (
    ADDON_NAMESPACE,
    EVICTION_ANNOTATION,
    EXTERNAL_MANAGED_SECRET,
    KLUSTERLET_FINALIZER,
    KLUSTERLET_HOSTED_FINALIZER,
    KLUSTERLET_LABEL,
    KLUSTERLETS,
)
from muster.registration.names import AGENT_NAMESPACE
from muster.runtime.client.base import KubeClient
from muster.runtime.client.builtin import (
    CLUSTER_ROLES,
    CRDS,
    DEPLOYMENTS,
    NAMESPACES,
    ROLE_BINDINGS,
    ROLES,
    SECRETS,
    SERVICE_ACCOUNTS,
)
from muster.runtime.install import ensure_namespace
from tests.support.fake_clock import FakeClock
from tests.unit.operator.conftest import Cluster, running
from tests.unit.operator.spokes import Cuttable, Hub, Spoke, kubeconfig, operated
from tests.unit.operator.test_klusterlet import AWS, SUFFIX, remains

H = "hosted-one"
AGENT = f"{H}-registration-agent"
WAY = f"{EXTERNAL_MANAGED_SECRET}-registration"
HOSTED = {"deployOption": {"mode": "Hosted"}}


@asynccontextmanager
async def hosting(here: Cluster, far: Cluster, clock: Clock = SYSTEM) -> AsyncIterator[Spoke]:
    Cuttable.away = False

    def connect(way: bytes) -> KubeClient:
        assert b"managed.example.com" in way
        return Cuttable(far.server.client(far.server.clusters[far.name]), "managed")

    async with operated(here, Hub(far), clock, connect=connect) as spoke:
        yield spoke


@pytest.fixture
async def spoke(here: Cluster, far: Cluster) -> AsyncIterator[Spoke]:
    async with AsyncExitStack() as stack:
        yield await stack.enter_async_context(hosting(here, far))


async def lead(spoke: Spoke, namespace: str = H) -> None:
    """Put the way to the managed cluster where the operator looks."""
    await spoke.secret(EXTERNAL_MANAGED_SECRET, {"kubeconfig": kubeconfig("admin", "https://managed.example.com")}, namespace)


async def up(spoke: Spoke, mode: str = "Hosted", **spec: Any) -> None:
    await lead(spoke)
    await spoke.create(H, deployOption={"mode": mode}, **spec)
    await spoke.says("Applied", "True", "KlusterletApplied", H)


async def klusterlet(spoke: Spoke) -> Object:
    return await spoke.place.until_found(KLUSTERLETS, H)


async def test_nothing_is_made_before_there_is_a_way_to_the_managed_cluster(spoke: Spoke) -> None:
    await spoke.create(H, **HOSTED)
    told = await spoke.says("ReadyToApply", "False", "KlusterletPrepareFailed", H)
    assert EXTERNAL_MANAGED_SECRET in told["message"]
    assert (await klusterlet(spoke))["metadata"]["finalizers"] == [KLUSTERLET_FINALIZER]
    await lead(spoke)
    await spoke.says("ReadyToApply", "True", "KlusterletPrepared", H)
    await spoke.says("Applied", "True", "KlusterletApplied", H)
    assert (await klusterlet(spoke))["metadata"]["finalizers"] == [KLUSTERLET_FINALIZER, KLUSTERLET_HOSTED_FINALIZER]


async def test_a_way_that_is_none_is_said_to_be_none(spoke: Spoke) -> None:
    await spoke.secret(EXTERNAL_MANAGED_SECRET, {"kubeconfig": b"]["}, H)
    await spoke.create(H, **HOSTED)
    await spoke.says("ReadyToApply", "False", "KlusterletPrepareFailed", H)


async def test_agents_are_here_and_rights_are_there(spoke: Spoke, far: Cluster) -> None:
    await up(spoke)
    pod = (await spoke.deployment(AGENT, H))["spec"]["template"]["spec"]
    arguments = pod["containers"][0]["args"]
    assert f"--namespace={H}" in arguments
    assert "--spoke-kubeconfig=/spoke/config/kubeconfig" in arguments
    assert [one["secret"]["secretName"] for one in pod["volumes"] if "secret" in one] == [WAY]
    assert await spoke.place.find(ROLES, f"open-cluster-management:management:{H}-registration:agent", H)
    assert await spoke.place.find(SERVICE_ACCOUNTS, f"{H}-registration-sa", H)
    assert await far.find(SERVICE_ACCOUNTS, f"{H}-registration-sa", AGENT_NAMESPACE)
    assert await far.find(CLUSTER_ROLES, f"open-cluster-management:{H}-registration:agent")
    for kind in SPOKE:
        assert await far.find(CRDS, kind.name), kind.name
        assert not await spoke.place.find(CRDS, kind.name), kind.name
    namespace = await far.until_found(NAMESPACES, AGENT_NAMESPACE)
    assert namespace["metadata"]["labels"][KLUSTERLET_LABEL] == H
    assert await far.find(NAMESPACES, ADDON_NAMESPACE)
    assert not await spoke.place.find(NAMESPACES, ADDON_NAMESPACE)


async def test_the_agents_way_is_their_own_account(spoke: Spoke) -> None:
    await up(spoke)
    secret = await spoke.place.until_found(SECRETS, WAY, H)
    assert set(secret["data"]) == {"kubeconfig", "token"}
    config = yaml.load(base64.b64decode(secret["data"]["kubeconfig"]))
    assert config["clusters"][0]["cluster"]["server"] == "https://managed.example.com"
    assert config["users"][0]["user"] == {"tokenFile": "token"}


async def test_a_hosted_singleton_has_a_way_of_its_own(spoke: Spoke) -> None:
    await up(spoke, "SingletonHosted")
    pod = (await spoke.deployment(f"{H}-agent", H))["spec"]["template"]["spec"]
    assert pod["serviceAccountName"] == f"{H}-work-sa"
    assert await spoke.place.find(SECRETS, f"{EXTERNAL_MANAGED_SECRET}-agent", H)


async def test_aws_roles_are_tied_to_accounts_where_the_pods_run(spoke: Spoke) -> None:
    await up(spoke, registrationConfiguration={"registrationDriver": {"authType": "awsirsa", "awsIrsa": AWS}})
    account = await spoke.place.until_found(SERVICE_ACCOUNTS, f"{H}-registration-sa", H)
    assert account["metadata"]["annotations"]["eks.amazonaws.com/role-arn"].endswith(SUFFIX)


async def test_drift_on_the_managed_cluster_is_repaired(spoke: Spoke, far: Cluster) -> None:
    await up(spoke)
    role = f"open-cluster-management:{H}-registration:agent"
    await far.admin.delete(CLUSTER_ROLES, role)
    await far.until_found(CLUSTER_ROLES, role)


async def test_a_hosted_klusterlet_cannot_become_another(spoke: Spoke) -> None:
    await up(spoke)
    await spoke.change({"deployOption": {"mode": "Default"}}, H)
    told = await spoke.says("Applied", "False", "KlusterletApplyFailed", H)
    assert "spec.deployOption.mode" in told["message"]
    await spoke.delete(H)
    await spoke.until_gone(H)


async def test_nothing_is_left_on_either_cluster(spoke: Spoke, far: Cluster) -> None:
    await up(spoke)
    uid = (await klusterlet(spoke))["metadata"]["uid"]
    work = {
        "apiVersion": APPLIED_WORKS.api_version,
        "kind": "AppliedManifestWork",
        "metadata": {"name": "w", "finalizers": [APPLIED_WORK_FINALIZER]},
        "spec": {"hubHash": "h", "manifestWorkName": "w", "agentID": uid},
    }
    await far.admin.create(APPLIED_WORKS, work)
    await spoke.delete(H)
    await spoke.until_gone(H)
    assert not (await far.until_found(APPLIED_WORKS, "w"))["metadata"].get("finalizers")
    await far.admin.delete(APPLIED_WORKS, "w")
    assert await remains(far) == [f"{CRDS}/appliedmanifestworks.work.open-cluster-management.io"]
    assert await remains(spoke.place) == []
    assert not await spoke.place.find(NAMESPACES, H)


async def test_one_that_never_reached_its_cluster_goes_at_once(spoke: Spoke) -> None:
    await spoke.create(H, **HOSTED)
    await spoke.says("ReadyToApply", "False", name=H)
    await spoke.delete(H)
    await spoke.until_gone(H)


async def test_two_hosted_klusterlets_do_not_fight_over_a_namespace_of_one_cluster(spoke: Spoke) -> None:
    await up(spoke)
    await lead(spoke, "second")
    await spoke.create("second", **HOSTED)
    told = await spoke.says("Applied", "False", "KlusterletApplyFailed", "second")
    assert H in told["message"]
    await spoke.change({"namespace": "open-cluster-management-second"}, "second")
    await spoke.says("Applied", "True", "KlusterletApplied", "second")
    await spoke.delete("second")
    await spoke.until_gone("second")
    await spoke.says("Applied", "True", name=H)


@asynccontextmanager
async def hurried(here: Cluster, far: Cluster) -> AsyncIterator[tuple[Spoke, FakeClock]]:
    """Where a second takes some milliseconds."""
    clock = FakeClock()

    async def tick() -> None:
        while True:
            await clock.advance(1)
            await asyncio.sleep(0.005)

    async with running(tick()), hosting(here, far, clock) as spoke:
        yield spoke, clock


async def away(spoke: Spoke) -> Object | None:
    """The Klusterlet, when it says that its cluster is away."""
    found = await klusterlet(spoke)
    return found if EVICTION_ANNOTATION in (found["metadata"].get("annotations") or {}) else None


async def test_a_managed_cluster_that_stays_away_is_left_after_five_minutes(here: Cluster, far: Cluster) -> None:
    async with hurried(here, far) as (spoke, clock):
        await up(spoke)
        Cuttable.away = True
        since = clock.monotonic()
        await spoke.delete(H)
        await here.until(lambda: away(spoke), "it is noted that the managed cluster is away")
        assert not await here.find(DEPLOYMENTS, AGENT, H)
        await spoke.until_gone(H)
        assert clock.monotonic() - since > 295
    assert await far.find(NAMESPACES, AGENT_NAMESPACE)
    assert not await here.find(NAMESPACES, H)


async def test_a_managed_cluster_that_comes_back_is_cleaned(here: Cluster, far: Cluster) -> None:
    async with hurried(here, far) as (spoke, _):
        await up(spoke)
        Cuttable.away = True
        await spoke.delete(H)
        await here.until(lambda: away(spoke), "it is noted that the managed cluster is away")
        Cuttable.away = False
        await spoke.until_gone(H)
        assert await remains(far) == []


async def test_a_way_that_was_deleted_first_does_not_hold_the_klusterlet_for_ever(here: Cluster, far: Cluster) -> None:
    async with hurried(here, far) as (spoke, _):
        await up(spoke)
        await here.admin.delete(SECRETS, EXTERNAL_MANAGED_SECRET, H)
        await spoke.delete(H)
        await spoke.until_gone(H)


@pytest.mark.parametrize("name", ["kube-system", "default", "with.dot"])
async def test_a_name_whose_namespace_has_another_purpose_is_refused(spoke: Spoke, name: str) -> None:
    await spoke.create(name, **HOSTED)
    assert "metadata.name" in (await spoke.says("Applied", "False", "KlusterletApplyFailed", name))["message"]
    await spoke.delete(name)
    await spoke.until_gone(name)
    assert await spoke.place.find(NAMESPACES, "kube-system")


async def test_a_cluster_may_host_its_own_agents(here: Cluster) -> None:
    def connect(way: bytes) -> KubeClient:
        return Cuttable(here.server.client(here.server.clusters[here.name]), "itself")

    async with operated(here, Hub(here), connect=connect) as spoke:
        await up(spoke)
        for account, namespace in ((f"{H}-registration-sa", H), (f"{H}-registration-sa", AGENT_NAMESPACE)):
            before = await here.until_found(SERVICE_ACCOUNTS, account, namespace)
            await here.admin.patch(KLUSTERLETS, H, {"spec": {"priorityClassName": f"p-{namespace}"}})
            await at_rest(spoke)
            assert (await here.admin.get(SERVICE_ACCOUNTS, account, namespace))["metadata"]["uid"] == before["metadata"]["uid"]
        await spoke.delete(H)
        await spoke.until_gone(H)
        assert await remains(here) == []
        assert not await here.find(NAMESPACES, H)


async def at_rest(spoke: Spoke) -> None:
    quiet = 0
    spoke.client.taken()
    async with asyncio.timeout(20):
        while quiet < 20:
            await asyncio.sleep(0.02)
            quiet = 0 if spoke.client.taken() else quiet + 1


async def test_agents_namespaces_that_are_prepared_beforehand_are_taken(spoke: Spoke, far: Cluster) -> None:
    await ensure_namespace(far.admin, AGENT_NAMESPACE)
    await up(spoke)
    await spoke.delete(H)
    await spoke.until_gone(H)
    assert not await far.find(NAMESPACES, AGENT_NAMESPACE)


async def test_addons_of_a_hosted_cluster_are_looked_after_on_both_clusters(spoke: Spoke, far: Cluster) -> None:
    labels = {NAMESPACE_LABEL: "true"}
    for place, name in ((far, "shop"), (spoke.place, "hosted-addons")):
        await place.admin.create(NAMESPACES, {"metadata": {"name": name, "labels": labels}})
    await up(spoke)
    managed = f"open-cluster-management:{H}-registration:addon-management"
    hosting = f"open-cluster-management:management:{H}-registration:addon-management"
    for place, role, namespace, account in (
        (far, managed, ADDON_NAMESPACE, AGENT_NAMESPACE),
        (far, managed, "shop", AGENT_NAMESPACE),
        (spoke.place, hosting, "hosted-addons", H),
    ):
        found = await place.until_found(ROLE_BINDINGS, role, namespace)
        assert [(one["name"], one["namespace"]) for one in found["subjects"]] == [(f"{H}-registration-sa", account)]
    await spoke.delete(H)
    await spoke.until_gone(H)
    assert not await far.find(ROLE_BINDINGS, managed, "shop")
    assert not await spoke.place.find(ROLE_BINDINGS, hosting, "hosted-addons")
    assert not await spoke.place.find(CLUSTER_ROLES, hosting)
