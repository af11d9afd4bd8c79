"""`x-kubernetes-validations`: the CEL rules of a schema, compiled once and evaluated on every write. Follows
`k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel`, cost budget included.

The tree has the shape of the schema, but only branches with rules. At a node `self` is the value and `oldSelf` the corresponding
value before an update; a transition rule, which reads `oldSelf`, is skipped if there is none, unless `optionalOldSelf` is set. An
error of any other rule is dropped if the value is unchanged (ratcheting). All rules of an object share one cost budget.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from muster.cel import (
    BOOL,
    RUNTIME_COST_BUDGET,
    STRING,
    CompileError,
    CostBudget,
    CostExceeded,
    Declaration,
    Environment,
    EvaluationError,
    InstantiationError,
    Program,
    ResultTypeError,
    from_structural_schema,
    optional_declaration,
)
from muster.cel.environment import PER_CALL_LIMIT
from muster.kube.fielderrors import DUPLICATE, FORBIDDEN, INVALID, OMITTED, REQUIRED, FieldError, field_error, invalid
from muster.kube.structural_schema.fieldpaths import BadFieldPath, resolve
from muster.kube.structural_schema.openapi import NOWHERE
from muster.kube.structural_schema.ratchet import Correlation, MapList

Raw = Mapping[str, Any]
MAX_MESSAGE: Final = 5 * 1024
_TYPE_META: Final = frozenset({"apiVersion", "kind"})
_OUT_OF_BUDGET: Final = "validation failed due to running out of cost budget, no further validation rules will be run"
_REASONS: Final = {
    None: INVALID,
    "FieldValueInvalid": INVALID,
    "FieldValueForbidden": FORBIDDEN,
    "FieldValueRequired": REQUIRED,
    "FieldValueDuplicate": DUPLICATE,
}


class _BudgetExhausted(Exception):
    """The cost budget is exhausted; the errors so far are the result."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule; `problem` and `message_problem` are the compilation errors of the rule and of its messageExpression."""

    source: Raw
    program: Program | None
    message: Program | None
    field: str
    problem: str = ""
    message_problem: str = ""

    @property
    def uses_old_self(self) -> bool:
        return self.program is not None and "oldSelf" in self.program.references

    @property
    def optional_old_self(self) -> bool:
        return bool(self.source.get("optionalOldSelf"))

    @property
    def summary(self) -> str:
        """The rule in error texts: its message, else its expression."""
        return (self.source.get("message") or self.source.get("rule") or "").strip()


def compile_rules(raw: Raw, declaration: Declaration) -> list[Rule]:
    """The rules of one node, compiled or with the compilation error."""
    plain = Environment({"self": declaration, "oldSelf": declaration})
    with_optional: Environment | None = None
    rules = []
    for source in raw.get("x-kubernetes-validations") or ():
        environment = plain
        if source.get("optionalOldSelf"):
            if with_optional is None:
                with_optional = Environment({"self": declaration, "oldSelf": optional_declaration(declaration)})
            environment = with_optional
        rules.append(_compile_rule(source, environment, raw))
    return rules


def _compile_rule(source: Raw, environment: Environment, raw: Raw) -> Rule:
    field = ""
    if source.get("fieldPath"):
        try:
            field = resolve(source["fieldPath"], raw).text
        except BadFieldPath:
            field = ""
    try:
        program = environment.compile(source.get("rule") or "", BOOL)
    except ResultTypeError:
        return Rule(source, None, None, field, "cel expression must evaluate to a bool")
    except InstantiationError as error:
        return Rule(source, None, None, field, f"program instantiation failed: {error}")
    except CompileError as error:
        return Rule(source, None, None, field, f"compilation failed: {error}")
    message, wrong = _compile_message(source.get("messageExpression") or "", environment)
    return Rule(source, program, message, field, "", wrong)


def _compile_message(text: str, environment: Environment) -> tuple[Program | None, str]:
    if not text:
        return None, ""
    try:
        return environment.compile(text, STRING), ""
    except ResultTypeError:
        return None, "messageExpression must evaluate to a string"
    except InstantiationError as error:
        return None, f"messageExpression instantiation failed: {error}"
    except CompileError as error:
        return None, f"messageExpression compilation failed: {error}"


@dataclass(frozen=True, slots=True)
class _RulePath:
    """The position of a rule in the old and new object: the correlation of the position itself, else of its nearest ancestor."""

    here: Correlation | None = None
    above: Correlation | None = None

    def key(self, name: str) -> _RulePath:
        if self.here is None:
            return self
        if self.above is None and name in _TYPE_META:
            return _RulePath()
        return _RulePath(self.here.key(name), self.here)

    def index(self, number: int) -> _RulePath:
        return self if self.here is None else _RulePath(self.here.index(number), self.here)

    @property
    def unchanged(self) -> bool:
        correlation = self.here if self.here is not None else self.above
        return correlation is not None and correlation.unchanged


@dataclass(frozen=True, slots=True)
class _Result:
    """Errors so far, those dropped by ratcheting, and the remaining cost budget."""

    errors: list[FieldError]
    ratcheted: list[FieldError]
    budget: CostBudget


class RuleTree:
    """The rules at and below one schema node."""

    __slots__ = ("_additional", "_items", "_keys", "_properties", "_rules", "_type")

    def __init__(self, raw: Raw, root: bool) -> None:
        self._type: str = raw.get("type") or ""
        self._keys = tuple(raw.get("x-kubernetes-list-map-keys") or ()) if raw.get("x-kubernetes-list-type") == "map" else ()
        self._rules: list[Rule] = []
        if raw.get("x-kubernetes-validations"):
            declaration = from_structural_schema(raw, root=root)
            if declaration is not None:
                self._rules = compile_rules(raw, declaration)
        items, additional = raw.get("items"), raw.get("additionalProperties")
        self._items = _subtree(items)
        self._additional = _subtree(additional)
        self._properties = {
            name: tree for name, child in (raw.get("properties") or {}).items() if (tree := _subtree(child)) is not None
        }

    @property
    def empty(self) -> bool:
        return not (self._rules or self._properties or self._items or self._additional)

    def validate(
        self, value: Any, old: Any = None, correlation: Correlation | None = None, base: str = ""
    ) -> tuple[list[FieldError], list[FieldError]]:
        """(errors, errors dropped by ratcheting, which needs `correlation`)"""
        found = _Result([], [], CostBudget(RUNTIME_COST_BUDGET))
        with contextlib.suppress(_BudgetExhausted):
            self._walk(value, old, base, _RulePath(correlation), found)
        return found.errors, found.ratcheted

    def _walk(self, value: Any, old: Any, path: str, position: _RulePath, found: _Result) -> None:
        if value is None:
            return
        if self._rules:
            self._evaluate(value, old, path, position, found)
        if value.__class__ is dict:
            before = old if old.__class__ is dict else {}
            if self._additional is not None:
                for name, field in value.items():
                    self._additional._walk(field, before.get(name), f"{path}[{name}]", position.key(name), found)
            for name, tree in self._properties.items():
                if name in value:
                    below = f"{path}.{name}" if path else name
                    tree._walk(value[name], before.get(name), below, position.key(name), found)
        elif value.__class__ is list and self._items is not None:
            earlier = MapList(old if old.__class__ is list else [], self._keys) if self._keys else None
            for index, item in enumerate(value):
                match = None if earlier is None else earlier.get(item)
                self._items._walk(item, match, f"{path}[{index}]", position.index(index), found)

    def _evaluate(self, value: Any, old: Any, path: str, position: _RulePath, found: _Result) -> None:
        if found.budget.remaining <= 0:
            found.errors.append(self._invalid(path, _OUT_OF_BUDGET))
            raise _BudgetExhausted
        for rule in self._rules:
            if rule.program is None:
                found.errors.append(self._invalid(path, f"rule compile error: {rule.problem}"))
                continue
            if rule.uses_old_self and old is None and not rule.optional_old_self:
                continue
            variables: dict[str, Any] = {"self": value, "oldSelf": old}
            if self._is_valid(rule, rule.program, variables, path, found):
                continue
            error = self._error(rule, variables, value, path, found.budget)
            tolerated = not rule.uses_old_self and position.unchanged
            (found.ratcheted if tolerated else found.errors).append(error)

    def _invalid(self, path: str, detail: str) -> FieldError:
        return invalid(path or NOWHERE, self._type, detail)

    def _is_valid(self, rule: Rule, program: Program, variables: dict[str, Any], path: str, found: _Result) -> bool:
        """Whether the rule is true; also if its evaluation failed, which is reported here."""
        errors, before = found.errors, found.budget.remaining
        try:
            return bool(program.evaluate(variables, found.budget))
        except CostExceeded as error:
            if before < PER_CALL_LIMIT:
                errors.append(self._invalid(path, _OUT_OF_BUDGET))
            else:
                text = f"'{error}': no further validation rules will be run due to call cost exceeds limit for rule: {rule.summary}"
                errors.append(self._invalid(path, text))
            raise _BudgetExhausted from None
        except EvaluationError as error:
            if str(error).startswith("no such overload"):
                detail = (
                    f"'{error}': call arguments did not match a supported operator, function or macro signature for rule: "
                    f"{rule.summary}"
                )
            else:
                detail = f"{error} evaluating rule: {rule.summary}"
            errors.append(self._invalid(path, detail))
            return True

    def _error(self, rule: Rule, variables: dict[str, Any], value: Any, path: str, budget: CostBudget) -> FieldError:
        field = ".".join(part for part in (path, rule.field) if part) or NOWHERE
        shown = OMITTED if self._type in ("object", "array") else value
        reason = _REASONS.get(rule.source.get("reason"), INVALID)
        message = _message(rule, variables, budget) or (rule.source.get("message") or "").strip() or f"failed rule: {rule.summary}"
        return field_error(reason, field, shown, "" if reason == DUPLICATE else message)


def _subtree(raw: Any) -> RuleTree | None:
    if not isinstance(raw, Mapping):
        return None
    tree = RuleTree(raw, bool(raw.get("x-kubernetes-embedded-resource")))
    return None if tree.empty else tree


def _message(rule: Rule, variables: dict[str, Any], budget: CostBudget) -> str:
    """The value of the messageExpression; empty if it fails, is too long or has line breaks; then `message` is used."""
    if rule.message is None:
        return ""
    try:
        text = rule.message.evaluate(variables, budget)
    except (EvaluationError, CostExceeded):
        return ""
    trimmed = text.strip() if isinstance(text, str) else ""
    return trimmed if len(trimmed.encode()) <= MAX_MESSAGE and "\n" not in trimmed else ""


def rule_tree(raw: Raw, root: bool = True) -> RuleTree | None:
    """The rules of the schema of a resource, None if it has none."""
    tree = RuleTree(raw, root)
    return None if tree.empty else tree
