"""What becomes of a policy's templates, and what they need for it: for people and pipelines, before a controller sees them."""

from muster.policy.explanation.explainer import Difference, Explainer, Explanation, Problem, Side
from muster.policy.explanation.findings import Finding, lint
from muster.policy.explanation.reads import Read, RecordingSource
from muster.policy.explanation.rights import Account, controller_account, find_hub_account, grants, hub_account, missing_rights
from muster.policy.explanation.shapes import Misshapen, check_shape

__all__ = [
    "Account",
    "Difference",
    "Explainer",
    "Explanation",
    "Finding",
    "Misshapen",
    "Problem",
    "Read",
    "RecordingSource",
    "Side",
    "check_shape",
    "controller_account",
    "find_hub_account",
    "grants",
    "hub_account",
    "lint",
    "missing_rights",
]
