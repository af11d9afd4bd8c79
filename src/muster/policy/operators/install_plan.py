"""The InstallPlan: what OLM will install or upgrade in a namespace after approval.

A plan covers all operators of its namespace that could change when it was created, so approving it approves them all. An
enforced policy approves a plan for its operator's first installation, and for upgrades if it allows them, when every
ClusterServiceVersion in it is covered: its own Subscription's if the policy allows that version, what this one's bundle
requires, and what other enforced policies of the namespace approve in the same way.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import orjson

from muster.api.meta import Condition
from muster.api.policy.v1beta1 import RelatedObject
from muster.machinery.objects import Object
from muster.policy.operators import conditions, related
from muster.policy.operators.kinds import INSTALL_PLANS, list_at, objects_at, text_at, value_at
from muster.policy.operators.policy import ResolvedPolicy
from muster.policy.operators.steps import Patch, Report, Step

KIND: Final = INSTALL_PLANS.kind
INSTALLING, COMPLETE, FAILED, UNAPPROVED = "Installing", "Complete", "Failed", "RequiresApproval"

NONE_RELEVANT: Final = conditions.condition(
    KIND, "True", "NoInstallPlansFound", "there are no relevant InstallPlans in the namespace"
)
HAS_FAILED: Final = conditions.condition(KIND, "False", "InstallPlanFailed", "the current InstallPlan has failed")
IS_INSTALLING: Final = conditions.condition(
    KIND, "False", "InstallPlansInstalling", "a relevant InstallPlan is actively installing"
)
NONE_TO_APPROVE: Final = conditions.condition(
    KIND, "True", "NoInstallPlansRequiringApproval", "no InstallPlans requiring approval were found"
)


def no_plans(namespace: str) -> Report:
    """Plans are a record and may be deleted: having none is compliant."""
    reason = "There are no relevant InstallPlans in this namespace"
    return Report(NONE_RELEVANT, (related.named(INSTALL_PLANS, "", namespace, "Compliant", reason),))


def csv_names(plan: Object) -> list[str]:
    return [name for name in list_at(plan, "spec", "clusterServiceVersionNames") if isinstance(name, str)]


def choose(plans: Sequence[Object], subscription: Object) -> Object | None:
    """The latest plan for the Subscription. A plan that installs its currentCSV is preferred, because OLM sometimes creates a
    duplicate."""
    current, installed = text_at(subscription, "status", "currentCSV"), text_at(subscription, "status", "installedCSV")
    latest: Object | None = None
    highest = -1
    for plan in plans:
        names = csv_names(plan)
        if not {current, installed} - {""} & set(names):
            continue
        if current and current in names and text_at(plan, "status", "phase") in (INSTALLING, COMPLETE):
            return plan
        generation = value_at(plan, "spec", "generation")
        if isinstance(generation, int) and generation > highest:
            latest, highest = plan, generation
    return latest


def mustnothave(plan: Object) -> Report:
    found = related.existing(INSTALL_PLANS, plan, "Compliant", related.NOT_APPLICABLE)
    return Report(conditions.not_applicable(KIND), (found,))


def evaluate(policy: ResolvedPolicy, subscription: Object, plan: Object) -> Report | None:
    """The report about the chosen plan; None if the policy itself approves it when everything in it is covered."""
    phase = text_at(plan, "status", "phase")
    current, installed = text_at(subscription, "status", "currentCSV"), text_at(subscription, "status", "installedCSV")
    about = (_existing(policy, plan),)
    if phase == INSTALLING:
        return Report(IS_INSTALLING, about)
    if phase == FAILED:
        return Report(HAS_FAILED, about) if _has_failed(plan, current) else Report(NONE_TO_APPROVE)
    if phase != UNAPPROVED:
        return Report(NONE_TO_APPROVE, about)
    if installed and installed == current:
        # OLM requests what is already installed.
        return Report(NONE_TO_APPROVE)
    if value_at(plan, "spec", "approved") is True:
        return Report(_approved(current), about)
    if not policy.is_enforced or (installed and not policy.upgrades_automatically):
        return Report(_upgrade(policy, plan, ()), about)
    return None


def _has_failed(plan: Object, csv: str) -> bool:
    """Whether it failed for this ClusterServiceVersion, and not only for another one."""
    if len(csv_names(plan)) == 1:
        return True
    steps = [step for step in objects_at(plan, "status", "plan") if step.get("resolving") == csv]
    return any(step.get("status") not in ("Created", "Present") for step in steps)


def approve(policy: ResolvedPolicy, subscription: Object, plan: Object, covered: Iterable[str]) -> Step:
    """`covered` are the versions in the plan that policies approve."""
    remaining = set(csv_names(plan)) - set(covered)
    about = (_existing(policy, plan),)
    if remaining:
        return Step(Report(_upgrade(policy, plan, sorted(remaining)), about))
    approved = Report(_approved(text_at(subscription, "status", "currentCSV")), about)
    # The pending approval is not reported before it is given, because the policy's state would flap.
    patch = Patch(INSTALL_PLANS, plan, {"spec": {"approved": True}})
    return Step(None, (patch,), lambda _: approved, announced=False)


def approved_by(policy: ResolvedPolicy, subscription: Object, plan: Object) -> frozenset[str]:
    """The ClusterServiceVersions of a plan that a policy approves for its Subscription."""
    current = text_at(subscription, "status", "currentCSV")
    is_first = not text_at(subscription, "status", "installedCSV")
    if not policy.is_enforced or not current or not (is_first or policy.upgrades_automatically) or not policy.allows(current):
        return frozenset()
    return required_by(plan, current)


def required_by(plan: Object, csv: str) -> frozenset[str]:
    """The ClusterServiceVersion and, transitively, those of the plan that provide packages it requires."""
    provided, required = _packages(plan)
    found = {csv}
    pending = [csv]
    while pending:
        packages = required.get(pending.pop(), ())
        for other in {provided[package] for package in packages if package in provided} - found:
            found.add(other)
            pending.append(other)
    return frozenset(found)


def _packages(plan: Object) -> tuple[dict[str, str], dict[str, set[str]]]:
    """The ClusterServiceVersion that provides each package, and the packages that each requires. Stops at the first unreadable
    step, since nothing may be approved that was not understood."""
    provided: dict[str, str] = {}
    required: dict[str, set[str]] = {}
    for bundle in objects_at(plan, "status", "bundleLookups"):
        text = text_at(bundle, "properties")
        if not text:
            continue
        try:
            properties = orjson.loads(text)
        except orjson.JSONDecodeError:
            break
        identifier = text_at(bundle, "identifier")
        for one in objects_at(properties, "properties"):
            package = text_at(one, "value", "packageName")
            if package and one.get("type") == "olm.package":
                provided[package] = identifier
            elif package and one.get("type") == "olm.package.required":
                required.setdefault(identifier, set()).add(package)
    return provided, required


def _upgrade(policy: ResolvedPolicy, plan: Object, remaining: Sequence[str]) -> Condition:
    message = f"an InstallPlan to update to [{', '.join(sorted(csv_names(plan)))}] is available for approval"
    if remaining:
        message += f" but approval for [{', '.join(remaining)}] is required"
    status: conditions.Status = "True" if policy.spec.compliance_config.upgrades_available == "Compliant" else "False"
    return conditions.condition(KIND, status, "InstallPlanRequiresApproval", message)


def _approved(csv: str) -> Condition:
    return conditions.condition(KIND, "True", "InstallPlanApproved", f"the InstallPlan for {csv} was approved")


def _existing(policy: ResolvedPolicy, plan: Object) -> RelatedObject:
    phase = text_at(plan, "status", "phase")
    tolerated = phase in (INSTALLING, UNAPPROVED) and policy.spec.compliance_config.upgrades_available == "Compliant"
    compliance: related.Compliance = "Compliant" if phase == COMPLETE or tolerated else "NonCompliant"
    return related.existing(INSTALL_PLANS, plan, compliance, f"The InstallPlan is {phase or 'Unknown'}")
