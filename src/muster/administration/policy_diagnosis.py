"""What `doctor` says of a cluster's policies: hub templates that nobody resolves, rights that these lack, what hinders a downgrade.

The cluster is looked at directly where there is a way to it, and through the hub's gateway where there is none. Nothing is said of
clusters without policies.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from muster.administration.content.addons import ADDONS
from muster.administration.content.policies import PolicyView, policies_of, policies_through
from muster.administration.findings import NOTE, OK, PROBLEM, Diagnosis, Finding, Findings
from muster.administration.gateway.clusters import NoGateway, find_api
from muster.policy.explanation import find_hub_account
from muster.policy.names import CONFIG_POLICY_ADDON, STANDALONE_ADDON
from muster.runtime.client import KubeError, NotFound

SUBJECT: Final = "policies"
FEW: Final = 5


async def policies(diagnosis: Diagnosis) -> Findings:
    enabled = await _is_enabled(diagnosis, CONFIG_POLICY_ADDON)
    try:
        found = await _look(diagnosis)
    except (NoGateway, KubeError) as error:
        if enabled and diagnosis.available:
            remedy = "give --managed-cluster-kubeconfig, or enable cluster-gateway there"
            yield Finding(NOTE, SUBJECT, f"not looked at: {error}", remedy)
        return
    if not found:
        return
    if not enabled:
        yield Finding(NOTE, SUBJECT, f"{len(found)} are there, and {CONFIG_POLICY_ADDON} is not enabled by this hub")
    async for finding in _hub_templates(diagnosis, [one for one in found if one.has_hub_templates]):
        yield finding
    failing = [one for one in found if one.compliant != "Compliant"]
    if failing:
        text = f"{len(failing)} of {len(found)} not compliant: {_few(failing)}"
        yield Finding(NOTE, SUBJECT, text, f"see get policies --clusters {diagnosis.name} -o wide")
    else:
        yield Finding(OK, SUBJECT, f"{len(found)} compliant")


async def _hub_templates(diagnosis: Diagnosis, found: Sequence[PolicyView]) -> Findings:
    if not found:
        return
    subject = "hub templates"
    if not await _is_enabled(diagnosis, STANDALONE_ADDON):
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


async def _look(diagnosis: Diagnosis) -> list[PolicyView]:
    if diagnosis.managed is not None:
        return await policies_of(diagnosis.managed) or []
    return await policies_through(diagnosis.hub, await find_api(diagnosis.hub), diagnosis.name) or []


async def _is_enabled(diagnosis: Diagnosis, addon: str) -> bool:
    try:
        await diagnosis.hub.get(ADDONS, addon, diagnosis.name)
    except NotFound:
        return False
    return True


def _few(found: Sequence[PolicyView]) -> str:
    names = [str(one) for one in found]
    shown = ", ".join(names[:FEW])
    return f"{shown} and {len(names) - FEW} more" if len(names) > FEW else shown
