"""A hub on which ManagedServiceAccountBindings count: what is there for it as long as a gate asks for it."""

from __future__ import annotations

import pytest

from muster.api.crds import ACCOUNTS, definitions
from muster.machinery.objects import Object
from muster.operator.names import CLUSTER_MANAGER_LABEL, CLUSTER_MANAGERS
from muster.registration.names import HUB_NAMESPACE
from muster.runtime.client.builtin import CLUSTER_ROLES, CRDS, DEPLOYMENTS
from muster.work.hub.install import BINDING_HOOK
from tests.unit.operator.hubs import CM, WORK_CONTROLLER, WORK_WEBHOOK, Hub

DEFINED = [kind.name for kind in ACCOUNTS]


def heeding(gate: str, mode: str = "Enable") -> Object:
    return {"featureGates": [{"feature": gate, "mode": mode}]}


async def begin(hub: Hub, gate: str) -> None:
    await hub.create(workConfiguration=heeding(gate))
    await hub.says("Applied", "True", "ClusterManagerApplied")
    await hub.available(WORK_CONTROLLER)


async def reads_bindings(hub: Hub, part: str) -> bool:
    role = await hub.place.find(CLUSTER_ROLES, f"open-cluster-management:{CM}-work:{part}")
    return role is not None and any("managedserviceaccountbindings" in one["resources"] for one in role["rules"])


@pytest.mark.parametrize("gate", ["ExecutorByBinding", "ExecutorByBindingOnly"])
async def test_bindings_count_as_long_as_a_gate_says_so(hub: Hub, gate: str) -> None:
    await begin(hub, gate)
    configured = await hub.place.until_found(BINDING_HOOK.resource, BINDING_HOOK.name)
    assert configured["webhooks"][0]["clientConfig"]["service"]["name"] == "cluster-manager-work-webhook"
    for name in DEFINED:
        await hub.place.until_found(CRDS, name)
    for name in (WORK_CONTROLLER, WORK_WEBHOOK):
        assert f"--feature-gates={gate}=true" in (await hub.container(name))["args"]
    for part in ("controller", "webhook"):
        assert await reads_bindings(hub, part)

    await hub.change({"workConfiguration": heeding(gate, "Disable")})
    await hub.place.until_gone(BINDING_HOOK.resource, BINDING_HOOK.name)
    await hub.place.until_gone(DEPLOYMENTS, WORK_CONTROLLER, HUB_NAMESPACE)
    assert not await reads_bindings(hub, "webhook")
    for name in DEFINED:
        assert await hub.place.find(CRDS, name), "users have things of these kinds"

    await hub.place.admin.delete(CLUSTER_MANAGERS, CM)
    await hub.until_gone()
    assert await hub.remains() == []


async def test_without_a_gate_nothing_of_it_is_there(hub: Hub) -> None:
    await hub.up()
    for name in DEFINED:
        assert await hub.place.find(CRDS, name) is None
    assert await hub.place.find(BINDING_HOOK.resource, BINDING_HOOK.name) is None
    assert not await reads_bindings(hub, "webhook")


async def test_definitions_that_an_addon_has_brought_stay_the_addons(hub: Hub) -> None:
    for document in definitions(ACCOUNTS):
        await hub.place.admin.create(CRDS, document)
    await begin(hub, "ExecutorByBinding")
    await hub.place.until_found(BINDING_HOOK.resource, BINDING_HOOK.name)
    for name in DEFINED:
        found = await hub.place.until_found(CRDS, name)
        assert CLUSTER_MANAGER_LABEL not in (found["metadata"].get("labels") or {})
    await hub.place.admin.delete(CLUSTER_MANAGERS, CM)
    await hub.until_gone()
    assert sorted(await hub.remains()) == sorted(f"{CRDS}/{name}" for name in DEFINED)
