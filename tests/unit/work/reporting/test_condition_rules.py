"""What conditions the rules of a work make of its objects."""

from __future__ import annotations

from typing import Any

import pytest

from muster.api.meta import Condition
from muster.api.work.v1 import ConditionRule
from muster.machinery.objects import GVR
from muster.runtime.client.builtin import CONFIG_MAPS
from muster.work.agent.reporting.rules import Evaluated, evaluate
from tests.unit.work.reporting.builders import JOBS, PODS, cel


def judged(document: Any, *rules: ConditionRule, resource: GVR = CONFIG_MAPS) -> Evaluated:
    return evaluate(resource, document, rules)


def one(document: Any, rule: ConditionRule, resource: GVR = CONFIG_MAPS) -> Condition:
    [condition] = judged(document, rule, resource=resource).conditions
    return condition


def test_all_expressions_must_hold() -> None:
    document = {"n": 5}
    assert one(document, cel("Fine", "object.n == 5", "object.n > 4")).status == "True"
    assert one(document, cel("Fine", "object.n == 5", "object.n > 5")).status == "False"


def test_the_first_that_does_not_hold_ends_the_matter() -> None:
    condition = one({}, cel("Fine", "false", "object.broken"))
    assert (condition.status, condition.reason, condition.message) == ("False", "ConditionRuleEvaluated", "Manifest is not Fine")


def test_no_expression_at_all_holds() -> None:
    condition = one({}, cel("Fine"))
    assert (condition.status, condition.reason, condition.message) == ("True", "ConditionRuleEvaluated", "Manifest is Fine")


@pytest.mark.parametrize(
    ("expression", "fragment"),
    [
        ("object.n >", "ERROR: <input>:1:11: Syntax error"),
        ("object.absent == 1", "no such key: absent"),
        ("object.n", "expected bool result, got int64"),
        ("unknown == 1", "undeclared reference to 'unknown'"),
        ("int('x') == 1", "type conversion error from 'string' to 'int'"),
    ],
)
def test_what_cannot_be_evaluated_is_false_and_says_why(expression: str, fragment: str) -> None:
    condition = one({"n": 1}, cel("Fine", expression))
    assert (condition.status, condition.reason) == ("False", "ConditionRuleExpressionError")
    assert fragment in condition.message


def test_messages_come_from_the_expression_then_from_the_text() -> None:
    document = {"who": "x"}
    by_expression = cel("Fine", "true", message="text", message_expression="object.who + (result ? ' is' : ' is not')")
    assert one(document, by_expression).message == "x is"
    assert one(document, cel("Fine", "false", message="text", message_expression="object.who.substring(1)")).message == "text"
    assert one(document, cel("Fine", "true", message="text")).message == "text"


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("object.absent", "no such key: absent"),
        ("1", "expected message expression to have a string result, got int64"),
        ("nobody", "ERROR: <input>:1:1: undeclared reference to 'nobody' (in container '')"),
    ],
)
def test_a_message_that_cannot_be_made_says_so_and_the_status_stands(expression: str, message: str) -> None:
    condition = one({}, cel("Fine", "true", message_expression=expression))
    assert (condition.status, condition.reason, condition.message) == ("True", "ConditionRuleEvaluated", message)


def test_conditions_can_be_asked_for() -> None:
    rule = cel("Has", "hasConditions(object.status)")
    assert one({"status": {"conditions": [{"type": "x"}]}}, rule).status == "True"
    without: tuple[object, ...] = ({}, {"conditions": []}, {"conditions": "text"}, "text", None)
    for status in without:
        assert one({"status": status}, rule).status == "False", status


@pytest.mark.parametrize(
    "expression",
    [
        "quantity(object.q).isGreaterThan(quantity('1Gi'))",
        "object.?absent.orValue('x') == 'x'",
        "object.v.matches('^v[0-9]+$') && url('https://h/p').getHost() == 'h'",
        "semver(object.s).isLessThan(semver('2.0.0'))",
        "ip('10.0.0.1').family() == 4 && cidr('10.0.0.0/8').containsIP('10.0.0.1')",
        "[1, 2].sum() == 3 && 'a,b'.split(',').size() == 2",
        "!format.named('dns1123Label').value().validate('x').hasValue()",
    ],
)
def test_the_libraries_of_kubernetes_are_there(expression: str) -> None:
    condition = one({"q": "2Gi", "v": "v1", "s": "1.2.3"}, cel("Fine", expression))
    assert condition.status == "True", condition.message


def test_one_expression_may_not_cost_too_much() -> None:
    rule = cel("Dear", "object.l.all(x, object.l.all(y, object.l.all(z, x + y + z >= 0)))")
    condition = one({"l": list(range(200))}, rule)
    assert (condition.status, condition.reason) == ("False", "ConditionRuleExpressionError")
    assert condition.message == "operation cancelled: actual cost limit exceeded"


def test_all_rules_of_a_manifest_share_a_budget() -> None:
    dear = "object.l.all(x, object.l.all(y, x + y >= 0))"
    rules = [cel(f"C{number}", dear) for number in range(30)]
    found = judged({"l": list(range(350))}, *rules, cel("Last", "object.l.size() == 350")).conditions
    assert found[0].status == "True"
    assert {one.message for one in found if one.status == "False"} == {"CEL evaluation budget exceeded"}
    assert found[-1].status == "False"


@pytest.mark.parametrize(
    ("resource", "status", "expected", "message"),
    [
        (JOBS, {"conditions": [{"type": "Complete", "status": "True"}]}, "True", "Job is finished"),
        (JOBS, {"conditions": [{"type": "Failed", "status": "True"}]}, "True", "Job is finished"),
        (JOBS, {"conditions": [{"type": "Complete", "status": "False"}]}, "False", "Job is not finished"),
        (JOBS, {}, "False", "Job is not finished"),
        (PODS, {"phase": "Succeeded"}, "True", "Pod is in phase Succeeded"),
        (PODS, {"phase": "Failed"}, "True", "Pod is in phase Failed"),
        (PODS, {"phase": "Running"}, "False", "Pod is in phase Running"),
    ],
)
def test_jobs_and_pods_are_known_to_complete(resource: GVR, status: Any, expected: str, message: str) -> None:
    rule = ConditionRule(type="WellKnownConditions", condition="Complete")
    condition = one({"status": status}, rule, resource)
    assert (condition.status, condition.reason, condition.message) == (expected, "ConditionRuleEvaluated", message)


def test_a_known_rule_may_be_worded_by_the_work() -> None:
    rule = ConditionRule(type="WellKnownConditions", condition="Complete", message_expression="result ? 'over' : 'going on'")
    assert one({"status": {}}, rule, JOBS).message == "going on"


def test_what_is_not_known_of_a_kind_is_passed_over() -> None:
    rules = [ConditionRule(type="WellKnownConditions", condition=name) for name in ("Complete", "Progressing")]
    assert judged({}, *rules) == Evaluated()
    assert judged({"status": {}}, rules[1], resource=JOBS) == Evaluated()


def test_a_rule_of_unknown_type_is_invalid() -> None:
    condition = one({}, ConditionRule(type="Rego", condition="Fine"))
    assert (condition.status, condition.reason) == ("Unknown", "ConditionRuleInvalid")
    assert condition.message == "unrecognized condition rule type Rego"


@pytest.mark.parametrize("name", ["not a name", "-x", "x" * 400, "", "Applied", "StatusFeedbackSynced", "Deleting"])
def test_no_rule_makes_a_condition_that_the_status_cannot_have(name: str) -> None:
    found = judged({}, cel(name, "true"), cel("Fine", "true"))
    assert [condition.type for condition in found.conditions] == ["Fine"]
    assert found.problems == (f"no condition rule can set a condition {name[:316]!r}",)
