"""The operator's CustomResourceDefinitions. Deleting one deletes all objects of its kind, so they are kept unless a policy says
otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from muster.machinery.objects import Object
from muster.policy.operators import conditions, related
from muster.policy.operators.policy import ResolvedPolicy
from muster.policy.operators.removal import remove
from muster.policy.operators.steps import Report, Step
from muster.runtime.client.builtin import CRDS

KIND: Final = CRDS.kind
NONE_FOUND: Final = Report(
    conditions.condition(KIND, "True", "RelevantCRDNotFound", "no CRDs were found for the operator"),
    (related.named(CRDS, "", "", "Inapplicable", "No relevant CustomResourceDefinitions found"),),
)
PRESENT: Final = conditions.condition(KIND, "True", "RelevantCRDFound", "there are CRDs present for the operator")


def evaluate(policy: ResolvedPolicy, found: Sequence[Object]) -> Step:
    if not found:
        return Step(NONE_FOUND)
    if policy.is_musthave:
        return Step(Report(PRESENT, tuple(related.existing(CRDS, one, "Compliant", related.FOUND) for one in found)))
    return remove(policy, CRDS, found, policy.spec.removal_behavior.custom_resource_definitions)
