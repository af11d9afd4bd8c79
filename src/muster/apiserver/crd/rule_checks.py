"""Rules of a definition before it is stored: do they compile, may `oldSelf` be used where they stand, and can they cost too much?

The checker follows the walk of `schemas.keywords` over the schema. Per node it knows how many values of that place one object
can hold at most (the product of `maxItems` and `maxProperties` above it, unknown under an unbounded list or map), because a rule
costs its worst case once per value. The costs of all rules of a schema are added up.
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
_MOST: Final = 2**64 - 1
_NAMED: Final = 4
"""How many rules are blamed when the sum is too high."""
_NO_TYPE: Final = (
    "internal error: failed to construct type information for x-kubernetes-validations rules: "
    "unable to convert structural schema to CEL declarations"
)


class TotalCost:
    """What all rules of a schema can cost together, and which contribute most."""

    def __init__(self) -> None:
        self.total = 0
        self._expensive: list[tuple[int, str]] = []

    def add(self, field: str, cost: int) -> None:
        self.total = min(_MOST, self.total + cost)
        if cost >= STATIC_CRD_COST_LIMIT // 100:
            self._expensive.append((cost, field))
            self._expensive.sort(key=lambda entry: -entry[0])
            del self._expensive[_NAMED:]

    def errors(self, path: str) -> Iterator[FieldError]:
        if self.total <= STATIC_CRD_COST_LIMIT:
            return
        for _, field in self._expensive:
            yield forbidden(field, "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema")
        what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
        yield forbidden(path, cost_complaint(what, self.total, STATIC_CRD_COST_LIMIT))


class DefinitionRules:
    """Judges the rules of one schema node."""

    def __init__(
        self, raw: Raw, total: TotalCost, judge_costs: bool = True, cardinality: int | None = 1, root: bool = True
    ) -> None:
        """`judge_costs` is off for schemas that were stored before: a single rule of theirs is not refused any more."""
        self._raw = raw
        self._total = total
        self._judge_costs = judge_costs
        self._cardinality = cardinality
        self._root = root

    def for_property(self, raw: Raw, name: str) -> DefinitionRules:
        return self._below(raw)

    def for_additional(self, raw: Raw) -> DefinitionRules:
        return self._below(raw)

    def for_items(self, raw: Raw) -> DefinitionRules:
        return self._below(raw)

    def _below(self, raw: Raw) -> DefinitionRules:
        factor = _elements(self._raw)
        cardinality = None if factor is None or self._cardinality is None else min(_MOST, self._cardinality * factor)
        return DefinitionRules(raw, self._total, self._judge_costs, cardinality, root=False)

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
            cost = min(_MOST, rule.program.maximum_cost(declaration) * times)
            yield from self._check_cost(f"{field}.rule", "estimated rule cost", cost)
        if rule.problem:
            yield invalid(f"{field}.rule", rendered_rule(rule.source), rule.problem)
        if rule.message_problem:
            yield invalid(f"{field}.messageExpression", rendered_rule(rule.source), rule.message_problem)
        elif rule.message is not None:
            cost = min(_MOST, rule.message.maximum_cost(declaration))
            yield from self._check_cost(f"{field}.messageExpression", "estimated messageExpression cost", cost)
        if rule.uses_old_self:
            if uncorrelatable:
                detail = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {uncorrelatable}"
                yield invalid(f"{field}.rule", rule.source["rule"], detail)
        elif rule.source.get("optionalOldSelf") is not None:
            shown = rule.source["optionalOldSelf"]
            yield invalid(f"{field}.optionalOldSelf", shown, "may not be set if oldSelf is not used in rule")

    def _check_cost(self, field: str, what: str, cost: int) -> Iterator[FieldError]:
        if self._judge_costs and cost > STATIC_COST_LIMIT:
            yield forbidden(field, cost_complaint(what, cost, STATIC_COST_LIMIT))
        self._total.add(field, cost)


def _elements(raw: Raw) -> int | None:
    """How many children of one kind a value can have; None if nothing bounds them."""
    bound: int | None = 1
    if raw.get("type") == "object" and raw.get("additionalProperties") is not None:
        bound = raw.get("maxProperties")
    elif raw.get("type") == "array":
        bound = raw.get("maxItems")
    return None if bound is None else max(bound, 0)


def default_breaks_rules(raw: Raw, value: Any, field: str) -> list[FieldError]:
    """Rules a default breaks, as an update of itself and as a new value."""
    tree = rule_tree(raw, root=bool(raw.get("x-kubernetes-embedded-resource")))
    if tree is None:
        return []
    return tree.judge(value, value, base=field)[0] or tree.judge(value, None, base=field)[0]
