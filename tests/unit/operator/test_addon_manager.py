"""The addon manager of a hub: there unless its gate is off, with its own account, image and rights, and what administrators add."""

from __future__ import annotations

from muster.addon.framework.rules import AGGREGATED_ROLE
from muster.addon.install import ACCOUNT, RULES
from muster.api.addons import AGGREGATION_LABEL
from muster.machinery.objects import Object
from muster.operator.names import CLUSTER_MANAGERS
from muster.registration.names import HUB_NAMESPACE
from muster.runtime.client import Forbidden
from muster.runtime.client.builtin import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    DEPLOYMENTS,
    NAMESPACES,
    ROLE_BINDINGS,
    SECRETS,
    SERVICE_ACCOUNTS,
)
from muster.runtime.install import binding, rule
from tests.unit.operator.hubs import ADDON_MANAGER, CM, IMAGE, Hub

ROLE = f"open-cluster-management:{CM}-addon-manager:controller"
BINDING = f"open-cluster-management:{CM}-addon-manager:aggregated"
OWN = (
    (DEPLOYMENTS, ADDON_MANAGER, HUB_NAMESPACE),
    (SERVICE_ACCOUNTS, ACCOUNT, HUB_NAMESPACE),
    (CLUSTER_ROLES, ROLE, ""),
    (CLUSTER_ROLE_BINDINGS, ROLE, ""),
    (CLUSTER_ROLE_BINDINGS, BINDING, ""),
)


def gate(mode: str) -> Object:
    return {"featureGates": [{"feature": "AddonManagement", "mode": mode}]}


async def test_it_is_there_unless_its_gate_is_off(hub: Hub) -> None:
    await hub.up()
    for resource, name, namespace in OWN:
        assert await hub.place.find(resource, name, namespace), name
    container = await hub.container(ADDON_MANAGER)
    assert container["image"] == IMAGE
    assert container["args"][:2] == ["addon-manager", "--no-install"]
    related = (await hub.place.until_found(CLUSTER_MANAGERS, CM))["status"]["relatedResources"]
    assert {(resource.plural, name, namespace) for resource, name, namespace in OWN} <= {
        (one["resource"], one["name"], one.get("namespace", "")) for one in related
    }
    await hub.change({"addOnManagerConfiguration": gate("Disable")})
    for resource, name, namespace in OWN:
        await hub.place.until_gone(resource, name, namespace)
    await hub.says("Progressing", "False")
    await hub.says("ValidFeatureGates", "True")
    await hub.change({"addOnManagerConfiguration": gate("Enable")})
    for resource, name, namespace in OWN:
        await hub.place.until_found(resource, name, namespace)


async def test_it_has_an_image_of_its_own(hub: Hub) -> None:
    await hub.create(addOnManagerImagePullSpec="example.com/mirror/muster:addons")
    await hub.says("Applied", "True")
    assert (await hub.container(ADDON_MANAGER))["image"] == "example.com/mirror/muster:addons"


async def test_a_gate_that_it_does_not_know_is_named(hub: Hub) -> None:
    await hub.create(addOnManagerConfiguration={"featureGates": [{"feature": "Unheard", "mode": "Enable"}]})
    assert "Unheard" in (await hub.says("ValidFeatureGates", "False"))["message"]
    assert await hub.deployment(ADDON_MANAGER)


async def test_administrators_let_it_give_roles_to_addons_by_a_label(hub: Hub) -> None:
    await hub.up()
    admin, manager = hub.place.admin, hub.place.account(HUB_NAMESPACE, ACCOUNT)
    await admin.create(NAMESPACES, {"metadata": {"name": "c1"}})
    wanted = [rule("", ["pods"], ["get"])]
    await admin.create(CLUSTER_ROLES, {"metadata": {"name": "pod-reader"}, "rules": wanted})
    agent = {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "somebody's agent"}
    bound = binding("reader", "ClusterRole", "pod-reader", agent, "c1")
    try:
        await manager.create(ROLE_BINDINGS, bound)
    except Forbidden:
        pass
    else:
        raise AssertionError("it gave away what it does not hold")
    await admin.patch(CLUSTER_ROLES, "pod-reader", {"metadata": {"labels": {AGGREGATION_LABEL: "true"}}})

    async def gathered() -> bool:
        return bool((await hub.place.until_found(CLUSTER_ROLES, AGGREGATED_ROLE)).get("rules"))

    await hub.place.until(gathered, "the role is gathered")

    async def given() -> bool:
        try:
            await manager.create(ROLE_BINDINGS, bound)
        except Forbidden:
            return False
        return True

    await hub.place.until(given, "the manager may give it away")


async def test_the_operator_makes_the_binding_anew_though_it_does_not_hold_what_was_gathered(hub: Hub) -> None:
    await hub.up()
    admin = hub.place.admin
    role = {"metadata": {"name": "secret-reader", "labels": {AGGREGATION_LABEL: "true"}}, "rules": [rule("", ["secrets"], ["get"])]}
    await admin.create(CLUSTER_ROLES, role)

    async def gathered() -> bool:
        return bool((await hub.place.until_found(CLUSTER_ROLES, AGGREGATED_ROLE)).get("rules"))

    await hub.place.until(gathered, "the role is gathered")
    before = await hub.place.until_found(CLUSTER_ROLE_BINDINGS, BINDING)
    await admin.delete(CLUSTER_ROLE_BINDINGS, BINDING)

    async def anew() -> bool:
        found = await hub.place.find(CLUSTER_ROLE_BINDINGS, BINDING)
        return found is not None and found["metadata"]["uid"] != before["metadata"]["uid"]

    await hub.place.until(anew, "the binding is there again")


def test_it_may_neither_rise_above_itself_nor_read_secrets_nor_sign_for_others() -> None:
    """Defect 16: signers are named one by one."""
    assert not {verb for one in RULES for verb in one["verbs"]} & {"escalate", "bind", "impersonate", "sign", "*"}
    assert "secrets" not in {resource for one in RULES for resource in one["resources"]}
    (signers,) = (one for one in RULES if "signers" in one["resources"])
    assert signers["resourceNames"] == ["kubernetes.io/kube-apiserver-client"]


async def test_the_signers_secret_is_kept_without_a_grpc_server_too(hub: Hub) -> None:
    await hub.up()
    secret = await hub.place.until_found(SECRETS, "signer-secret", HUB_NAMESPACE)
    assert {"tls.crt", "tls.key"} <= secret["data"].keys()
    await hub.place.admin.delete(CLUSTER_MANAGERS, CM)
    await hub.until_gone()
    assert await hub.place.find(SECRETS, "signer-secret", HUB_NAMESPACE) is None
