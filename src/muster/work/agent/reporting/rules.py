"""Conditions that a work derives from the objects it applied: by CEL expressions, or by rules known for a kind.

All expressions of a rule must hold; the first that does not ends the matter. One evaluation may cost as much as Kubernetes allows
for one call, all rules of a manifest together as much as for one object. A rule that cannot be evaluated is False, as OCM has it,
and its condition says why. Compiled expressions are remembered by their text, in bounded number, by the environment.

Invariant: what comes out are valid conditions whatever the rules say; the problems are rules from which none can be made.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import msgspec

from muster.api.markers import QUALIFIED_NAME
from muster.api.meta import Condition
from muster.api.work.v1 import ConditionRule
from muster.cel import (
    BOOL,
    DYN,
    PER_CALL_LIMIT,
    CelError,
    CompileError,
    CostBudget,
    CostExceeded,
    Environment,
    Library,
    plain,
)
from muster.cel.library.registry import overload
from muster.cel.values import is_list, is_map, lookup
from muster.machinery.golang import formatting
from muster.machinery.objects import GVR, Object
from muster.work.names import APPLIED, COMPLETE, DELETING, FEEDBACK_SYNCED

EVALUATED: Final = "ConditionRuleEvaluated"
INVALID: Final = "ConditionRuleInvalid"
EXPRESSION_ERROR: Final = "ConditionRuleExpressionError"
AGGREGATED: Final = "ConditionRulesAggregated"
_PREFIX: Final = "ConditionRule"
RESERVED: Final = frozenset({APPLIED, DELETING, FEEDBACK_SYNCED})
"""Conditions that say what the agent did: no rule may say otherwise."""
_CONDITION_TYPE: Final = re.compile(QUALIFIED_NAME)
_LONGEST_TYPE: Final = 316
_COMPILING: Final = threading.Lock()
"""Rules are evaluated in threads, since they may take long; the memory of compiled ones is for one at a time."""

WELL_KNOWN: Final[Mapping[tuple[str, str, str], ConditionRule]] = {
    ("batch/v1", "Job", COMPLETE): ConditionRule(
        type="CEL",
        condition=COMPLETE,
        cel_expressions=(
            "hasConditions(object.status)"
            " && object.status.conditions.exists(c, c.type in ['Complete', 'Failed'] && c.status == 'True')",
        ),
        message_expression="result ? 'Job is finished' : 'Job is not finished'",
    ),
    ("v1", "Pod", COMPLETE): ConditionRule(
        type="CEL",
        condition=COMPLETE,
        cel_expressions=("object.status.phase in ['Succeeded', 'Failed']",),
        message_expression="'Pod is in phase ' + object.status.phase",
    ),
}


@dataclass(frozen=True)
class Evaluated:
    conditions: tuple[Condition, ...] = ()
    """Without time and generation."""
    problems: tuple[str, ...] = ()


def comes_from_rule(condition: Condition) -> bool:
    return condition.reason.startswith(_PREFIX)


def evaluate(resource: GVR, document: Object, rules: Iterable[ConditionRule]) -> Evaluated:
    budget = CostBudget()
    conditions: dict[str, Condition] = {}
    problems: list[str] = []
    for rule in rules:
        kind = rule.condition
        if kind in RESERVED or len(kind) > _LONGEST_TYPE or not _CONDITION_TYPE.fullmatch(kind):
            problems.append(f"no condition rule can set a condition {kind[:_LONGEST_TYPE]!r}")
        elif (condition := _condition(resource, document, rule, budget)) is not None:
            conditions.setdefault(kind, condition)
    return Evaluated(tuple(conditions.values()), tuple(problems))


def completes(resource: GVR, document: Object, rules: Iterable[ConditionRule]) -> bool:
    """Whether the rules call this object complete."""
    complete_rules = [rule for rule in rules if rule.condition == COMPLETE]
    return any(condition.status == "True" for condition in evaluate(resource, document, complete_rules).conditions)


def _condition(resource: GVR, document: Object, rule: ConditionRule, budget: CostBudget) -> Condition | None:
    if rule.type == "CEL":
        return _by_expressions(document, rule, budget)
    if rule.type != "WellKnownConditions":
        message = f"unrecognized condition rule type {rule.type}"
        return Condition(type=rule.condition, status="Unknown", reason=INVALID, message=message)
    known = WELL_KNOWN.get((resource.api_version, resource.kind, rule.condition))
    if known is None:
        return None
    texts = {name: text for name in ("message", "message_expression") if (text := getattr(rule, name))}
    return _by_expressions(document, msgspec.structs.replace(known, **texts), budget)


def _by_expressions(document: Object, rule: ConditionRule, budget: CostBudget) -> Condition:
    try:
        holds = all(_holds(expression, document, budget) for expression in rule.cel_expressions)
    except (CompileError, _Failed) as error:
        return Condition(type=rule.condition, status="False", reason=EXPRESSION_ERROR, message=str(error))
    message = _message(rule, document, holds, budget)
    return Condition(type=rule.condition, status="True" if holds else "False", reason=EVALUATED, message=message)


class _Failed(Exception):
    """An expression without a result that can be used, and why."""


def _holds(expression: str, document: Object, budget: CostBudget) -> bool:
    result = _run(_expressions(), expression, {"object": document}, budget)
    if not isinstance(result, bool):
        raise _Failed(f"expected bool result, got {formatting.type_name(plain(result))}")
    return result


def _message(rule: ConditionRule, document: Object, holds: bool, budget: CostBudget) -> str:
    if rule.message_expression:
        try:
            text = _run(_messages(), rule.message_expression, {"object": document, "result": holds}, budget)
        except CompileError as error:
            return str(error).split("\n | ")[0]
        except _Failed as failure:
            return str(failure)
        if not isinstance(text, str):
            return f"expected message expression to have a string result, got {formatting.type_name(plain(text))}"
        if text:
            return text
    return rule.message or f"Manifest is {'' if holds else 'not '}{rule.condition}"


def _run(environment: Environment, expression: str, variables: Mapping[str, Any], budget: CostBudget) -> Any:
    short = budget.remaining < PER_CALL_LIMIT
    with _COMPILING:
        program = environment.compile(expression)
    try:
        return program.evaluate(variables, budget)
    except CostExceeded as error:
        raise _Failed("CEL evaluation budget exceeded" if short else str(error)) from None
    except CelError as error:
        raise _Failed(str(error)) from None


# Environments ----------------------------------------------------------------------------------------------------------------


def _has_conditions(status: Any) -> bool:
    if not is_map(status):
        return False
    conditions = lookup(status, "conditions")
    return is_list(conditions) and len(conditions) > 0


CONDITIONS: Final = Library(
    "open-cluster-management.conditions",
    overloads=(("hasConditions", overload("status_has_conditions", (DYN,), BOOL, _has_conditions)),),
)


@cache
def _expressions() -> Environment:
    return Environment({"object": DYN}, _libraries())


@cache
def _messages() -> Environment:
    return Environment({"object": DYN, "result": BOOL}, _libraries())


@cache
def _libraries() -> tuple[Library, ...]:
    # Loaded when the first rule is met: agents without any need not carry them.
    from muster.cel import KUBERNETES

    return (*KUBERNETES, CONDITIONS)
