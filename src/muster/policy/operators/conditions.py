"""The conditions of an OperatorPolicy: one per kind of object, and the summary.

Types, reasons, messages and their order are upstream's (config-policy-controller v0.19). A policy is compliant when all
conditions exist and are True, except the one about the CatalogSource, which reports a problem when True. If the spec is invalid,
the summary contains only that, unless the operator's namespace is missing, which may be created.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final, Literal

from muster.api.meta import Condition, condition_of
from muster.api.policy.v1beta1 import OperatorPolicySpec

COMPLIANT: Final = "Compliant"
VALID_SPEC: Final = "ValidPolicySpec"
CATALOG_UNKNOWN: Final = "CatalogSourcesUnknownState"
DEPRECATIONS: Final = "NoDeprecations"
MINOR_CHANNEL: Final = "MinorChannelUpgradeAvailable"
TYPES: Final = {
    "OperatorGroup": "OperatorGroupCompliant",
    "Subscription": "SubscriptionCompliant",
    "InstallPlan": "InstallPlanCompliant",
    "ClusterServiceVersion": "ClusterServiceVersionCompliant",
    "CustomResourceDefinition": "CustomResourceDefinitionCompliant",
    "Deployment": "DeploymentCompliant",
    "CatalogSource": "CatalogSourcesUnhealthy",
}
"""The condition of each kind, in the order of the summary."""
CATALOG: Final = TYPES["CatalogSource"]
MESSAGE_LENGTH: Final = 4096
_CUT: Final = "...[truncated]"
_NAMESPACE_MISSING: Final = "the operator namespace"
_REASON: Final = re.compile(r"[A-Za-z](?:[A-Za-z0-9_,:]*[A-Za-z0-9_])?", re.ASCII)
_REASON_LENGTH: Final = 1024
_TEXT_LENGTH: Final = 32768

Status = Literal["True", "False", "Unknown"]


def condition(kind: str, status: Status, reason: str, message: str) -> Condition:
    """Of a type, or of the kind that it is about. A reason from another component may be invalid or missing."""
    usable = len(reason) <= _REASON_LENGTH and _REASON.fullmatch(reason)
    return Condition(
        type=TYPES.get(kind, kind), status=status, reason=reason if usable else "Unknown", message=message[:_TEXT_LENGTH]
    )


def valid(problem: str = "") -> Condition:
    if problem:
        return condition(VALID_SPEC, "False", "InvalidPolicySpec", problem)
    return condition(VALID_SPEC, "True", "PolicyValidated", "the policy spec is valid")


def unknown(kind: str, reason: str = "InvalidPolicySpec", why: str = "because the policy is invalid") -> Condition:
    return condition(kind, "Unknown", reason, f"the status of the {kind} could not be determined {why}")


def missing(kind: str) -> Condition:
    return condition(kind, "False", f"{kind}Missing", f"the {kind} required by the policy was not found")


def not_present(kind: str) -> Condition:
    return condition(kind, "True", f"{kind}NotPresent", f"the {kind} is not present")


def present(kind: str, names: Sequence[str] = ()) -> Condition:
    return condition(kind, "False", f"{kind}Present", f"the {_counted(kind, names, 'is', 'are')} present")


def created(kind: str) -> Condition:
    return condition(kind, "True", f"{kind}Created", f"the {kind} required by the policy was created")


def deleted(kind: str, names: Sequence[str] = ()) -> Condition:
    return condition(kind, "True", f"{kind}Deleted", f"the {_counted(kind, names, 'was', 'were')} deleted")


def deleting(kind: str, names: Sequence[str] = ()) -> Condition:
    return condition(kind, "False", f"{kind}Deleting", f"the {_counted(kind, names, 'has', 'have')} a deletion timestamp")


def kept(kind: str) -> Condition:
    return condition(kind, "True", f"{kind}Kept", f"the policy specifies to keep the {kind}")


def matches(kind: str) -> Condition:
    return condition(kind, "True", f"{kind}Matches", f"the {kind} matches what is required by the policy")


def mismatch(kind: str, *, enforceable: bool = True) -> Condition:
    message = f"the {kind} found on the cluster does not match the policy" + ("" if enforceable else " and can't be enforced")
    return condition(kind, "False", f"{kind}Mismatch", message)


def updated(kind: str) -> Condition:
    return condition(kind, "True", f"{kind}Updated", f"the {kind} was updated to match the policy")


def not_applicable(kind: str) -> Condition:
    status: Status = "False" if TYPES[kind] == CATALOG else "True"
    return condition(kind, status, f"{kind}NotApplicable", f"MustNotHave policies ignore kind {kind}")


def _counted(kind: str, names: Sequence[str], one: str, many: str) -> str:
    match names:
        case []:
            return f"{kind} {one}"
        case [name]:
            return f"{kind} ({name}) {one}"
        case _:
            return f"{kind}s ({', '.join(names)}) {many}"


def summary(spec: OperatorPolicySpec, conditions: tuple[Condition, ...]) -> Condition:
    """Whether the policy is compliant, and all messages in order."""
    validity = condition_of(conditions, VALID_SPEC)
    if validity is not None and validity.status != "True" and not validity.message.lower().startswith(_NAMESPACE_MISSING):
        return _summed_up(False, [validity.message])
    messages = []
    compliant = True
    for kind in (VALID_SPEC, *TYPES.values()):
        found = condition_of(conditions, kind)
        compliant = compliant and found is not None and found.status == ("False" if kind == CATALOG else "True")
        if found is not None:
            messages.append(found.message)
    for kind, only_when_bad in _optional_types(spec):
        found = condition_of(conditions, kind)
        bad = found is None or found.status != "True"
        compliant = compliant and not bad
        if found is not None and (bad or not only_when_bad):
            messages.append(found.message)
    return _summed_up(compliant, messages)


def _optional_types(spec: OperatorPolicySpec) -> Iterable[tuple[str, bool]]:
    """Conditions that count only if the policy says so; whether they are reported only when unhealthy."""
    if spec.compliance_type.lower() == "mustnothave":
        return
    if spec.compliance_config.deprecations_present == "NonCompliant":
        yield DEPRECATIONS, False
    if spec.compliance_config.minor_channel_upgrade_available == "NonCompliant":
        yield MINOR_CHANNEL, True


def _summed_up(compliant: bool, messages: list[str]) -> Condition:
    state = "Compliant" if compliant else "NonCompliant"
    message = f"{state}; {', '.join(messages)}" if messages else f"{state};"
    encoded = message.encode()
    if len(encoded) > MESSAGE_LENGTH:
        message = encoded[: MESSAGE_LENGTH - len(_CUT)].decode(errors="ignore") + _CUT
    return condition(COMPLIANT, "True" if compliant else "False", state, message)
