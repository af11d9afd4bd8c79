"""The policy checks of `doctor`: a missing controller, hub templates that are not resolved, their missing permissions, obstacles of
a downgrade.

The cluster is checked directly if there is a kubeconfig for it, and through the hub's gateway if not. Nothing is reported for
clusters without policies.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from muster.administration.content.policies import PolicyView, policies_of, policies_through
from muster.administration.findings import NOTE, OK, PROBLEM, Diagnosis, Finding, Findings
from muster.administration.gateway.clusters import NoGateway, find_api
from muster.administration.readiness import deployment_problem
from muster.api.addon.v1alpha1 import ManagedClusterAddOn
from muster.api.addons import HOSTING_CLUSTER_ANNOTATION
from muster.operator.names import ADDON_NAMESPACE
from muster.policy.explanation import find_hub_account
from muster.policy.names import CONFIG_POLICY_ADDON, STANDALONE_ADDON
from muster.runtime.client import KubeError, NotFound
from muster.runtime.client.builtin import DEPLOYMENTS

SUBJECT: Final = "policies"
POLICY_CONTROLLER: Final = "policy controller"
FEW: Final = 5


async def policies(diagnosis: Diagnosis) -> Findings:
    addon = await _addon(diagnosis, CONFIG_POLICY_ADDON)
    enabled = addon is not None
    try:
        found = await _policies(diagnosis)
    except (NoGateway, KubeError) as error:
        if enabled and diagnosis.available:
            remedy = "give --managed-cluster-kubeconfig, or enable cluster-gateway there"
            yield Finding(NOTE, SUBJECT, f"not checked: {error}", remedy)
        return
    absent = None if addon is None else await _absent(diagnosis, addon, found)
    if absent is not None:
        yield absent
    if not found:
        return
    unevaluated = [one for one in found if not one.compliant]
    if addon is None:
        text = f"{len(found)} are there, and {CONFIG_POLICY_ADDON} is not enabled by this hub"
        remedy = f"run addon enable --names {CONFIG_POLICY_ADDON} --clusters {diagnosis.name}"
        # A controller may have been installed by other means.
        yield Finding(PROBLEM if unevaluated else NOTE, SUBJECT, text, remedy)
    elif unevaluated and absent is None:
        text = f"not evaluated by the policy controller: {_few(unevaluated)}"
        remedy = f"see its log: kubectl -n {_namespace(addon)} logs deployment/{CONFIG_POLICY_ADDON}"
        yield Finding(PROBLEM, SUBJECT, text, remedy)
    async for finding in _hub_templates(diagnosis, [one for one in found if one.has_hub_templates]):
        yield finding
    failing = [one for one in found if one.compliant not in ("", "Compliant")]
    if failing:
        text = f"{len(failing)} of {len(found)} not compliant: {_few(failing)}"
        yield Finding(NOTE, SUBJECT, text, f"see get policies --clusters {diagnosis.name} -o wide")
    elif not unevaluated:
        yield Finding(OK, SUBJECT, f"{len(found)} compliant")


async def _absent(diagnosis: Diagnosis, addon: ManagedClusterAddOn, found: Sequence[PolicyView] | None) -> Finding | None:
    """The addon's objects that are missing although it is enabled; checked if there is a kubeconfig for the cluster."""
    works = f"the addon's work brings it: see get works --clusters {diagnosis.name} -o wide"
    if found is None:
        return Finding(
            PROBLEM, POLICY_CONTROLLER, f"{CONFIG_POLICY_ADDON} is enabled, and no kind of policies is served there", works
        )
    if diagnosis.managed is None or HOSTING_CLUSTER_ANNOTATION in addon.metadata.annotations:
        return None
    namespace = _namespace(addon)
    try:
        deployment = await diagnosis.managed.get(DEPLOYMENTS, CONFIG_POLICY_ADDON, namespace)
    except NotFound:
        text = f"{CONFIG_POLICY_ADDON} is enabled, and its Deployment {namespace}/{CONFIG_POLICY_ADDON} is not there"
        return Finding(PROBLEM, POLICY_CONTROLLER, text, works)
    if problem := deployment_problem(deployment):
        remedy = f"see kubectl -n {namespace} describe deployment {CONFIG_POLICY_ADDON}"
        return Finding(PROBLEM, POLICY_CONTROLLER, f"it does not run: {problem}", remedy)
    return None


def _namespace(addon: ManagedClusterAddOn) -> str:
    """The namespace of its agent."""
    return addon.status.namespace or addon.spec.install_namespace or ADDON_NAMESPACE


async def _hub_templates(diagnosis: Diagnosis, found: Sequence[PolicyView]) -> Findings:
    if not found:
        return
    subject = "hub templates"
    if await _addon(diagnosis, STANDALONE_ADDON) is None:
        text = f"{STANDALONE_ADDON} is not enabled, and policies have some: {_few(found)}"
        yield Finding(PROBLEM, subject, text, f"run addon enable --names {STANDALONE_ADDON} --clusters {diagnosis.name}")
    lacking = [one for one in found if one.refusal][:FEW]
    if lacking:
        account = await find_hub_account(diagnosis.hub, diagnosis.name)
        whom = f"{account.subject['kind']} {account.subject['name']}"
        remedy = f"on the hub, give {whom} list and watch on it; muster template explain --grant writes the role"
        for one in lacking:
            yield Finding(PROBLEM, subject, f"policy {one} may not read what it refers to: {one.refusal}", remedy)
    text = f"a policy controller without them would enforce their text as it is: {_few(found)}"
    yield Finding(NOTE, subject, text, "remove these policies before a downgrade to one")


async def _policies(diagnosis: Diagnosis) -> list[PolicyView] | None:
    """None if no kind of policy is served."""
    if diagnosis.managed is not None:
        return await policies_of(diagnosis.managed)
    return await policies_through(diagnosis.hub, await find_api(diagnosis.hub), diagnosis.name)


async def _addon(diagnosis: Diagnosis, name: str) -> ManagedClusterAddOn | None:
    """None if it is not enabled."""
    try:
        return await diagnosis.hub.get(ManagedClusterAddOn, name, diagnosis.name)
    except NotFound:
        return None


def _few(found: Sequence[PolicyView]) -> str:
    names = [str(one) for one in found]
    shown = ", ".join(names[:FEW])
    return f"{shown} and {len(names) - FEW} more" if len(names) > FEW else shown
