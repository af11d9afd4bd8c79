"""The addons of policies on their hub: what clusters are sent, as whom hub templates are resolved, and what goes with an addon."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Awaitable, Coroutine
from typing import Any

import pytest

from muster.api.addons import ADDON_LABEL, AddonIdentity
from muster.api.agents import CLUSTER_LABEL
from muster.api.cluster.v1 import ManagedCluster
from muster.machinery.authentication import UserInfo
from muster.machinery.objects import Object
from muster.policy.names import CONFIG_POLICY_ADDON as CONTROLLER
from muster.policy.names import STANDALONE_ADDON as STANDALONE
from muster.policy.names import UNINSTALLING_ANNOTATION
from muster.registration.drivers.certificates.agents import agent_profile
from muster.registration.drivers.certificates.requests import new_key, request_object
from muster.registration.names import AgentIdentity
from muster.runtime.client import Forbidden, KubeClient
from muster.runtime.client.builtin import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CONFIG_MAPS,
    LEASES,
    NAMESPACES,
    ROLE_BINDINGS,
    SECRETS,
    SIGNING_REQUESTS,
)
from muster.work.kinds import MANIFEST_WORKS
from tests.support.mortal_hub import Life
from tests.support.own_addons_hub import CLUSTERS, INSTALLED, OwnAddonsHub, conditions

FLAG = "--standalone-hub-templates-kubeconfig-path=/var/run/standalone-hub-templating/kubeconfig"
SECRET = f"{STANDALONE}-hub-kubeconfig"
REQUEST = request_object("x", agent_profile(AgentIdentity("x", "y")), new_key())["spec"]["request"]


class PolicyHub(OwnAddonsHub):
    async def controller(self, cluster: str) -> Object | None:
        """The Deployment that the cluster is sent."""
        manifests = [one for work in await self.works(cluster, CONTROLLER) for one in work["spec"]["workload"]["manifests"]]
        return next((one for one in manifests if one["kind"] == "Deployment"), None)

    async def resolves_hub_templates(self, cluster: str) -> bool | None:
        """By flag and volume, which come and go together."""
        found = await self.controller(cluster)
        if found is None:
            return None
        pod = found["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        volumes = {one["secret"]["secretName"]: one["name"] for one in pod["volumes"]}
        mounted = {one["name"]: one["mountPath"] for one in container["volumeMounts"]}
        assert (FLAG in container["args"]) == (SECRET in volumes)
        if SECRET not in volumes:
            return False
        return mounted[volumes[SECRET]] == "/var/run/standalone-hub-templating"

    def user(self, cluster: str) -> KubeClient:
        """Who resolves hub templates of a cluster."""
        identity = AddonIdentity(cluster, STANDALONE, STANDALONE)
        return self.client(UserInfo(identity.user, groups=(*identity.groups, "system:authenticated")))

    async def rights(self) -> list[str]:
        """What there is for users of hub templates on the hub."""
        roles = (await self.admin.list(CLUSTER_ROLES, label_selector=f"{ADDON_LABEL}={STANDALONE}")).items
        bindings = (await self.admin.list(CLUSTER_ROLE_BINDINGS, label_selector=f"{ADDON_LABEL}={STANDALONE}")).items
        return [one["metadata"]["name"] for one in (*roles, *bindings)]

    async def request(self, cluster: str, addon: str, number: int) -> None:
        """As the cluster's agent makes them, settled long ago."""
        metadata = {"name": f"addon-{cluster}-{addon}-{number}", "labels": {CLUSTER_LABEL: cluster, ADDON_LABEL: addon}}
        spec = {"request": REQUEST, "signerName": "kubernetes.io/kube-apiserver-client", "usages": ["client auth"]}
        await self.admin.create(
            SIGNING_REQUESTS,
            {"apiVersion": SIGNING_REQUESTS.api_version, "kind": SIGNING_REQUESTS.kind, "metadata": metadata, "spec": spec},
        )

    async def requests(self, cluster: str) -> list[str]:
        found = await self.admin.list(SIGNING_REQUESTS, label_selector=f"{CLUSTER_LABEL}={cluster}")
        return sorted(one["metadata"]["name"] for one in found.items)

    async def may_see(self, cluster: str, whose: str) -> bool:
        try:
            found = await self.user(cluster).list(CLUSTERS, field_selector=f"metadata.name={whose}")
        except Forbidden:
            return False
        return [one["metadata"]["name"] for one in found.items] == [whose]


@pytest.fixture
async def hub() -> AsyncIterator[PolicyHub]:
    async with PolicyHub.running() as found:
        yield found


async def test_nothing_is_enabled_by_being_there(hub: PolicyHub) -> None:
    await hub.cluster("c1")
    async with hub.managers():
        await hub.enable("c1", CONTROLLER)
        await hub.until(lambda: hub.controller("c1"), "the controller")
        assert await hub.resolves_hub_templates("c1") is False
        assert await hub.rights() == []
        assert [one["metadata"]["name"] for one in (await hub.admin.list(INSTALLED)).items] == [CONTROLLER]


async def test_the_controller_is_told_of_hub_templates_while_the_other_addon_is_enabled(hub: PolicyHub) -> None:
    for cluster in ("c1", "c2"):
        await hub.cluster(cluster)
        await hub.enable(cluster, CONTROLLER)
    async with hub.managers():
        await hub.until(lambda: hub.controller("c1"), "the controller")
        for _ in range(3):
            began = hub.clock.monotonic()
            await hub.enable("c1", STANDALONE)
            await hub.until(lambda: hub.resolves_hub_templates("c1"), "the flag")
            await hub.admin.delete(INSTALLED, STANDALONE, "c1")

            async def off() -> bool:
                return await hub.resolves_hub_templates("c1") is False

            await hub.until(off, "no flag")
            assert hub.clock.monotonic() - began < 5
        assert await hub.resolves_hub_templates("c2") is False


async def test_both_at_once_in_any_order(hub: PolicyHub) -> None:
    await hub.cluster("c1")
    await hub.enable("c1", STANDALONE, CONTROLLER)
    async with hub.managers():
        await hub.until(lambda: hub.resolves_hub_templates("c1"), "the flag")


async def test_a_credential_in_another_namespace_is_not_waited_for(hub: PolicyHub) -> None:
    await hub.cluster("c1")
    await hub.enable("c1", CONTROLLER)
    await hub.create(INSTALLED, STANDALONE, "c1", spec={"installNamespace": "elsewhere"})
    async with hub.managers():

        async def warned() -> str:
            await hub.apply_works("c1", CONTROLLER)
            said = await hub.condition("c1", CONTROLLER, "ManifestApplied")
            return str(said.get("message") or "") if "elsewhere" in str(said.get("message")) else ""

        assert "the same agentInstallNamespace" in await hub.until(warned, "a warning")
        assert await hub.resolves_hub_templates("c1") is False


async def test_the_user_of_hub_templates_sees_its_own_cluster_and_nothing_else(hub: PolicyHub) -> None:
    for cluster in ("c1", "c2", "c10"):
        await hub.cluster(cluster)
    await hub.enable("c1", CONTROLLER, STANDALONE)
    await hub.enable("c2", CONTROLLER, STANDALONE)
    async with hub.managers():
        await hub.until(lambda: hub.may_see("c1", "c1"), "the right")
        await hub.until(lambda: hub.may_see("c2", "c2"), "the right")
        status = (await hub.admin.get(INSTALLED, STANDALONE, "c1")).get("status") or {}
        (registration,) = status["registrations"]
        group = f"system:open-cluster-management:cluster:c1:addon:{STANDALONE}"
        assert registration["subject"]["user"] == f"{group}:agent:{STANDALONE}"
        assert registration["subject"]["groups"] == [group, f"system:open-cluster-management:addon:{STANDALONE}"]
        own = hub.user("c1")
        stream = own.watch(ManagedCluster, field_selector="metadata.name=c1", initial_events=True)
        assert (await anext(stream)).object.metadata.name == "c1"
        await stream.aclose()
        assert not await hub.may_see("c1", "c2")
        assert not await hub.may_see("c10", "c1")
        refused: list[Awaitable[Any]] = [
            own.get(CLUSTERS, "c1"),
            own.list(CLUSTERS),
            own.patch(CLUSTERS, "c1", {"metadata": {"labels": {"a": "b"}}}),
            own.list(CONFIG_MAPS, "c1"),
            own.get(SECRETS, "x", "c1"),
            own.get(LEASES, STANDALONE, "c1"),
            own.create(
                LEASES, {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "x", "namespace": "c1"}}
            ),
            own.list(NAMESPACES),
        ]
        for asked in refused:
            with pytest.raises(Forbidden):
                await asked


async def test_the_cluster_is_told_the_group_to_give_rights_to(hub: PolicyHub) -> None:
    await hub.cluster("c1")
    await hub.enable("c1", CONTROLLER, STANDALONE)
    async with hub.managers():
        (work,) = await hub.until(lambda: hub.works("c1", STANDALONE), "the work")
        (secret,) = work["spec"]["workload"]["manifests"]
        assert (secret["kind"], secret["metadata"]["name"]) == ("Secret", f"{STANDALONE}-info")
        group = base64.b64decode(secret["data"]["hub.group"]).decode()
        assert group == f"system:open-cluster-management:cluster:c1:addon:{STANDALONE}"


async def test_rights_go_with_the_addon(hub: PolicyHub) -> None:
    await hub.cluster("c1")
    await hub.enable("c1", CONTROLLER, STANDALONE)
    async with hub.managers():
        await hub.until(lambda: hub.may_see("c1", "c1"), "the right")
        await hub.admin.delete(INSTALLED, STANDALONE, "c1")

        async def gone() -> bool:
            return not await hub.rights() and not await hub.works("c1", STANDALONE)

        await hub.until(gone, "nothing left")
    assert not await hub.may_see("c1", "c1")


async def test_rights_go_also_when_nobody_looked(hub: PolicyHub) -> None:
    await hub.cluster("c1")
    await hub.enable("c1", CONTROLLER, STANDALONE)
    async with hub.managers():
        await hub.until(lambda: hub.may_see("c1", "c1"), "the right")
    await hub.admin.delete(INSTALLED, STANDALONE, "c1")
    assert len(await hub.rights()) == 2

    async def gone() -> bool:
        return not await hub.rights()

    async with hub.managers():
        await hub.until(gone, "nothing left")


async def test_requests_go_with_the_addon_and_what_comes_after_stays(hub: PolicyHub) -> None:
    await hub.cluster("c1")
    await hub.cluster("c2")
    await hub.enable("c1", CONTROLLER, STANDALONE)
    await hub.enable("c2", CONTROLLER, STANDALONE)
    for name in ("c1", "c2"):
        for number in range(10):
            await hub.request(name, STANDALONE, number)
    await hub.request("c1", CONTROLLER, 0)
    async with hub.managers():
        await hub.until(lambda: hub.may_see("c1", "c1"), "the right")
        assert len(await hub.requests("c1")) == 11
        await hub.admin.delete(INSTALLED, STANDALONE, "c1")

        async def own() -> bool:
            return await hub.requests("c1") == [f"addon-c1-{CONTROLLER}-0"]

        await hub.until(own, "the requests to go")
        await hub.clock.advance(2)
        await hub.enable("c1", STANDALONE)
        await hub.request("c1", STANDALONE, 1)
        await hub.clock.advance(600)
        assert len(await hub.requests("c1")) == 2
        assert len(await hub.requests("c2")) == 10


async def test_requests_of_an_addon_that_went_while_nobody_looked_are_of_the_past(hub: PolicyHub) -> None:
    await hub.cluster("c1")
    await hub.request("c1", STANDALONE, 0)
    await hub.clock.advance(3)
    await hub.enable("c1", STANDALONE)
    await hub.request("c1", STANDALONE, 1)
    await hub.request("c1", CONTROLLER, 0)
    async with hub.managers():

        async def left(*names: str) -> bool:
            return await hub.requests("c1") == list(names)

        fresh, young = f"addon-c1-{STANDALONE}-1", f"addon-c1-{CONTROLLER}-0"
        await hub.until(lambda: left(young, fresh), "the one of before to go")
        # The addon may be there, and not be known yet.
        await hub.until(lambda: left(fresh), "the one of no addon to go", moving=5)
        assert hub.clock.monotonic() >= 60


async def test_rights_that_somebody_changes_are_set_right(hub: PolicyHub) -> None:
    await hub.cluster("c1")
    await hub.cluster("c2")
    await hub.enable("c1", CONTROLLER, STANDALONE)
    async with hub.managers():
        await hub.until(lambda: hub.may_see("c1", "c1"), "the right")
        name = f"open-cluster-management:{STANDALONE}:c1:managedcluster"
        wider = {"rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]}
        await hub.admin.patch(CLUSTER_ROLES, name, wider)

        async def narrow() -> bool:
            return await hub.may_see("c1", "c1") and not await hub.may_see("c1", "c2")

        await hub.until(narrow, "the right as it was")
        subjects = {"subjects": [{"kind": "Group", "name": "system:authenticated", "apiGroup": "rbac.authorization.k8s.io"}]}
        await hub.admin.patch(CLUSTER_ROLE_BINDINGS, name, subjects)

        async def own() -> bool:
            found = await hub.admin.get(CLUSTER_ROLE_BINDINGS, name)
            return [one["name"] for one in found["subjects"]] == [f"system:open-cluster-management:cluster:c1:addon:{STANDALONE}"]

        await hub.until(own, "the binding as it was")
        await hub.admin.delete(CLUSTER_ROLES, name)
        await hub.until(lambda: hub.may_see("c1", "c1"), "the role again")


async def test_an_agent_by_token_is_let_see_its_cluster_as_its_service_account(hub: PolicyHub) -> None:
    await hub.cluster("c1")
    await hub.enable("c1", CONTROLLER, STANDALONE)
    await hub.admin.patch(INSTALLED, STANDALONE, {"status": {"kubeClientDriver": "token"}}, "c1", subresource="status")
    account = hub.client(UserInfo(f"system:serviceaccount:c1:{STANDALONE}-agent", groups=("system:authenticated",)))
    async with hub.managers():

        async def sees() -> bool:
            try:
                return bool((await account.list(CLUSTERS, field_selector="metadata.name=c1")).items)
            except Forbidden:
                return False

        await hub.until(sees, "the right")


async def test_the_controllers_own_user_has_its_lease_alone(hub: PolicyHub) -> None:
    await hub.cluster("c1")
    await hub.enable("c1", CONTROLLER, STANDALONE)
    async with hub.managers():

        async def bound() -> list[Object]:
            found = (await hub.admin.list(ROLE_BINDINGS, "c1")).items
            return [one for one in found if one["roleRef"]["name"] == f"open-cluster-management:{CONTROLLER}-hub"]

        (binding,) = await hub.until(bound, "the binding")
        user = f"system:open-cluster-management:cluster:c1:addon:{CONTROLLER}:agent:{CONTROLLER}"
        assert [one["name"] for one in binding["subjects"]] == [user]
        own = hub.client(UserInfo(user, groups=("system:authenticated",)))
        lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": CONTROLLER, "namespace": "c1"}}
        await own.create(LEASES, lease)
        await own.get(LEASES, CONTROLLER, "c1")
        for asked in (own.list(CLUSTERS), own.get(SECRETS, "x", "c1"), own.get(LEASES, "other", "c1")):
            with pytest.raises(Forbidden):
                await asked


async def test_a_paused_addon_stays_as_it_is(hub: PolicyHub) -> None:
    await hub.cluster("c1")
    await hub.enable("c1", CONTROLLER)
    async with hub.managers():
        await hub.until(lambda: hub.controller("c1"), "the controller")
        pause: Object = {"metadata": {"annotations": {"policy-addon-pause": "true", "log-level": "5"}}}
        await hub.admin.patch(INSTALLED, CONTROLLER, pause, "c1")

        async def paused() -> bool:
            said = await hub.condition("c1", CONTROLLER, "ManifestApplied")
            return said.get("status") == "False" and "policy-addon-pause" in said["message"]

        await hub.until(paused, "the pause to be said")
        found = await hub.controller("c1")
        assert found is not None
        assert "--log-level=0" in found["spec"]["template"]["spec"]["containers"][0]["args"]
        pause["metadata"]["annotations"]["policy-addon-pause"] = None
        await hub.admin.patch(INSTALLED, CONTROLLER, pause, "c1")

        async def changed() -> bool:
            now = await hub.controller("c1")
            return now is not None and "--log-level=5" in now["spec"]["template"]["spec"]["containers"][0]["args"]

        await hub.until(changed, "the end of the pause")


@pytest.mark.parametrize("paused", [False, True], ids=["running", "paused"])
async def test_policies_are_let_go_before_the_controller_goes(hub: PolicyHub, paused: bool) -> None:
    await hub.cluster("c1")
    await hub.enable("c1", CONTROLLER)
    async with hub.managers():
        found = await hub.until(lambda: hub.controller("c1"), "the controller")
        assert found["metadata"]["annotations"][UNINSTALLING_ANNOTATION] == "false"
        if paused:
            await hub.admin.patch(INSTALLED, CONTROLLER, {"metadata": {"annotations": {"policy-addon-pause": "true"}}}, "c1")
        await hub.admin.delete(INSTALLED, CONTROLLER, "c1")
        hook = f"addon-{CONTROLLER}-pre-delete"
        work = await hub.until(lambda: hub.find(MANIFEST_WORKS, hook, "c1"), "the hook")
        (pod,) = work["spec"]["workload"]["manifests"]
        assert (pod["kind"], pod["metadata"]["name"]) == ("Pod", f"{CONTROLLER}-uninstall")
        assert pod["spec"]["containers"][0]["command"] == ["config-policy-controller"]
        assert pod["spec"]["containers"][0]["args"][:5] == [
            "trigger-uninstall",
            f"--deployment-name={CONTROLLER}",
            "--deployment-namespace=open-cluster-management-agent-addon",
            "--policy-namespace=c1",
            "--additional-namespace=open-cluster-management-policies",
        ]

        async def told() -> bool:
            now = await hub.controller("c1")
            return now is not None and now["metadata"]["annotations"][UNINSTALLING_ANNOTATION] == "true"

        await hub.until(told, "the controller to be told")
        assert await hub.find(INSTALLED, CONTROLLER, "c1") is not None
        await _complete(hub, work)

        async def gone() -> bool:
            return await hub.find(INSTALLED, CONTROLLER, "c1") is None and not await hub.works("c1", CONTROLLER)

        await hub.until(gone, "the end")


async def _complete(hub: PolicyHub, work: Object) -> None:
    """As the work agent of a cluster where the hook's pod has ended well."""
    (pod,) = work["spec"]["workload"]["manifests"]
    place = {"name": pod["metadata"]["name"], "namespace": pod["metadata"]["namespace"]}
    kind = {"group": "", "version": "v1", "kind": "Pod", "resource": "pods"}
    value = {"name": "PodPhase", "fieldValue": {"type": "String", "string": "Succeeded"}}
    status = conditions("Applied", "Available")
    for one in status["status"]["conditions"]:
        one["observedGeneration"] = work["metadata"]["generation"]
    meta = {"ordinal": 0, **kind, **place}
    status["status"]["resourceStatus"] = {
        "manifests": [{"resourceMeta": meta, "conditions": [], "statusFeedback": {"values": [value]}}]
    }
    await hub.admin.patch(MANIFEST_WORKS, work["metadata"]["name"], status, "c1", subresource="status")


@pytest.mark.parametrize("early", [True, False], ids=["before", "after"])
async def test_dying_at_any_write_of_enabling_and_disabling(hub: PolicyHub, early: bool) -> None:
    for writes in range(early, 60, 3):
        name = f"c{writes}"
        await hub.cluster(name)
        await hub.enable(name, CONTROLLER, STANDALONE)
        async with hub.managers(Life(writes, before=early)) as life:
            await _until_over(life, _on_and_off(hub, name))
        async with hub.managers():
            if await hub.find(INSTALLED, STANDALONE, name) is not None:
                await _on_and_off(hub, name)
            await _off(hub, name)
        await hub.admin.patch(INSTALLED, CONTROLLER, {"metadata": {"finalizers": None}}, name)
        await hub.admin.delete(INSTALLED, CONTROLLER, name)
        await hub.admin.delete(CLUSTERS, name)
        if not life.over.is_set():
            return
    raise AssertionError("no cluster should need so many writes")


async def _until_over(life: Life, what: Coroutine[Any, Any, None]) -> None:
    over, course = asyncio.create_task(life.over.wait()), asyncio.create_task(what)
    await asyncio.wait({over, course}, return_when=asyncio.FIRST_COMPLETED)
    if not over.done():
        course.result()
    for task in (over, course):
        task.cancel()
    await asyncio.gather(over, course, return_exceptions=True)


async def _on_and_off(hub: PolicyHub, cluster: str) -> None:
    await hub.until(lambda: hub.may_see(cluster, cluster), "the right")
    await hub.until(lambda: hub.resolves_hub_templates(cluster), "the flag")
    await hub.admin.delete(INSTALLED, STANDALONE, cluster)
    await _off(hub, cluster)


async def _off(hub: PolicyHub, cluster: str) -> None:
    async def off() -> bool:
        return await hub.resolves_hub_templates(cluster) is False and not await hub.rights()

    await hub.until(off, "nothing of hub templates")
