"""Explains the templates of a policy and the permissions they need, before a controller evaluates them."""

from muster.policy.explanation.explainer import Difference, Explainer, Explanation, Problem, Side
from muster.policy.explanation.findings import Finding, lint
from muster.policy.explanation.permissions import (
    Account,
    controller_account,
    find_hub_account,
    grants,
    hub_account,
    missing_permissions,
)
from muster.policy.explanation.reads import Read, RecordingSource
from muster.policy.explanation.validation import InvalidDocument, validate_document

__all__ = [
    "Account",
    "Difference",
    "Explainer",
    "Explanation",
    "Finding",
    "InvalidDocument",
    "Problem",
    "Read",
    "RecordingSource",
    "Side",
    "controller_account",
    "find_hub_account",
    "grants",
    "hub_account",
    "lint",
    "missing_permissions",
    "validate_document",
]
