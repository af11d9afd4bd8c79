"""Roles on the hub: whom they are bound to, one binding for each, gone when nobody asks for them any more."""

from __future__ import annotations

import random

import pytest

from muster.addon.agent_addon import Agent, Installation, KubeClient, RoleBindingRequest
from muster.addon.driver_changes import REMOVALS, WINDOW
from muster.api.addons import CERTIFICATE_ROTATED as CERTIFICATE
from muster.api.addons import TOKEN_REFRESHED as TOKEN
from muster.machinery.objects import Object, ObjectKey
from muster.runtime.client.builtin import CLUSTER_ROLES
from tests.unit.addon.framework.conftest import ADDON, BINDINGS, CLUSTER, MCAS, AddonSite, config_map

IN_CLUSTER = RoleBindingRequest("ClusterRole", "reads-leases")
SHARED = RoleBindingRequest("ClusterRole", "reads-leases", namespace="shared")


def user(cluster: str) -> str:
    return f"system:open-cluster-management:cluster:{cluster}:addon:{ADDON}:agent:{ADDON}-agent"


async def role(site: AddonSite, name: str = "reads-leases", *, aggregated: bool = True) -> None:
    labels = {"open-cluster-management.io/aggregate-to-addon-manager": "true"} if aggregated else {}
    rules = [{"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get"]}]
    await site.admin.apply(CLUSTER_ROLES, {"metadata": {"name": name, "labels": labels}, "rules": rules}, manager="test")


def asks(site: AddonSite, *requests: RoleBindingRequest) -> None:
    def make(installation: Installation) -> Agent:
        return Agent(manifests=(config_map(),), registrations=(KubeClient(permissions=requests),))

    site.addon.make = make
    if site.framework is not None:
        site.framework.addon_changed(ADDON)


async def bound(site: AddonSite, wanted: dict[tuple[str, str], str], *, moving: float | None = None) -> None:
    async def look() -> bool:
        return await site.bindings() == wanted

    await site.until(look, f"bindings {wanted}", moving=moving)


async def enabled(site: AddonSite, *clusters: str) -> str:
    uid = await site.offer()
    for cluster in clusters:
        await site.enable(uid, cluster)
    site.plan(uid, clusters=clusters)
    return uid


async def test_an_agent_is_bound_as_its_own_user_in_its_clusters_namespace(site: AddonSite) -> None:
    """Defect 13: the group of the addon on all clusters is given nothing."""
    await role(site)
    asks(site, IN_CLUSTER)
    await enabled(site, CLUSTER)
    await bound(site, {(CLUSTER, "reads-leases"): user(CLUSTER)})
    await site.says("RegistrationApplied", "True", "SetPermissionApplied")


async def test_clusters_that_share_a_namespace_have_a_binding_each(site: AddonSite) -> None:
    """Defect 14: no pass overwrites another cluster's, and each goes with its ManagedClusterAddOn, also after a restart."""
    await role(site)
    await site.namespace("shared")
    await site.cluster("c10")
    asks(site, SHARED)
    await enabled(site, CLUSTER, "c10")

    async def users() -> list[str]:
        return sorted(subject["name"] for one in (await site.admin.list(BINDINGS, "shared")).items for subject in one["subjects"])

    async def both() -> bool:
        return await users() == sorted((user(CLUSTER), user("c10")))

    await site.until(both, "both bindings")
    await site.admin.delete(MCAS, ADDON, "c10")

    async def one() -> bool:
        return await users() == [user(CLUSTER)]

    await site.until(one, "one binding")


async def test_bindings_of_an_addon_that_went_while_nobody_looked_are_removed(bare: AddonSite) -> None:
    await role(bare)
    await bare.namespace("shared")
    asks(bare, SHARED)
    async with bare.running():
        await enabled(bare, CLUSTER)
        await bound(bare, {("shared", "reads-leases"): user(CLUSTER)})
    await bare.admin.delete(MCAS, ADDON, CLUSTER)
    async with bare.running():
        await bound(bare, {})


async def test_two_permissions_in_one_namespace_do_not_collide(site: AddonSite) -> None:
    await role(site)
    await role(site, "also-reads-leases")
    asks(site, IN_CLUSTER, RoleBindingRequest("ClusterRole", "also-reads-leases"))
    await enabled(site, CLUSTER)
    await bound(site, {(CLUSTER, "reads-leases"): user(CLUSTER), (CLUSTER, "also-reads-leases"): user(CLUSTER)})
    asks(site, IN_CLUSTER)
    await bound(site, {(CLUSTER, "reads-leases"): user(CLUSTER)})


async def test_the_addon_wide_group_is_bound_only_where_asked_for(site: AddonSite) -> None:
    await role(site)
    asks(site, RoleBindingRequest("ClusterRole", "reads-leases", whole_addon=True))
    await enabled(site, CLUSTER)
    await bound(site, {(CLUSTER, "reads-leases"): f"system:open-cluster-management:addon:{ADDON}"})


async def test_subjects_are_computed_whatever_the_status_says(site: AddonSite) -> None:
    """Defect 12: an agent writes its status, and that names nobody but itself."""
    await role(site)
    asks(site, IN_CLUSTER)
    await enabled(site, CLUSTER)
    await bound(site, {(CLUSTER, "reads-leases"): user(CLUSTER)})
    forged: Object = {
        "signerName": "kubernetes.io/kube-apiserver-client",
        "subject": {"user": "system:admin", "groups": ["system:unauthenticated"]},
    }
    status = {"kubeClientDriver": "token", "registrations": [forged]}
    await site.admin.patch(MCAS, ADDON, {"status": status}, CLUSTER, subresource="status")
    token = f"system:serviceaccount:{CLUSTER}:{ADDON}-agent"
    await bound(site, {(CLUSTER, "reads-leases"): token})
    await site.settled()
    found = await site.status()
    assert found["kubeClientDriver"] == "token"
    assert [one["subject"] for one in found["registrations"]] == [{"user": token}]


TOKEN_USER = f"system:serviceaccount:{CLUSTER}:{ADDON}-agent"


async def says(site: AddonSite, driver: str | None, **conditions: str) -> None:
    """The cluster's agent, of its driver and its credentials."""
    since = {"reason": "Test", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    said = [{"type": kind, "status": status, **since} for kind, status in conditions.items()]
    others = [one for one in (await site.status()).get("conditions") or () if one["type"] not in (CERTIFICATE, TOKEN)]
    status = {"kubeClientDriver": driver, "conditions": [*others, *said]}
    await site.admin.patch(MCAS, ADDON, {"status": status}, CLUSTER, subresource="status")


@pytest.mark.parametrize("verdict", ["True", "False"])
async def test_a_change_of_the_driver_takes_rights_away_when_the_new_credential_is_there(site: AddonSite, verdict: str) -> None:
    """Also where the old one could not be renewed any more: it may be good for a while yet."""
    await role(site)
    asks(site, IN_CLUSTER)
    await enabled(site, CLUSTER)
    await says(site, "csr", **{CERTIFICATE: verdict})
    await bound(site, {(CLUSTER, "reads-leases"): user(CLUSTER)})
    await says(site, "token", **{CERTIFICATE: verdict})
    await bound(site, {(CLUSTER, "reads-leases"): f"{TOKEN_USER},{user(CLUSTER)}"})
    await says(site, "token", **{CERTIFICATE: verdict, TOKEN: "False"})
    await site.settled()
    assert await site.bindings() == {(CLUSTER, "reads-leases"): f"{TOKEN_USER},{user(CLUSTER)}"}
    await says(site, "token", **{TOKEN: "True"})
    await bound(site, {(CLUSTER, "reads-leases"): TOKEN_USER})
    await says(site, "csr", **{TOKEN: verdict})
    await bound(site, {(CLUSTER, "reads-leases"): f"{user(CLUSTER)},{TOKEN_USER}"})
    await says(site, "csr", **{TOKEN: verdict, CERTIFICATE: "True"})
    await bound(site, {(CLUSTER, "reads-leases"): user(CLUSTER)})


async def test_an_agent_that_names_drivers_to_and_fro_gains_nobody(site: AddonSite) -> None:
    """The definition knows two drivers. However often it says either, it alone is bound, to what its addon asks for."""
    await role(site)
    asks(site, IN_CLUSTER)
    await site.cluster("c10")
    await enabled(site, CLUSTER, "c10")
    await bound(site, {(CLUSTER, "reads-leases"): user(CLUSTER), ("c10", "reads-leases"): user("c10")})
    chance = random.Random(16)
    for _ in range(40):
        said = {kind: chance.choice(("True", "False", "Unknown")) for kind in (CERTIFICATE, TOKEN) if chance.random() < 0.7}
        await says(site, chance.choice(("csr", "token", None)), **said)
        await site.settled()
        found = await site.bindings()
        assert found.keys() == {(CLUSTER, "reads-leases"), ("c10", "reads-leases")}
        assert set(found[CLUSTER, "reads-leases"].split(",")) <= {user(CLUSTER), TOKEN_USER}
        assert found["c10", "reads-leases"] == user("c10"), "one cluster's word is nothing to another's"
    await says(site, "csr", **{CERTIFICATE: "True"})
    both = {(CLUSTER, "reads-leases"): user(CLUSTER), ("c10", "reads-leases"): user("c10")}
    await bound(site, both, moving=WINDOW / 100)


async def test_an_agent_that_goes_to_and_fro_has_its_binding_written_a_bounded_number_of_times(bare: AddonSite) -> None:
    """And whatever it names has its rights at once."""
    await role(bare)
    asks(bare, IN_CLUSTER)
    async with bare.running() as life:
        await enabled(bare, CLUSTER)
        for number in range(4 * REMOVALS):
            named, who = (("csr", user(CLUSTER)), ("token", TOKEN_USER))[number % 2]
            await says(bare, named)

            async def has_rights(who: str = who) -> bool:
                return who in (await bare.bindings()).get((CLUSTER, "reads-leases"), "").split(",")

            await bare.until(has_rights, f"{who} to be bound")
            await bare.settled()
        written = [method for method, path in life.writes if "/rolebindings" in path]
        assert len(written) <= 1 + REMOVALS + 1, "made, each turn to another identity as long as that is free, and both"
        await bound(bare, {(CLUSTER, "reads-leases"): TOKEN_USER}, moving=WINDOW / 100)


async def test_a_binding_that_somebody_changed_is_set_right(site: AddonSite) -> None:
    await role(site)
    asks(site, IN_CLUSTER)
    await enabled(site, CLUSTER)
    await bound(site, {(CLUSTER, "reads-leases"): user(CLUSTER)})
    (binding,) = (await site.admin.list(BINDINGS, CLUSTER)).items
    stranger = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:authenticated"}
    await site.admin.patch(BINDINGS, binding["metadata"]["name"], {"subjects": [stranger]}, CLUSTER)
    await bound(site, {(CLUSTER, "reads-leases"): user(CLUSTER)})


async def test_a_role_that_the_manager_does_not_hold_is_refused_and_works_are_made_all_the_same(site: AddonSite) -> None:
    await role(site, aggregated=False)
    asks(site, IN_CLUSTER)
    await enabled(site, CLUSTER)
    message = await site.says("RegistrationApplied", "False", "SetPermissionFailed")
    assert message.startswith("Failed to set permission for hub agent: ")
    assert "leases" in message
    assert await site.bindings() == {}
    assert await site.works() == {f"addon-{ADDON}-deploy-0": ["settings"]}
    await role(site)
    await site.until(lambda: site.bindings(), "the binding", moving=5.0)
    await site.says("RegistrationApplied", "True", "SetPermissionApplied")


async def test_a_role_that_an_administrator_labels_is_bound_at_once(site: AddonSite) -> None:
    """Not when the next try is due, which is minutes later by then."""
    await role(site, aggregated=False)
    asks(site, IN_CLUSTER)
    await enabled(site, CLUSTER)
    await site.says("RegistrationApplied", "False", "SetPermissionFailed")
    assert site.framework is not None
    queue = site.framework._addons._controller.queue

    async def is_patient() -> bool:
        return queue.failures(ObjectKey(CLUSTER, ADDON)) > 16 and not queue.processing

    await site.until(is_patient, "the next try to be minutes away", moving=20.0)
    await role(site)
    await site.until(lambda: site.bindings(), "the binding", moving=0.001)
    await site.says("RegistrationApplied", "True", "SetPermissionApplied")
