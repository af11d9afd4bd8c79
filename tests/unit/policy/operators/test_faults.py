"""Controllers that die, caches that lag and servers that refuse: in the end everything is there, once."""

from __future__ import annotations

import pytest

from muster.machinery.authentication import UserInfo
from muster.policy.operators.kinds import CSVS, OLM_GROUP, PACKAGE_MANIFESTS
from muster.runtime.client import Forbidden
from muster.runtime.client.builtin import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES
from muster.runtime.install import binding
from tests.support.mortal_hub import Life
from tests.support.operator_site import OPERATORS, POLICIES, QUAY, OperatorSite, operator_policy, subscription

USER = UserInfo("controller", groups=("system:authenticated",))
FIRST, SECOND = QUAY.channels[QUAY.default_channel]


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("writes", range(10))
async def test_a_controller_that_dies_between_writes_is_gone_on_from(site: OperatorSite, writes: int, before: bool) -> None:
    await site.create(operator_policy("quay", operatorGroup=None, versions=[SECOND]))
    async with site.controller(Life(writes, before=before)) as life:

        async def over() -> bool:
            status = await site.status("quay")
            return life.over.is_set() or status.get("compliant") == "Compliant"

        await site.until(over, "the controller to die")
    async with site.controller():
        await site.reported("quay", "Compliant", f"({SECOND})")
    assert len(await site.groups()) == 1
    assert len(await site.olm.plans(OPERATORS)) == 1


@pytest.mark.parametrize("writes", range(7))
async def test_a_controller_that_dies_while_removing_is_gone_on_from(site: OperatorSite, writes: int) -> None:
    await site.create(operator_policy("quay"))
    async with site.controller():
        await site.reported("quay", "Compliant", f"({SECOND})")
    site.olm_acts = False
    await site.change("quay", complianceType="mustnothave")
    async with site.controller(Life(writes)) as life:

        async def over() -> bool:
            return life.over.is_set() or (await site.status("quay"))["compliant"] == "Compliant"

        await site.until(over, "the controller to die")
    async with site.controller():
        await site.reported("quay", "Compliant", "the ClusterServiceVersion is not present")
    assert await site.subscription() is None
    assert await site.groups() == []
    assert await site.object(CSVS, SECOND) is None


async def _grant(site: OperatorSite, name: str, groups: list[str], resources: list[str]) -> None:
    rules = [{"apiGroups": groups, "resources": resources, "verbs": ["*"]}]
    role = {"apiVersion": CLUSTER_ROLES.api_version, "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules}
    await site.spoke.create(CLUSTER_ROLES, role)
    subject = {"kind": "User", "name": USER.name, "apiGroup": "rbac.authorization.k8s.io"}
    await site.spoke.create(CLUSTER_ROLE_BINDINGS, binding(name, "ClusterRole", name, subject))


async def test_a_refusal_to_read_is_told_and_healed_by_a_grant(site: OperatorSite) -> None:
    everything = ["", "apps", "events.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io", POLICIES.group]
    await _grant(site, "most", [*everything, PACKAGE_MANIFESTS.group], ["*"])
    await _grant(site, "groups", [OLM_GROUP], ["operatorgroups", "installplans", "clusterserviceversions", "catalogsources"])
    await site.create(operator_policy("quay", remediationAction="inform"))
    async with site.controller(user=USER):
        status = await site.reported("quay", "NonCompliant", "the Subscription could not be determined because subscriptions")
        assert 'User "controller" cannot list resource "subscriptions"' in str(status["conditions"])
        await _grant(site, "subscriptions", [OLM_GROUP], ["subscriptions"])
        await site.reported("quay", "NonCompliant", "the Subscription required by the policy was not found", moving=1.0)


async def test_an_update_that_is_forbidden_cannot_be_enforced(site: OperatorSite) -> None:
    await site.create(operator_policy("quay"))
    async with site.controller() as life:
        await site.reported("quay", "Compliant", f"({SECOND})")
        refusal = Forbidden(403, "Forbidden", "not this field")
        life.refuse = lambda method, path: refusal if method == "PUT" and path.endswith(f"/subscriptions/{QUAY.name}") else None
        await site.change("quay", subscription=subscription(channel="another"))
        said = "the Subscription found on the cluster does not match the policy and can't be enforced"
        await site.reported("quay", "NonCompliant", said)
        await site.at_rest(life)
