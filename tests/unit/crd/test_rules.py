"""Rules at work: what breaks them, where the error points, what is spared on update, and what happens when one fails."""

from __future__ import annotations

from typing import Any

import pytest

from muster.apiserver.crd.rules import RuleTree, rule_tree
from muster.kube.structural_schema.constraints import Constraints
from muster.kube.structural_schema.ratchet import Correlation

NUMBER = {"type": "integer"}
TEXT = {"type": "string", "maxLength": 10}


def ruled(schema: dict[str, Any], *rules: str | dict[str, Any]) -> dict[str, Any]:
    return {**schema, "x-kubernetes-validations": [{"rule": rule} if isinstance(rule, str) else rule for rule in rules]}


def obj(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def tree(schema: dict[str, Any]) -> RuleTree:
    found = rule_tree(schema)
    assert found is not None
    return found


def broken(schema: dict[str, Any], value: Any, old: Any = None) -> list[str]:
    correlation = None if old is None else Correlation(value, old, Constraints(schema))
    return [str(error) for error in tree(schema).validate(value, old, correlation)[0]]


def test_a_schema_without_rules_has_no_tree() -> None:
    assert rule_tree(obj({"a": NUMBER})) is None


def test_errors_point_at_the_value_and_show_scalars_only() -> None:
    schema = obj({"n": ruled(NUMBER, "self > 1"), "o": ruled(obj({"a": NUMBER}), {"rule": "self.a > 1", "message": " too small "})})
    assert broken(schema, {"n": 1, "o": {"a": 1}}) == [
        "n: Invalid value: 1: failed rule: self > 1",
        "o: Invalid value: too small",
    ]


def test_a_rule_at_the_root_points_nowhere_and_sees_the_name() -> None:
    schema = ruled(obj({}), "self.metadata.name == 'a'")
    assert broken(schema, {"apiVersion": "x/v1", "kind": "X", "metadata": {"name": "b"}}) == [
        "<nil>: Invalid value: failed rule: self.metadata.name == 'a'"
    ]


def test_list_items_and_map_values_are_judged_one_by_one() -> None:
    schema = obj(
        {
            "l": {"type": "array", "items": ruled(NUMBER, "self > 1")},
            "m": {"type": "object", "additionalProperties": ruled(NUMBER, "self > 1")},
        }
    )
    assert broken(schema, {"l": [1, 2], "m": {"a.b": 1, "c": 2}}) == [
        "l[0]: Invalid value: 1: failed rule: self > 1",
        "m[a.b]: Invalid value: 1: failed rule: self > 1",
    ]


@pytest.mark.parametrize(
    ("reason", "text"),
    [
        ("FieldValueForbidden", "o.a: Forbidden: no"),
        ("FieldValueRequired", "o.a: Required value: no"),
        ("FieldValueDuplicate", "o.a: Duplicate value"),
        ("FieldValueInvalid", "o.a: Invalid value: no"),
    ],
)
def test_reason_and_field_path_shape_the_error(reason: str, text: str) -> None:
    rule = {"rule": "false", "message": "no", "reason": reason, "fieldPath": ".a"}
    assert broken(obj({"o": ruled(obj({"a": NUMBER}), rule)}), {"o": {"a": 1}}) == [text]


@pytest.mark.parametrize(
    ("expression", "text"),
    [("'was ' + self", "was x"), ("' '", "plain"), ("'a\\nb'", "plain"), ("['a'][int(self)]", "plain")],
)
def test_a_message_expression_that_says_nothing_useful_gives_way_to_the_message(expression: str, text: str) -> None:
    schema = obj({"s": ruled(TEXT, {"rule": "false", "message": "plain", "messageExpression": expression})})
    assert broken(schema, {"s": "x"}) == [f's: Invalid value: "x": {text}']


def test_an_expression_without_a_value_names_its_failure() -> None:
    schema = obj({"o": ruled(obj({"a": NUMBER}), "self.a > 0"), "n": ruled(NUMBER, "1 / self > 0")})
    assert broken(schema, {"o": {}, "n": 0}) == [
        'o: Invalid value: "object": no such key: a evaluating rule: self.a > 0',
        'n: Invalid value: "integer": division by zero evaluating rule: 1 / self > 0',
    ]


def test_a_call_that_fits_no_signature_says_so() -> None:
    schema = obj({"i": ruled({"x-kubernetes-int-or-string": True}, "self + 1 > 0")})
    (text,) = broken(schema, {"i": "x"})
    assert text.startswith("i: Invalid value: \"\": 'no such overload': call arguments did not match a supported operator")


def test_a_rule_about_change_waits_for_an_old_value() -> None:
    schema = obj({"n": ruled(NUMBER, "self >= oldSelf")})
    assert broken(schema, {"n": 1}) == []
    assert broken(schema, {"n": 1}, {"n": 2}) == ["n: Invalid value: 1: failed rule: self >= oldSelf"]
    assert broken(schema, {"n": 1}, {}) == []


def test_a_rule_may_ask_whether_there_was_a_value() -> None:
    schema = obj({"n": ruled(NUMBER, {"rule": "oldSelf.hasValue() || self == 0", "optionalOldSelf": True})})
    assert broken(schema, {"n": 1}) == ["n: Invalid value: 1: failed rule: oldSelf.hasValue() || self == 0"]
    assert broken(schema, {"n": 1}, {"n": 5}) == []


def test_items_of_a_map_list_meet_their_former_selves() -> None:
    item = ruled(obj({"k": TEXT, "v": NUMBER}), "self.v >= oldSelf.v")
    schema = obj({"l": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": item}})
    new, old = {"l": [{"k": "b", "v": 1}, {"k": "a", "v": 1}]}, {"l": [{"k": "a", "v": 2}]}
    assert broken(schema, new, old) == ["l[1]: Invalid value: failed rule: self.v >= oldSelf.v"]


def test_what_did_not_change_is_spared_and_reported_apart() -> None:
    schema = obj({"a": ruled(NUMBER, "self > 5"), "b": ruled(NUMBER, "self > 5")})
    value, old = {"a": 1, "b": 1}, {"a": 1, "b": 2}
    errors, ratcheted = tree(schema).validate(value, old, Correlation(value, old, Constraints(schema)))
    assert [error.field for error in errors] == ["b"]
    assert [error.field for error in ratcheted] == ["a"]


def test_items_of_an_atomic_list_are_spared_with_the_whole_list() -> None:
    schema = obj({"l": {"type": "array", "items": ruled(NUMBER, "self > 5")}, "x": NUMBER})
    assert broken(schema, {"l": [1], "x": 1}, {"l": [1], "x": 2}) == []
    assert broken(schema, {"l": [1, 7]}, {"l": [1]}) == ["l[0]: Invalid value: 1: failed rule: self > 5"]


def test_a_rule_that_costs_too_much_ends_the_evaluation() -> None:
    expensive = "self.all(a, self.all(b, self.all(c, a + b + c >= 0)))"
    schema = obj({"l": ruled({"type": "array", "items": NUMBER}, expensive, "false")})
    (text,) = broken(schema, {"l": list(range(400))})
    assert "no further validation rules will be run due to call cost exceeds limit for rule: self.all" in text


def test_null_is_not_judged() -> None:
    assert broken(obj({"n": ruled({**NUMBER, "nullable": True}, "false")}), {"n": None}) == []
