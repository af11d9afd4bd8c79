"""Validation of the CEL rules of a CRD: do they compile, may they use `oldSelf`, and is their estimated cost within the limits?
Follows `ValidationContext`, `CELSchemaContext` and the cost limits of apiextensions' validation.

The checker follows the traversal of `structural_schema.keywords`. For each node it knows the maximum number of such values in one
object (the product of `maxItems` and `maxProperties` above it, unknown below an unbounded list or map), because a rule has its
worst-case cost once per value. The costs of all rules of a schema are added up.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from muster.apiserver.crd.go_structs import rendered_rule
from muster.apiserver.crd.rules import Rule, compile_rules, rule_tree
from muster.cel import Declaration, from_structural_schema
from muster.cel.estimate import STATIC_COST_LIMIT, STATIC_CRD_COST_LIMIT, cost_complaint, maximum_cardinality
from muster.kube.fielderrors import INTERNAL, FieldError, forbidden, invalid

Raw = Mapping[str, Any]
_MAX_UINT64: Final = 2**64 - 1
_MAX_REPORTED: Final = 4
"""Maximum number of rules that are reported when the total is too high."""
_NO_TYPE: Final = (
    "internal error: failed to construct type information for x-kubernetes-validations rules: "
    "unable to convert structural schema to CEL declarations"
)


class TotalCost:
    """The estimated total cost of all rules of a schema, and the rules that contribute most."""

    def __init__(self) -> None:
        self.total = 0
        self._expensive: list[tuple[int, str]] = []

    def add(self, field: str, cost: int) -> None:
        self.total = min(_MAX_UINT64, self.total + cost)
        if cost >= STATIC_CRD_COST_LIMIT // 100:
            self._expensive.append((cost, field))
            self._expensive.sort(key=lambda entry: -entry[0])
            del self._expensive[_MAX_REPORTED:]

    def errors(self, path: str) -> Iterator[FieldError]:
        if self.total <= STATIC_CRD_COST_LIMIT:
            return
        for _, field in self._expensive:
            yield forbidden(field, "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema")
        what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
        yield forbidden(path, cost_complaint(what, self.total, STATIC_CRD_COST_LIMIT))


class RuleChecker:
    """Validates the rules of one schema node."""

    def __init__(
        self, raw: Raw, total: TotalCost, limit_costs: bool = True, cardinality: int | None = 1, root: bool = True
    ) -> None:
        """`limit_costs` is False for unchanged schemas: the costs of their single rules are not limited."""
        self._raw = raw
        self._total = total
        self._costs_limited = limit_costs
        self._cardinality = cardinality
        self._root = root

    def for_property(self, raw: Raw, name: str) -> RuleChecker:
        return self._below(raw)

    def for_additional(self, raw: Raw) -> RuleChecker:
        return self._below(raw)

    def for_items(self, raw: Raw) -> RuleChecker:
        return self._below(raw)

    def _below(self, raw: Raw) -> RuleChecker:
        factor = _elements(self._raw)
        cardinality = None if factor is None or self._cardinality is None else min(_MAX_UINT64, self._cardinality * factor)
        return RuleChecker(raw, self._total, self._costs_limited, cardinality, root=False)

    def check(self, raw: Raw, path: str, uncorrelatable: str) -> list[FieldError]:
        field = f"{path}.x-kubernetes-validations"
        declaration = from_structural_schema(raw, root=self._root)
        if declaration is None:
            return [FieldError(INTERNAL, field, None, _NO_TYPE)]
        errors: list[FieldError] = []
        for index, rule in enumerate(compile_rules(raw, declaration)):
            errors += self._check_rule(rule, declaration, f"{field}[{index}]", uncorrelatable)
        return errors

    def _check_rule(self, rule: Rule, declaration: Declaration, field: str, uncorrelatable: str) -> Iterator[FieldError]:
        if rule.program is not None:
            times = self._cardinality if self._cardinality is not None else maximum_cardinality(declaration)
            cost = min(_MAX_UINT64, rule.program.maximum_cost(declaration) * times)
            yield from self._check_cost(f"{field}.rule", "estimated rule cost", cost)
        if rule.problem:
            yield invalid(f"{field}.rule", rendered_rule(rule.source), rule.problem)
        if rule.message_problem:
            yield invalid(f"{field}.messageExpression", rendered_rule(rule.source), rule.message_problem)
        elif rule.message is not None:
            cost = min(_MAX_UINT64, rule.message.maximum_cost(declaration))
            yield from self._check_cost(f"{field}.messageExpression", "estimated messageExpression cost", cost)
        if rule.uses_old_self:
            if uncorrelatable:
                detail = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {uncorrelatable}"
                yield invalid(f"{field}.rule", rule.source["rule"], detail)
        elif rule.source.get("optionalOldSelf") is not None:
            shown = rule.source["optionalOldSelf"]
            yield invalid(f"{field}.optionalOldSelf", shown, "may not be set if oldSelf is not used in rule")

    def _check_cost(self, field: str, what: str, cost: int) -> Iterator[FieldError]:
        if self._costs_limited and cost > STATIC_COST_LIMIT:
            yield forbidden(field, cost_complaint(what, cost, STATIC_COST_LIMIT))
        self._total.add(field, cost)


def _elements(raw: Raw) -> int | None:
    """The maximum number of items or additional properties of a value; None if unbounded."""
    bound: int | None = 1
    if raw.get("type") == "object" and raw.get("additionalProperties") is not None:
        bound = raw.get("maxProperties")
    elif raw.get("type") == "array":
        bound = raw.get("maxItems")
    return None if bound is None else max(bound, 0)


def default_breaks_rules(raw: Raw, value: Any, field: str) -> list[FieldError]:
    """The errors of a default value by its rules, as an update of itself and as a new value."""
    tree = rule_tree(raw, root=bool(raw.get("x-kubernetes-embedded-resource")))
    if tree is None:
        return []
    return tree.validate(value, value, base=field)[0] or tree.validate(value, None, base=field)[0]
