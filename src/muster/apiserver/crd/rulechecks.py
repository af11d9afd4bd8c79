"""Rules of a definition before it is stored: do they compile, and may `oldSelf` be used where they stand?

The checker follows the walk of `muster.kube.keywords` over the schema and carries, per node, how many values of that place one
object can hold at most (the product of `maxItems` and `maxProperties` above it); unbounded lists and maps make it unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from muster.apiserver.crd.goshape import rendered_rule
from muster.apiserver.crd.rules import Rule, compile_rules, rule_tree
from muster.cel import from_structural_schema
from muster.kube.fielderrors import INTERNAL, FieldError, invalid

Raw = Mapping[str, Any]


class DefinitionRules:
    """Judges the rules of one schema node."""

    def __init__(self, root: bool = True) -> None:
        self._root = root

    def for_property(self, raw: Raw, name: str) -> DefinitionRules:
        return _BELOW

    def for_additional(self, raw: Raw) -> DefinitionRules:
        return _BELOW

    def for_items(self, raw: Raw) -> DefinitionRules:
        return _BELOW

    def check(self, raw: Raw, path: str, uncorrelatable: str) -> list[FieldError]:
        field = f"{path}.x-kubernetes-validations"
        declaration = from_structural_schema(raw, root=self._root)
        if declaration is None:
            detail = (
                "internal error: failed to construct type information for x-kubernetes-validations rules: "
                "unable to convert structural schema to CEL declarations"
            )
            return [FieldError(INTERNAL, field, None, detail)]
        errors: list[FieldError] = []
        for index, rule in enumerate(compile_rules(raw, declaration)):
            errors += _check_rule(rule, f"{field}[{index}]", uncorrelatable)
        return errors


_BELOW = DefinitionRules(root=False)


def _check_rule(rule: Rule, field: str, uncorrelatable: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if rule.problem:
        errors.append(invalid(f"{field}.rule", rendered_rule(rule.source), rule.problem))
    if rule.message_problem:
        errors.append(invalid(f"{field}.messageExpression", rendered_rule(rule.source), rule.message_problem))
    if rule.uses_old_self:
        if uncorrelatable:
            detail = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {uncorrelatable}"
            errors.append(invalid(f"{field}.rule", rule.source["rule"], detail))
    elif rule.source.get("optionalOldSelf") is not None:
        shown = rule.source["optionalOldSelf"]
        errors.append(invalid(f"{field}.optionalOldSelf", shown, "may not be set if oldSelf is not used in rule"))
    return errors


def default_breaks_rules(raw: Raw, value: Any, field: str) -> list[FieldError]:
    """Rules a default breaks, as an update of itself and as a new value."""
    tree = rule_tree(raw, root=bool(raw.get("x-kubernetes-embedded-resource")))
    if tree is None:
        return []
    return tree.errors(value, value, base=field) or tree.errors(value, None, base=field)
