"""Objects of a kind for a mustnothave policy: kept or deleted."""

from __future__ import annotations

from collections.abc import Sequence

from muster.machinery.objects import GVR, Object
from muster.policy.operators import conditions, related
from muster.policy.operators.kinds import is_terminating
from muster.policy.operators.policy import ResolvedPolicy
from muster.policy.operators.steps import Delete, Report, Step


def remove(policy: ResolvedPolicy, resource: GVR, found: Sequence[Object], behavior: str, names: Sequence[str] = ()) -> Step:
    """`names`, if given, are reported. Objects that are already being deleted are waited for."""
    kind = resource.kind
    if behavior == "Keep":
        return Step(Report(conditions.kept(kind), tuple(related.leftover(resource, one) for one in found)))
    unwanted = tuple(related.existing(resource, one, "NonCompliant", related.UNWANTED) for one in found)
    if not policy.is_enforced:
        return Step(Report(conditions.present(kind, names), unwanted))
    staying = [one for one in found if not is_terminating(one)]
    deletions = tuple(Delete(resource, one) for one in staying)
    gone = tuple(
        related.wanted(resource, one, "NonCompliant", related.DELETING)
        if is_terminating(one)
        else related.wanted(resource, one, "Compliant", related.DELETED)
        for one in found
    )
    if len(staying) < len(found):
        going = Report(conditions.deleting(kind, names), gone)
        # Nothing is reported before the deletion, because the policy's state would flap.
        return Step(going) if not deletions else Step(None, deletions, lambda _: going, announced=False)
    return Step(
        Report(conditions.present(kind, names), unwanted), deletions, lambda _: Report(conditions.deleted(kind, names), gone)
    )
