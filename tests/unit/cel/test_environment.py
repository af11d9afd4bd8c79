"""The package's front door: compiling, evaluating, budgets, what callers may pass in."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from typing import Any

import pytest

from muster.cel import (
    BINDINGS,
    BOOL,
    DYN,
    INT,
    KUBERNETES,
    STRING,
    CompileError,
    CostBudget,
    CostExceeded,
    Environment,
    EvaluationError,
    LazyMap,
    ResultTypeError,
    from_structural_schema,
    list_type,
    object_type,
    optional_declaration,
    plain,
)
from muster.cel.library.authorization import AUTHORIZER_TYPE, Authorizer, Check, DecisionValue
from muster.cel.types import struct_type
from muster.cel.views import Declaration


def _declared(schema: dict[str, Any]) -> Declaration:
    found = from_structural_schema(schema)
    assert found is not None
    return found


SCALE = _declared(
    {
        "type": "object",
        "properties": {"replicas": {"type": "integer"}, "tags": {"type": "array", "items": {"type": "string"}}},
    }
)


def test_a_compiled_expression_is_remembered() -> None:
    env = Environment({"x": INT})
    assert env.compile("x + 1") is env.compile("x + 1")


def test_a_program_knows_the_variables_it_reads() -> None:
    env = Environment({"self": SCALE, "oldSelf": SCALE})
    assert env.compile("self.replicas > 0").references == {"self"}
    assert env.compile("self.replicas >= oldSelf.replicas").references == {"self", "oldSelf"}


def test_an_undeclared_name_is_reported_with_its_place() -> None:
    with pytest.raises(CompileError) as caught:
        Environment().compile("1 + x")
    assert str(caught.value) == ("ERROR: <input>:1:5: undeclared reference to 'x' (in container '')\n | 1 + x\n | ....^")


def test_there_is_nothing_to_point_at_in_an_empty_expression() -> None:
    with pytest.raises(CompileError, match=r"^ERROR: <input>:1:0: Syntax error: mismatched input '<EOF>' expecting [^\n]*$"):
        Environment().compile("")


def test_errors_on_later_lines_show_that_line() -> None:
    with pytest.raises(CompileError) as caught:
        Environment().compile("true &&\n  y")
    assert str(caught.value).endswith("<input>:2:3: undeclared reference to 'y' (in container '')\n |   y\n | ..^")


def test_a_wrong_result_type_is_refused() -> None:
    with pytest.raises(ResultTypeError) as caught:
        Environment({"x": INT}).compile("x", result=BOOL)
    assert (caught.value.expected, caught.value.found) == (BOOL, INT)


def test_a_missing_variable_is_an_evaluation_error() -> None:
    with pytest.raises(EvaluationError, match=re.escape("no such attribute(s): x")):
        Environment({"x": INT}).compile("x").evaluate({})


def test_values_of_another_type_than_declared_are_refused() -> None:
    program = Environment({"self": SCALE}).compile("self.replicas > 0")
    with pytest.raises(EvaluationError, match="invalid data, expected int, got string"):
        program.evaluate({"self": {"replicas": "3"}})
    with pytest.raises(EvaluationError, match="invalid data, expected a map"):
        program.evaluate({"self": "text"})


def test_an_absent_old_value_is_an_empty_optional() -> None:
    env = Environment({"self": SCALE, "oldSelf": optional_declaration(SCALE)})
    program = env.compile("!oldSelf.hasValue() || oldSelf.value().replicas <= self.replicas", result=BOOL)
    assert program.evaluate({"self": {"replicas": 1}, "oldSelf": None}) is True
    assert program.evaluate({"self": {"replicas": 1}, "oldSelf": {"replicas": 2}}) is False


def test_objects_can_be_declared_without_a_schema() -> None:
    env = Environment({"request": object_type("Request", {"operation": STRING, "dry-run": BOOL, "labels": DYN})})
    program = env.compile("request.operation == 'CREATE' && !request.dry__dash__run && request.labels.a == 1")
    assert program.evaluate({"request": {"operation": "CREATE", "dry-run": False, "labels": {"a": 1}}}) is True
    with pytest.raises(CompileError, match="undefined field 'verb'"):
        env.compile("request.verb == ''")


def test_lazy_variables_are_computed_once_and_only_when_read() -> None:
    calls: list[str] = []

    def expensive() -> int:
        calls.append("expensive")
        return 2

    def broken() -> int:
        raise EvaluationError("division by zero")

    env = Environment({"variables": DYN})
    values = {"variables": LazyMap({"expensive": expensive, "broken": broken})}
    assert env.compile("true || variables.expensive == 2").evaluate(values) is True
    assert calls == []
    assert env.compile("variables.expensive + variables.expensive == 4").evaluate(values) is True
    assert calls == ["expensive"]
    with pytest.raises(EvaluationError, match="division by zero"):
        env.compile("variables.broken").evaluate(values)


def test_one_evaluation_stops_at_its_limit() -> None:
    program = Environment({"l": list_type(INT)}).compile("l.all(a, l.all(b, l.all(c, a + b + c >= 0)))")
    with pytest.raises(CostExceeded, match="operation cancelled: actual cost limit exceeded"):
        program.evaluate({"l": list(range(200))})
    assert program.evaluate({"l": list(range(5))}) is True


def test_no_operator_absorbs_the_cost_limit() -> None:
    program = Environment({"l": list_type(INT)}).compile("true || l.all(a, a > 0)")
    assert program.evaluate({"l": []}) is True
    spent = Environment({"l": list_type(INT)}).compile("l.all(a, l.all(b, a + b >= 0)) || true")
    with pytest.raises(CostExceeded):
        spent.evaluate({"l": list(range(1000))})


def test_a_budget_is_shared_by_a_series() -> None:
    program = Environment({"l": list_type(INT)}).compile("l.all(a, a >= 0)")
    budget = CostBudget(1000)
    variables = {"l": list(range(50))}
    _, cost = program.evaluate_with_cost(variables)
    program.evaluate(variables, budget)
    assert budget.remaining == 1000 - cost
    program.evaluate(variables, budget)
    budget.remaining = cost - 1
    with pytest.raises(CostExceeded):
        program.evaluate(variables, budget)
    assert budget.remaining < 0


def _bound(again: str, finish: str) -> str:
    """Forty bindings, each made of the one before twice over; `finish` sees the last one as `v`."""
    return "optional.of([1]).optMap(v, " + f"optional.of({again}).optMap(v, " * 40 + finish + ")" * 41


def _repeated(times: int) -> str:
    """A target within a target: the macro mentions each twice."""
    text = "optional.of([1])"
    for _ in range(times):
        text = f"{text}.optMap(v, [v])"
    return text


@pytest.mark.parametrize(
    "expression",
    [
        "lists.range(1000000000)",
        "'%.999999999f'.format([1.0])",
        "'x'.replace('', s).replace('', s).replace('', s)",
        "lists.range(1000).map(i, s).join(s)",
        "lists.range(5000).map(i, lists.range(5000)).flatten().size() > 0",
        "lists.range(50000).distinct()",
        "sets.equivalent(lists.range(100000), lists.range(100000))",
        _bound("[v, v]", "v == [v, v][0].map(e, e)"),
        _bound("[v, v]", "'%s'.format([v])"),
        _bound("[v, v]", "v.indexOf([])"),
        _bound("[v, v]", "v.flatten().flatten().flatten().distinct() == v"),
        _bound("v + v", "v"),
        _bound("{'a': v, 'b': v}", "v == {'a': v.a, 'b': v.b}").replace("[1]", "{'a': dyn(1)}"),
        _repeated(60),
    ],
    ids=lambda text: text[:40],
)
def test_what_is_too_dear_is_not_begun(expression: str) -> None:
    program = Environment({"s": STRING}, libraries=KUBERNETES)
    started = time.process_time()
    with pytest.raises((CostExceeded, EvaluationError, CompileError)):
        program.compile(expression).evaluate({"s": "s" * 100_000})
    assert time.process_time() - started < 10


def test_bind_exists_only_where_it_is_asked_for() -> None:
    with pytest.raises(CompileError):
        Environment().compile("cel.bind(a, 1, a + a)")
    assert Environment(libraries=(*KUBERNETES, BINDINGS)).compile("cel.bind(a, 1, a + a)").evaluate({}) == 2


def test_declared_structs_can_be_constructed() -> None:
    point = struct_type("Point", {"x": INT, "y": INT})
    env = Environment(structs={"Point": point})
    assert plain(env.compile("Point{x: 1, y: 2}").evaluate({})) == {"x": 1, "y": 2}
    assert env.compile("Point{x: 1, ?y: optional.none()}").evaluate({}) == {"x": 1}
    assert env.compile("Point{x: 1}.x").evaluate({}) == 1
    with pytest.raises(CompileError, match="expected type of field 'x' is 'int' but provided type is 'string'"):
        env.compile("Point{x: 'a'}")
    with pytest.raises(CompileError, match="undefined field 'z'"):
        env.compile("Point{z: 1}")


def test_the_authorizer_asks_the_callers_function() -> None:
    asked: list[Check] = []

    def decide(check: Check) -> DecisionValue:
        asked.append(check)
        return DecisionValue(check.verb == "get", reason="because")

    env = Environment({"authorizer": AUTHORIZER_TYPE})
    values = {"authorizer": Authorizer(decide)}
    builder = "authorizer.group('apps').resource('deployments').namespace('a').name('b').subresource('scale')"
    assert env.compile(f"{builder}.check('get').allowed()").evaluate(values) is True
    assert asked == [Check("get", group="apps", resource="deployments", namespace="a", name="b", subresource="scale")]
    assert env.compile("authorizer.path('/healthz').check('put').allowed()").evaluate(values) is False
    assert env.compile("authorizer.path('/healthz').check('put').reason()").evaluate(values) == "because"
    as_account = env.compile("authorizer.serviceAccount('ns', 'sa').path('/x').check('get').allowed()")
    assert as_account.evaluate(values) is True
    assert asked[-1].service_account == ("ns", "sa")


def test_only_two_authorization_checks_fit_one_evaluation() -> None:
    env = Environment({"authorizer": AUTHORIZER_TYPE})
    values = {"authorizer": Authorizer(lambda check: DecisionValue(True))}
    check = "authorizer.path('/x').check('get').allowed()"
    assert env.compile(f"{check} && {check}").evaluate(values) is True
    with pytest.raises(CostExceeded):
        env.compile(" && ".join([check] * 3)).evaluate(values)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("optional.of([1, 2])", [1, 2]),
        ("{'a': [timestamp(0)]}", {"a": ["1970-01-01T00:00:00Z"]}),
        ("duration('90s')", "90s"),
        ("7u", 7),
    ],
)
def test_results_can_be_turned_into_plain_json(value: str, expected: Any) -> None:
    assert plain(Environment().compile(value).evaluate({})) == expected


def test_deep_nesting_is_refused_without_harm() -> None:
    for text in ("(" * 300 + "1" + ")" * 300, "[" * 2000, "x" + ".a" * 500, "1" + "+1" * 500):
        with pytest.raises(CompileError):
            Environment({"x": DYN}).compile(text)


def test_long_chains_of_logic_are_fine() -> None:
    assert Environment({"x": INT}).compile(" && ".join(["x > 0"] * 2000)).evaluate({"x": 1}) is True


def test_importing_the_package_loads_no_function_library() -> None:
    script = "import sys, muster.cel; print([m for m in ('ipaddress', 'fractions', 're2', 'dataclasses') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
