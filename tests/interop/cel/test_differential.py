"""Random expressions, ours and cel-go's answer side by side.

The generator knows types, so that most expressions compile; a share is mistyped on purpose. Values, costs, error texts
and compile errors must agree; costs may differ where an operator absorbed an error.
"""

from __future__ import annotations

import random
import re
from typing import Any

import pytest

from tests.interop.cel.oracle import ask, binary
from tests.unit.cel.recorded import ask_ours, comparable, worst_case

VARIABLES: dict[str, tuple[str, Any]] = {
    "i": ("int", 7),
    "j": ("int", -3),
    "d": ("double", 2.5),
    "s": ("string", "héllo"),
    "t": ("string", "a,b,c"),
    "b": ("bool", True),
    "li": ("list(int)", [3, 1, 2]),
    "ls": ("list(string)", ["x", "a,b", ""]),
    "mi": ("map(string, int)", {"k": 1}),
    "ms": ("map(string, string)", {"k": "v"}),
    "y": ("dyn", {"k": [1, "a", 2.5, None], "n": {"m": True}}),
    "z": ("dyn", [1, 2, 3]),
}

RULES: dict[str, list[str]] = {
    "int": ["$i", "$j", "0", "1", "-2", "9223372036854775807", "<int> + <int>", "<int> - <int>", "<int> * <int>",
            "<int> / <int>", "<int> % <int>", "-(<int>)", "size(<string>)", "<list>.size()", "$li[<int>]", "$mi['k']", "$mi.k",
            "$mi.zz", "(<bool> ? <int> : <int>)", "int(<double>)", "int('12')", "<string>.indexOf(<string>)", "$li.max()",
            "$li.sum()", "$li.map(e, e + <int>).sum()", "$li.indexOf(<int>)", "optional.of(<int>).orValue(<int>)",
            "$mi[?'k'].orValue(<int>)", "$mi.?q.orValue(<int>)", "duration('90m').getMinutes()", "int(uint(<int>))",
            "$y.k[0]", "$y.k[9]", "timestamp(<int>).getHours()", "$li.filter(e, e > <int>).size()", "semver('1.2.3').minor()"],
    "double": ["$d", "0.5", "-1e3", "<double> + <double>", "<double> * <double>", "<double> / <double>", "double(<int>)",
               "$y.k[2]", "quantity('1.5Gi').asApproximateFloat()", "double('2.25')"],
    "string": ["$s", "$t", "''", "'x'", "'a,b'", "<string> + <string>", "string(<int>)", "string(<double>)", "$ls[<int>]", "$ms.k",
               "$ms['zz']", "(<bool> ? <string> : <string>)", "<string>.upperAscii()", "<string>.replace('a', 'bb')",
               "<string>.substring(<int>)", "<string>.charAt(<int>)", "$ls.join('-')", "'%d:%s'.format([<int>, <string>])",
               "<string>.trim()", "$t.split(',')[<int>]", "<string>.find('[a-z]+')", "$y.k[1]", "string(duration('1h30m'))",
               "strings.quote(<string>)"],
    "bool": ["$b", "true", "false", "<int> < <int>", "<int> >= <int>", "<int> == <int>", "<string> == <string>",
             "<string> < <string>", "<double> <= <int>", "<bool> && <bool>", "<bool> || <bool>", "!(<bool>)", "<int> in $li",
             "<string> in $ls", "<string> in ['x', 'a']", "'k' in $mi", "has($mi.k)", "has($y.n)", "has($y.q.r)",
             "$li.all(e, e > <int>)", "$li.exists(e, e == <int>)", "$li.exists_one(e, e > <int>)", "$ls.all(e, e.size() < <int>)",
             "<string>.contains(<string>)", "<string>.startsWith(<string>)", "<string>.matches('^[a-z,]*$')",
             "<list> == <list>", "$li.isSorted()", "type(<int>) == int", "$y.n.m", "$y.k == $z", "$z.all(e, e > 0)",
             "optional.of(<int>).hasValue()", "isQuantity(<string>)", "sets.contains($li, [<int>])",
             "$li.all(x, v, v > x || <bool>)", "cidr('10.0.0.0/8').containsIP('10.1.2.3')"],
    "list": ["$li", "[<int>]", "[<int>, <int>]", "<list> + <list>", "$li.map(e, e * <int>)", "$li.filter(e, e > <int>)",
             "$li.sort()", "$li.reverse()", "$li.slice(0, <int>)", "<list>.distinct()", "lists.range(3)",
             "$li.transformList(x, v, x + v)"],
}  # fmt: skip


SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "i": {"type": "integer"},
        "j": {"type": "integer"},
        "d": {"type": "number"},
        "s": {"type": "string", "maxLength": 10},
        "t": {"type": "string"},
        "b": {"type": "boolean"},
        "li": {"type": "array", "maxItems": 9, "items": {"type": "integer"}},
        "ls": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string", "maxLength": 5}},
        "mi": {"type": "object", "maxProperties": 4, "additionalProperties": {"type": "integer"}},
        "ms": {"type": "object", "additionalProperties": {"type": "string"}},
    },
}
"""The declared variables as fields of one object; what is dynamic has no place in a schema."""


def generate(rng: random.Random, kind: str, depth: int) -> str:
    rules = RULES[kind]
    rule = rng.choice([rule for rule in rules if "<" not in rule.replace(" < ", "").replace("<=", "")] if depth <= 0 else rules)
    text = rule
    for wanted in RULES:
        while f"<{wanted}>" in text:
            chosen = rng.choice(list(RULES)) if rng.random() < 0.01 else wanted
            text = text.replace(f"<{wanted}>", f"({generate(rng, chosen, depth - 1)})", 1)
    return text


_ABSORBING = ("&&", "||", ".all(", ".exists(")


def _agree(expression: str, theirs: dict[str, Any], ours: dict[str, Any]) -> bool:
    if theirs == ours or theirs.get("error", "").startswith("internal error"):
        return True
    # What a failed operand had cost before it failed is not ours to repeat.
    absorbed = any(operator in expression for operator in _ABSORBING)
    return absorbed and "value" in theirs and theirs["value"] == ours.get("value")


@pytest.fixture(scope="module", autouse=True)
def _oracle() -> None:
    if not binary().exists():
        pytest.skip("the CEL oracle is not built: make -C peers/cel")


def _differences(questions: list[dict[str, Any]]) -> list[str]:
    found = []
    for question, theirs in zip(questions, ask(questions), strict=True):
        expected, ours = comparable(theirs), ask_ours(question)
        if not _agree(question["expr"], expected, ours):
            found.append(f"{question['expr']}\n  theirs {expected}\n  ours   {ours}")
        elif theirs.get("maxCost") is not None and "compileError" not in ours and worst_case(question) != theirs["maxCost"]:
            found.append(f"{question['expr']}\n  theirs at worst {theirs['maxCost']}\n  ours {worst_case(question)}")
    return found


@pytest.mark.parametrize("seed", range(8))
def test_random_expressions_have_the_same_answer(seed: int) -> None:
    rng = random.Random(seed)
    shared = {
        "vars": {name: type_ for name, (type_, _) in VARIABLES.items()},
        "values": {name: value for name, (_, value) in VARIABLES.items()},
    }
    texts = (generate(rng, rng.choice(list(RULES)), 3).replace("$", "") for _ in range(250))
    differences = _differences([{**shared, "expr": text} for text in texts])
    assert not differences, "\n".join(differences[:10])


@pytest.mark.parametrize("seed", range(8))
def test_random_rules_of_custom_resources_have_the_same_answer(seed: int) -> None:
    rng = random.Random(seed)
    shared = {"schema": SCHEMA, "values": {"self": {name: VARIABLES[name][1] for name in SCHEMA["properties"]}}}
    texts = [generate(rng, "bool", 3).replace("$", "self.") for _ in range(250)]
    differences = _differences([{**shared, "expr": text} for text in texts if not re.search(r"self\.[yz]\b", text)])
    assert not differences, "\n".join(differences[:10])
