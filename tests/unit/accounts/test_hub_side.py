"""The hub's side: what agents are given, accounts whose time is up, and the gateway's account and its rights on each cluster."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

from muster.accounts.names import AGENT
from muster.addon.agent_addon import AddonError, ConfigObject, Installation, KubeClient
from muster.administration.content.addons import AddonSettings, enable
from muster.administration.errors import AdministrationError
from muster.api.addon.v1alpha1 import GROUP, AddOnDeploymentConfig, ClusterManagementAddOn, ManagedClusterAddOn
from muster.api.authentication.v1beta1 import ManagedServiceAccount
from muster.api.cluster.v1 import ManagedCluster
from muster.machinery.golang.timestamps import format_time
from muster.machinery.objects import Object
from muster.operator.hub_addons import HUB_ADDONS, with_required
from muster.runtime.client import KubeError, NotFound, served
from muster.runtime.client.builtin import CRDS, NAMESPACES, ROLE_BINDINGS, SECRETS
from tests.support.mortal_hub import Life
from tests.support.own_addons_hub import CLUSTERS, INSTALLED, OwnAddonsHub, conditions

ACCOUNTS = served(ManagedServiceAccount)
CONFIGS = served(AddOnDeploymentConfig)
NAMESPACE = "open-cluster-management-agent-addon"
GATEWAY, MANAGED = "cluster-gateway", "managed-serviceaccount"


class HubSite(OwnAddonsHub):
    async def available(self, cluster: str, reason: str, status: str) -> str:
        async def look() -> str:
            said = await self.condition(cluster, GATEWAY, "Available")
            return str(said["message"]) if (said.get("reason"), said.get("status")) == (reason, status) else ""

        return str(await self.until(look, f"{reason} of {cluster}"))


@pytest.fixture
async def site() -> AsyncIterator[HubSite]:
    async with HubSite.running() as found:
        yield found


async def test_an_agent_with_its_rights_on_cluster_and_hub(site: HubSite) -> None:
    await site.cluster("c1")
    await site.enable("c1", MANAGED)
    async with site.managers():
        (work,) = await site.until(lambda: site.works("c1", MANAGED), "the work")
        manifests = {one["kind"]: one for one in work["spec"]["workload"]["manifests"]}
        assert set(manifests) == {
            *("ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding", "Deployment"),
        }
        pod = manifests["Deployment"]["spec"]["template"]["spec"]
        assert pod["containers"][0]["image"] == "muster:test"
        assert "--cluster-name=c1" in pod["containers"][0]["args"]
        assert pod["volumes"][0]["secret"]["secretName"] == f"{MANAGED}-hub-kubeconfig"

        async def bound() -> list[Object]:
            found = (await site.admin.list(ROLE_BINDINGS, "c1")).items
            return [one for one in found if one["roleRef"]["name"] == AGENT]

        (binding,) = await site.until(bound, "the binding")
        user = "system:open-cluster-management:cluster:c1:addon:managed-serviceaccount:agent:managed-serviceaccount-agent"
        assert user in [one["name"] for one in binding["subjects"]]


async def test_the_manager_may_read_no_secret(site: HubSite) -> None:
    """Though agents get the right to from it."""
    await site.create(NAMESPACES, "c1")
    for ask in (lambda: site.own(Life()).list(SECRETS), lambda: site.own(Life()).get(SECRETS, "x", "c1")):
        with pytest.raises(Exception, match=r"cannot (list|get) resource"):
            await ask()


async def test_an_account_goes_when_its_time_is_up(site: HubSite) -> None:
    await site.cluster("c1")
    made = await site.create(ACCOUNTS, "brief", "c1", spec={"rotation": {}, "ttlSecondsAfterCreation": 600})
    await site.create(ACCOUNTS, "lasting", "c1", spec={"rotation": {}})
    async with site.managers():
        assert made["metadata"]["creationTimestamp"]
        await site.until(lambda: site.admin.get(ACCOUNTS, "brief", "c1"), "nothing yet", moving=590)
        assert (await site.admin.get(ACCOUNTS, "brief", "c1"))["metadata"]["uid"] == made["metadata"]["uid"]

        async def names() -> bool:
            return [one["metadata"]["name"] for one in (await site.admin.list(ACCOUNTS, "c1")).items] == ["lasting"]

        await site.until(names, "the end of it", moving=2.0)


async def test_the_gateway_is_available_when_it_has_rights_and_a_token(site: HubSite) -> None:
    await site.cluster("c1")
    await site.enable("c1", GATEWAY)
    async with site.managers():
        message = await site.available("c1", "AccountsNotEnabled", "False")
        assert "clusteradm addon enable --names managed-serviceaccount --clusters c1" in message
        await site.enable("c1", MANAGED)
        await site.available("c1", "RightsNotApplied", "False")
        (work,) = await site.until(lambda: site.works("c1", GATEWAY), "the work")
        (binding,) = work["spec"]["workload"]["manifests"]
        assert binding["roleRef"]["name"] == "cluster-admin"
        assert binding["subjects"] == [{"kind": "ServiceAccount", "name": GATEWAY, "namespace": NAMESPACE}]
        await site.apply_works("c1", GATEWAY)
        await site.available("c1", "TokenNotReported", "Unknown")
        account = await site.admin.get(ACCOUNTS, GATEWAY, "c1")
        assert [one["kind"] for one in account["metadata"]["ownerReferences"]] == ["ManagedClusterAddOn"]
        failed = conditions("TokenReported", status="False", message="no token: really")
        await site.admin.patch(ACCOUNTS, GATEWAY, failed, "c1", subresource="status")
        assert "really" in await site.available("c1", "TokenNotReported", "False")
        reported = conditions("TokenReported")
        reported["status"]["expirationTimestamp"] = format_time(site.clock.now() + timedelta(hours=1))
        await site.admin.patch(ACCOUNTS, GATEWAY, reported, "c1", subresource="status")
        await site.available("c1", "TokenReported", "True")
        await site.clock.advance(3600)
        await site.available("c1", "TokenExpired", "False")


async def test_an_account_that_is_there_is_used_as_it_is(site: HubSite) -> None:
    await site.cluster("c1")
    made = await site.create(ACCOUNTS, GATEWAY, "c1", spec={"rotation": {"validity": "1h0m0s"}})
    await site.enable("c1", MANAGED, GATEWAY)
    async with site.managers():
        await site.apply_works("c1", GATEWAY)
        await site.available("c1", "TokenNotReported", "Unknown")
    found = await site.admin.get(ACCOUNTS, GATEWAY, "c1")
    assert (found["metadata"]["uid"], found["spec"]) == (made["metadata"]["uid"], made["spec"])


async def test_the_account_and_the_rights_go_with_the_addon(site: HubSite) -> None:
    await site.cluster("c1")
    await site.enable("c1", MANAGED, GATEWAY)
    async with site.managers():
        await site.until(lambda: site.works("c1", GATEWAY), "the work")
        await site.until(lambda: site.admin.get(ACCOUNTS, GATEWAY, "c1"), "the account")
        await site.admin.delete(INSTALLED, GATEWAY, "c1")

        async def gone() -> bool:
            try:
                await site.admin.get(ACCOUNTS, GATEWAY, "c1")
            except NotFound:
                return not await site.works("c1", GATEWAY)
            return False

        await site.until(gone, "both to go")
        await site.works("c1", MANAGED)


@pytest.mark.parametrize("early", [True, False], ids=["before", "after"])
async def test_dying_at_any_write(site: HubSite, early: bool) -> None:
    for writes in range(early, 40, 3):
        name = f"c{writes}"
        await site.cluster(name)
        await site.enable(name, MANAGED, GATEWAY)
        async with site.managers(Life(writes, before=early)) as life:
            over = asyncio.create_task(life.over.wait())
            end = asyncio.create_task(_there(site, name))
            await asyncio.wait({over, end}, return_when=asyncio.FIRST_COMPLETED)
            for task in (over, end):
                task.cancel()
            await asyncio.gather(over, end, return_exceptions=True)
        async with site.managers():
            await _there(site, name)
            await site.admin.delete(INSTALLED, GATEWAY, name)
            await site.admin.delete(INSTALLED, MANAGED, name)
        await site.admin.delete(CLUSTERS, name)
        if not life.over.is_set():
            return
    raise AssertionError("no cluster should need so many writes")


async def _there(site: HubSite, cluster: str) -> None:
    for addon in (MANAGED, GATEWAY):
        await site.apply_works(cluster, addon)

    async def account() -> Object | None:
        with suppress(NotFound):
            return await site.admin.get(ACCOUNTS, GATEWAY, cluster)
        return None

    await site.until(account, "the account")
    reported = conditions("TokenReported")
    reported["status"]["expirationTimestamp"] = format_time(site.clock.now() + timedelta(hours=1))
    await site.admin.patch(ACCOUNTS, GATEWAY, reported, cluster, subresource="status")
    await site.available(cluster, "TokenReported", "True")


async def test_enabling_the_gateway_enables_what_it_requires(site: HubSite) -> None:
    await site.cluster("c1")
    await site.cluster("c2")
    config = {"group": GROUP, "resource": CONFIGS.plural, "namespace": "x", "name": "y"}
    await site.create(INSTALLED, MANAGED, "c2", spec={"configs": [config]})
    outcomes = await enable(site.admin, [GATEWAY], ["c1", "c2"], AddonSettings())
    assert [(one.cluster, one.addon) for one in outcomes] == [("c1", MANAGED), ("c1", GATEWAY), ("c2", GATEWAY)]
    assert (await site.admin.get(INSTALLED, MANAGED, "c2"))["spec"]["configs"] == [config]


async def test_an_addon_of_ours_that_is_not_installed_says_how(site: HubSite) -> None:
    await site.admin.delete(served(ClusterManagementAddOn), GATEWAY)
    with pytest.raises(AdministrationError, match=f"clusteradm install hub-addon --names {GATEWAY}"):
        await enable(site.admin, [GATEWAY], ["c1"], AddonSettings())


HOSTILE: tuple[Any, ...] = (None, 0, -1, 1 << 40, True, "x", [], {}, [None], {"x": {"y": []}}, -1e300)


async def test_accounts_of_any_shape_harm_themselves_alone(site: HubSite) -> None:
    definition = await site.admin.get(CRDS, f"{ACCOUNTS.plural}.{ACCOUNTS.group}")
    for version in definition["spec"]["versions"]:
        version["schema"] = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    await site.admin.update(CRDS, definition)
    await site.cluster("c1")
    await site.enable("c1", MANAGED, GATEWAY)
    async with site.managers():
        await _there(site, "c1")
        for number, value in enumerate(HOSTILE):
            name = f"c{number}x"
            await site.cluster(name)
            await site.create(ACCOUNTS, GATEWAY, name, spec={"rotation": {}, "ttlSecondsAfterCreation": value})
            await site.enable(name, MANAGED, GATEWAY)
            for status in ({"conditions": value}, {"expirationTimestamp": value}, value):
                with suppress(KubeError):
                    await site.admin.patch(ACCOUNTS, GATEWAY, {"status": status}, name, subresource="status")
        await site.create(ACCOUNTS, "brief", "c1", spec={"rotation": {}, "ttlSecondsAfterCreation": 30})

        async def over() -> bool:
            return "brief" not in [one["metadata"]["name"] for one in (await site.admin.list(ACCOUNTS, "c1")).items]

        await site.until(over, "the end of a brief account", moving=1.0)
        await site.cluster("last")
        await site.enable("last", MANAGED, GATEWAY)
        await _there(site, "last")


def _installation(addon: str, **spec: Any) -> Installation:
    cluster = ManagedCluster.decode({"metadata": {"name": "c1"}, "spec": {}})
    managed = ManagedClusterAddOn.decode({"metadata": {"name": addon, "namespace": "c1"}, "spec": {}})
    document = {"apiVersion": CONFIGS.api_version, "kind": CONFIGS.kind, "metadata": {"name": "x", "namespace": "y"}, "spec": spec}
    return Installation(cluster, managed, (ConfigObject(GROUP, CONFIGS.plural, document, "hash"),))


def test_a_configuration_chooses_the_role_and_the_namespace() -> None:
    addon = HUB_ADDONS[GATEWAY].make("muster")
    variables = [{"name": "clusterRole", "value": "view"}]
    agent = addon.agent(_installation(GATEWAY, customizedVariables=variables, agentInstallNamespace="other"))
    (binding,) = agent.manifests
    assert binding["roleRef"]["name"] == "view"
    assert binding["metadata"]["name"].endswith(":view")
    assert binding["subjects"][0]["namespace"] == agent.namespace == "other"


@pytest.mark.parametrize("role", ["..", "a/b", "50%"])
def test_a_role_that_cannot_be_is_named(role: str) -> None:
    addon = HUB_ADDONS[GATEWAY].make("muster")
    with pytest.raises(AddonError, match="clusterRole"):
        addon.agent(_installation(GATEWAY, customizedVariables=[{"name": "clusterRole", "value": role}]))


def test_a_tunnel_is_opened_where_the_configuration_says() -> None:
    addon = HUB_ADDONS[GATEWAY].make("muster:1")
    assert addon.agent(_installation(GATEWAY)).registrations == ()
    agent = addon.agent(_installation(GATEWAY, customizedVariables=[{"name": "tunnel", "value": "true"}]))
    binding, account, deployment = agent.manifests
    # What runs on the cluster is not the account by which the gateway may do everything there.
    assert account["metadata"]["name"] == "cluster-gateway-agent" != binding["subjects"][0]["name"]
    pod = deployment["spec"]["template"]["spec"]
    assert pod["serviceAccountName"] == "cluster-gateway-agent"
    assert pod["containers"][0]["args"][:2] == ["gateway-agent", "--cluster-name=c1"]
    (credential,) = agent.registrations
    assert isinstance(credential, KubeClient)
    assert credential.permissions == ()
    with pytest.raises(AddonError, match="tunnel"):
        addon.agent(_installation(GATEWAY, customizedVariables=[{"name": "tunnel", "value": "yes"}]))


def test_the_agent_runs_where_and_as_the_configuration_says() -> None:
    addon = HUB_ADDONS[MANAGED].make("muster:1")
    placement = {"nodeSelector": {"a": "b"}, "tolerations": [{"key": "x", "operator": "Exists"}]}
    mirrors = [{"source": "muster", "mirror": "mirror.example/muster"}]
    agent = addon.agent(_installation(MANAGED, agentInstallNamespace="other", nodePlacement=placement, registries=mirrors))
    manifests = {one["kind"]: one for one in agent.manifests}
    pod = manifests["Deployment"]["spec"]["template"]["spec"]
    assert pod["nodeSelector"] == {"a": "b"}
    assert pod["containers"][0]["image"] == "mirror.example/muster:1"
    assert {one["metadata"].get("namespace", "") for one in agent.manifests} == {"", "other"}
    assert "addon.open-cluster-management.io/deletion-orphan" in manifests["Namespace"]["metadata"]["annotations"]


def test_what_an_addon_requires_comes_first() -> None:
    assert with_required(["hello", GATEWAY]) == ["hello", MANAGED, GATEWAY]
    assert with_required([MANAGED, GATEWAY]) == [MANAGED, GATEWAY]
