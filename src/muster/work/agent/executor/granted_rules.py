"""The rules that a role or binding would grant, read from an unvalidated document. Nothing here sends requests.

Servers ignore unknown fields and convert odd values: a rule with an additional field is a rule for them, and a null among resources
is an empty name. So a document that cannot be read with certainty counts as granting everything, with the reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from muster.kube.rbac import EVERYTHING, RawRule
from muster.work.agent.interfaces import ManifestWrite

_RULE: Final = frozenset(("verbs", "apiGroups", "resources", "resourceNames", "nonResourceURLs"))
_REFERENCE: Final = frozenset(("apiGroup", "kind", "name"))
_DECIDING: Final = ("rules", "aggregationRule", "roleRef")
"""Fields of roles and bindings that determine what they grant."""
_UNSPECIFIED: Final = object()
_SPELT: Final = {field.lower(): field for field in (*_DECIDING, "metadata")}


@dataclass(frozen=True)
class GrantedRules:
    """The rules, or everything if `doubt` has the reason why they could not be read."""

    rules: tuple[RawRule, ...]
    doubt: str = ""


@dataclass(frozen=True)
class RoleRef:
    kind: str
    name: str


def unreadable(doubt: str) -> GrantedRules:
    return GrantedRules(tuple(rule.raw for rule in EVERYTHING), doubt)


def result(write: ManifestWrite, live: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """What of the object decides, as it will be after the write. What is applied is laid over what there is then."""
    if write.verb != "apply":
        return write.document
    desired, existing = write.document, live or {}
    after = {**desired, **{field: _overlaid(desired.get(field), existing.get(field)) for field in _DECIDING}}
    if live is None and after["rules"] is None:
        # It is merged into whatever may be there by then.
        after["rules"] = _UNSPECIFIED
    return after


def _overlaid(desired: Any, live: Any) -> Any:
    if isinstance(desired, Mapping) and isinstance(live, Mapping):
        return {**live, **desired}
    return live if desired is None else desired


def granted_by(role: Mapping[str, Any]) -> GrantedRules:
    """What must be held to write a role; one that gathers others may come to hold anything."""
    rules = role.get("rules")
    if doubt := _misspelt(role) or _doubt(rules):
        return unreadable(doubt)
    if gathers(role):
        return GrantedRules((*(rules or ()), *(rule.raw for rule in EVERYTHING)))
    return GrantedRules(tuple(rules or ()))


def _doubt(rules: Any) -> str:
    if rules is _UNSPECIFIED:
        return "a role that is created by apply must specify its rules"
    if rules is not None and not isinstance(rules, list):
        return "rules cannot be read: it is no list"
    return next((f"rules[{index}] cannot be read: {doubt}" for index, rule in enumerate(rules or ()) if (doubt := _odd(rule))), "")


def _odd(rule: Any) -> str:
    """Why a rule is not one that every server reads alike; empty if it is."""
    if not isinstance(rule, Mapping):
        return "it is no rule"
    for field, values in rule.items():
        if field not in _RULE:
            return f"{_shown(field)} is no field of a rule"
        if values is not None and not (isinstance(values, list) and all(isinstance(value, str) for value in values)):
            return f"{field} is no list of strings"
    return ""


def gathers(role: Mapping[str, Any]) -> bool:
    """Whether it is, or may be, one that aggregates others."""
    aggregation = role.get("aggregationRule")
    if not isinstance(aggregation, Mapping):
        return aggregation is not None
    return any(selectors for selectors in aggregation.values())


def role_of(binding: Mapping[str, Any]) -> RoleRef | str:
    """Which role a binding binds, or why that cannot be read."""
    reference = binding.get("roleRef")
    if doubt := _misspelt(binding):
        return doubt
    if not isinstance(reference, Mapping):
        return "roleRef is missing" if reference is None else "roleRef cannot be read: it is no reference"
    for field, value in reference.items():
        if field not in _REFERENCE:
            return f"roleRef cannot be read: {_shown(field)} is no field of a reference"
        if not isinstance(value, str):
            return f"roleRef cannot be read: {field} is no string"
    kind, name = reference.get("kind", ""), reference.get("name", "")
    return RoleRef(kind, name) if kind and name else "roleRef must specify kind and name"


def _misspelt(document: Iterable[str]) -> str:
    """A server that reads field names in any case would take it for the field."""
    for field in document:
        meant = _SPELT.get(field.lower(), field)
        if meant != field:
            return f"{_shown(field)} is not {meant}"
    return ""


def _shown(field: str) -> str:
    return repr(field[:100])
