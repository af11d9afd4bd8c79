"""Generates templates and data for differential fuzzing.

A template is built from Go's grammar: text, actions, control structures, variables, definitions. Function calls are
drawn from the real signatures, with arguments that usually fit (so that functions do their work) and sometimes do not
(so that errors are compared too). One template in twelve is damaged afterwards, to compare lexical and parse errors.

Left out are functions whose result differs from run to run in Go itself.
"""

from __future__ import annotations

import random
import re
from typing import Any, Literal, NamedTuple

from muster.gotemplate.builtins import BUILTINS
from muster.gotemplate.signature import ANY, VALUE, Func
from muster.gotemplate.sprig import SPRIG
from muster.gotemplate.template import MissingKey
from muster.gotemplate.values import ANY_MAP, ANY_SLICE, Int64, Map, Slice, Struct, Uint8
from tests.interop.gotemplate import vocabulary as voc
from tests.interop.gotemplate.inputs import INPUTS

BY_FUNCTION: dict[str, list[str | None]] = {
    "semver": ["version"], "semverCompare": ["constraint", "version"], "toDate": ["layout", None],
    "mustToDate": ["layout", None], "fromJson": ["json"], "mustFromJson": ["json"], "b64dec": ["base64"],
    "b32dec": ["base32"], "duration": ["duration"], "dateModify": ["duration"], "date_modify": ["duration"],
    "mustDateModify": ["duration"], "must_date_modify": ["duration"], "printf": ["format"], "urlParse": ["url"],
}  # fmt: skip
for _name in SPRIG:
    if "egex" in _name and _name != "regexQuoteMeta":
        BY_FUNCTION[_name] = ["regex"]


_PLACEHOLDERS = {"string": "string", "map": ANY_MAP, "list": ANY_SLICE, "any": ANY}


class Case(NamedTuple):
    text: str
    data: Any
    left: str
    right: str
    plain: bool
    missing: MissingKey | Literal[""]


class Vocabulary:
    """The functions that a template may use, by name and by what they return."""

    def __init__(self, functions: dict[str, Func], shapes: list[str]) -> None:
        self.functions = {name: func for name, func in functions.items() if name not in voc.UNSTABLE}
        self.names = sorted(self.functions)
        self.shapes = shapes
        self.by_result: dict[str, list[str]] = {}
        for name in self.names:
            self.by_result.setdefault(self.functions[name].result, []).append(name)


class Grammar:
    """Builds one template after another from a seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.with_sprig = Vocabulary({**BUILTINS, **SPRIG}, voc.SHAPES)
        self.builtins = Vocabulary(BUILTINS, voc.PLAIN_SHAPES)
        self.use(self.with_sprig)
        self.left, self.right = "{{", "}}"
        self.variables: list[str] = []
        self.in_range = 0
        self.templates: list[str] = []
        self.fields: dict[str, list[str]] = {}

    def use(self, vocabulary: Vocabulary) -> None:
        self.functions, self.names = vocabulary.functions, vocabulary.names
        self.by_result, self.shapes = vocabulary.by_result, vocabulary.shapes

    # Data

    def data(self) -> Any:
        pick = self.random
        data: dict[str, Any] = {
            "s": pick.choice(["str", "", "héllo", "a b", "1.2.3", "x\ny", "7"]),
            "t": pick.choice(["Text", "true", "{}", "[1]", "2024-02-29"]),
            "i": pick.choice([0, 1, 5, -3, 1 << 40]),
            "i64": Int64(pick.choice([0, 2, -9, 1 << 62])),
            "u": Uint8(pick.choice([0, 7, 255])),
            "f": pick.choice([0.0, 1.0, 2.5, -0.75, 1e21, 123456789.0, 1e-7, 20971520.5]),
            "b": pick.random() < 0.5,
            "n": None,
            "m": {"a": 1.0, "b": pick.choice(["x", None, 2]), "c": {"d": "deep"}, "é": True},
            "em": {},
            "l": pick.choice([[1.0, "x", None, 2.5], ["b", "a", "b"], [1, 2, 3], [[1], [2, 3]], [{"a": 1}, {"a": 2}]]),
            "el": [],
            "ms": Map({"k": "v", "a": ""}, "map[string]string"),
            "ls": Slice(["z", "y", "", "z"], "[]string"),
            "li": Slice([3, 1, 2], "[]int"),
            "nl": Slice([], ANY_SLICE, is_nil=True),
            "nm": Map({}, ANY_MAP, is_nil=True),
            "mi": Map({2: "two", 10: "ten"}, "map[int]string"),
        }
        self.fields = {
            "string": [".s", ".t", ".m.c.d", ".ms.k"],
            "int": [".i"],
            "float64": [".f", ".m.a"],
            "bool": [".b"],
            ANY_MAP: [".m", ".em", ".m.c", ".nm"],
            ANY_SLICE: [".l", ".el", ".nl"],
            "int64": [".i64"],
        }
        if pick.random() < 0.1:
            return Struct({"Name": data["s"], "M": data["m"], "L": data["ls"]})
        return data

    # Expressions

    def directive(self) -> str:
        """One directive of a format string."""
        pick = self.random
        flags = "".join(pick.choice("+-# 0") for _ in range(pick.choice([0, 0, 1, 2])))
        width = pick.choice(["", "", "3", "8", "12"])
        precision = pick.choice(["", "", "", ".0", ".2", ".5", "."])
        return f"%{flags}{width}{precision}{pick.choice('vvdsqxXTtbcoOUeEfFgG')}"

    def string_literal(self, kind: str | None = None) -> str:
        pick = self.random
        if kind == "format" and pick.random() < 0.6:
            return '"' + pick.choice(["", "a", "|"]).join(self.directive() for _ in range(pick.choice([1, 1, 2]))) + '"'
        if kind is None and pick.random() < 0.3:
            return '"' + "".join(pick.choice(voc.LETTERS) for _ in range(pick.randrange(9))) + '"'
        text = pick.choice(voc.SPECIAL[kind] if kind else voc.STRINGS)
        if self.random.random() < 0.1 and "\\" not in text and "`" not in text:
            return f"`{text}`"
        return f'"{text}"'

    def number(self) -> str:
        pick = self.random
        roll = pick.random()
        if roll < 0.6:
            return pick.choice(voc.NUMBERS)
        if roll < 0.8:
            return str(pick.randrange(-(10 ** pick.randrange(1, 19)), 10 ** pick.randrange(1, 19)))
        return repr(pick.uniform(-1, 1) * 10.0 ** pick.randrange(-12, 25)).replace("e+", "e")

    def any_field(self) -> str:
        return self.random.choice(voc.FIELDS)

    def variable(self) -> str | None:
        if not self.variables or self.random.random() > 0.5:
            return None
        name = self.random.choice(self.variables)
        return name + self.random.choice(["", "", "", ".a", ".x.y"])

    def argument(self, type_name: str, depth: int, hint: str | None = None) -> str:
        pick = self.random
        if pick.random() < 0.06:
            return self.anything(depth)
        variable = self.variable()
        if variable and pick.random() < 0.25:
            return variable
        if type_name in (ANY, VALUE):
            return self.anything(depth)
        roll = pick.random()
        if roll < 0.3 and type_name in self.fields and not hint:
            return pick.choice(self.fields[type_name])
        if roll < 0.55 and depth > 0 and type_name in self.by_result:
            return f"({self.call(pick.choice(self.by_result[type_name]), depth - 1)})"
        if type_name == "string":
            return self.string_literal(hint)
        if type_name == "int":
            return pick.choice(voc.SMALL)
        if type_name == "float64":
            return self.number()
        if type_name == "bool":
            return pick.choice(["true", "false", "(eq 1 1)", "(not .s)"])
        if type_name == ANY_MAP:
            return pick.choice(['(dict "a" 1 "b" .s)', "(dict)", ".m", '(dict "x" (dict "y" 2) "l" (list 1 2))'])
        if type_name == ANY_SLICE:
            return pick.choice(["(list 1 2 3)", ".l", "(list)", '(list "b" "a" nil)'])
        if type_name == "time.Time":
            return pick.choice(voc.TIMES)
        return self.anything(depth)

    def anything(self, depth: int) -> str:
        pick = self.random
        roll = pick.random()
        variable = self.variable()
        if variable and roll < 0.3:
            return variable
        if roll < 0.5:
            return self.any_field()
        if roll < 0.6:
            return self.string_literal()
        if roll < 0.7:
            return self.number()
        if roll < 0.73:
            return pick.choice(["true", "false", "nil"])
        if depth > 0:
            inner = self.pipeline(depth - 1)
            return f"({inner}){pick.choice(['', '', '', '.a', '.x.y'])}"
        return pick.choice(["(list 1 .s)", '(dict "a" 1)', ".m", '"z"', "2"])

    def call(self, name: str, depth: int, piped: bool = False) -> str:
        func: Func = self.functions[name]
        hints = BY_FUNCTION.get(name, [])
        count = len(func.params)
        if func.variadic:
            count += self.random.choice([-1, 0, 0, 1, 2])
        if self.random.random() < 0.02:
            count += self.random.choice([-1, 1])
        if piped:
            count -= 1
        args = []
        for at in range(max(count, 0)):
            type_name = func.param(min(at, len(func.params) - 1)) if func.params else ANY
            args.append(self.argument(type_name, depth, hints[at] if at < len(hints) else None))
        return " ".join([name, *args])

    def shaped_call(self, depth: int) -> str:
        """A call that needs bounds on its arguments, or an order on its results."""

        def fill(match: re.Match[str]) -> str:
            name = match[1]
            if name.startswith(":"):
                return self.string_literal(name[1:])
            if name in voc.POOLS:
                return self.random.choice(voc.POOLS[name])
            return self.argument(_PLACEHOLDERS[name], depth)

        return re.sub("<(:?[a-z]+)>", fill, self.random.choice(self.shapes)).rstrip()

    def command(self, depth: int, piped: bool = False) -> str:
        pick = self.random
        if not piped and pick.random() < 0.35:
            return self.anything(depth)
        if not piped and pick.random() < 0.3:
            return self.shaped_call(depth)
        return self.call(pick.choice(self.names), depth, piped)

    def pipeline(self, depth: int) -> str:
        parts = [self.command(depth)]
        while self.random.random() < 0.25:
            parts.append(self.command(depth, piped=True))
        return " | ".join(parts)

    # Structure

    def delimited(self, body: str) -> str:
        pick = self.random
        left = pick.choice(["", " ", " ", "- "])
        # With the hub's delimiters a name must not touch the right one.
        right = pick.choice(["" if self.right == "}}" else " ", " ", " ", " -"])
        return self.left + left + body + right + self.right

    def nodes(self, depth: int) -> str:
        return "".join(self.node(depth) for _ in range(self.random.choice([1, 1, 1, 2])))

    def scoped(self, depth: int, *declared: str) -> str:
        before = list(self.variables)
        self.variables += declared
        body = self.nodes(depth)
        self.variables = before
        return body

    def node(self, depth: int) -> str:
        pick = self.random
        roll = pick.random()
        if roll < 0.2:
            return pick.choice(voc.TEXTS)
        if roll < 0.58 or depth <= 0:
            return self.delimited(self.pipeline(1))
        if roll < 0.68:
            return self.declaration()
        if roll < 0.78:
            return self.branch("if", depth)
        if roll < 0.84:
            return self.branch("with", depth)
        if roll < 0.94:
            return self.range(depth)
        if roll < 0.96 and self.in_range:
            return self.delimited(pick.choice(["break", "continue"]))
        if roll < 0.97:
            comment = pick.choice(["/* comment */", "- /* a */ -", "/* {{ }} */"])
            return self.left + comment + self.right
        return self.template(depth)

    def declaration(self) -> str:
        if self.variables and self.random.random() < 0.4:
            return self.delimited(f"{self.random.choice(self.variables)} = {self.pipeline(1)}")
        name = self.random.choice(["$x", "$y", "$z"])
        text = self.delimited(f"{name} := {self.pipeline(1)}")
        self.variables.append(name)
        return text

    def branch(self, keyword: str, depth: int) -> str:
        declared = [self.random.choice(["$x", "$w"])] if self.random.random() < 0.3 else []
        head = f"{declared[0]} := {self.pipeline(1)}" if declared else self.pipeline(1)
        text = self.delimited(f"{keyword} {head}") + self.scoped(depth - 1, *declared)
        if self.random.random() < 0.3:
            text += self.delimited(f"else {keyword} {self.pipeline(1)}") + self.scoped(depth - 1, *declared)
        if self.random.random() < 0.5:
            text += self.delimited("else") + self.scoped(depth - 1, *declared)
        return text + self.delimited("end")

    def range(self, depth: int) -> str:
        pick = self.random
        over = pick.choice([*voc.RANGED, self.argument(ANY_SLICE, 1), self.argument(ANY_MAP, 1)])
        declared = pick.choice([[], ["$e"], ["$i", "$e"], ["$x"]])
        operator = ":="
        if declared and all(name in self.variables for name in declared) and pick.random() < 0.5:
            operator = "="
        head = f"{', '.join(declared)} {operator} {over}" if declared else over
        self.in_range += 1
        text = self.delimited(f"range {head}") + self.scoped(depth - 1, *declared)
        self.in_range -= 1
        if pick.random() < 0.4:
            text += self.delimited("else") + self.scoped(depth - 1, *declared)
        return text + self.delimited("end")

    def template(self, depth: int) -> str:
        pick = self.random
        if pick.random() < 0.3:
            outer, self.variables = self.variables, []
            in_range, self.in_range = self.in_range, 0
            body = self.nodes(depth - 1)
            self.variables, self.in_range = outer, in_range
            return self.delimited(f'block "B{pick.randrange(3)}" {self.pipeline(0)}') + body + self.delimited("end")
        name = pick.choice([*self.templates, "T0", "missing"])
        return self.delimited(f'template "{name}"{pick.choice(["", " .", " .m", " $"])}')

    def definitions(self) -> str:
        text = ""
        self.templates = []
        for number in range(self.random.choice([0, 0, 0, 0, 0, 0, 1, 2])):
            self.variables, self.in_range = [], 0
            text += self.delimited(f'define "T{number}"') + self.nodes(1) + self.delimited("end")
            self.templates.append(f"T{number}")
        self.variables = []
        return text

    def damaged(self, text: str) -> str:
        pick = self.random
        at = pick.randrange(len(text) + 1) if text else 0
        kind = pick.randrange(4)
        if kind == 0:
            return text[:at] + text[at + 1 :]
        if kind == 1:
            return text[:at]
        return text[:at] + pick.choice(voc.DAMAGE if kind == 2 else voc.INSERTS) + text[at:]

    def reading_case(self) -> Case:
        """A function that parses, on texts that are nearly right."""
        pick = self.random
        first, second, templates = pick.choice(INPUTS)
        texts = ["".join(pick.choice(pieces) for _ in range(pick.randrange(7))) for pieces in (first, second)]
        return Case(pick.choice(templates), {"a": texts[0], "b": texts[1]}, "{{", "}}", False, "")

    def case(self) -> Case:
        """A template, its data and its options."""
        pick = self.random
        if pick.random() < 0.15:
            return self.reading_case()
        plain = pick.random() < 0.15
        self.use(self.builtins if plain else self.with_sprig)
        hub = pick.random() < 0.1
        self.left, self.right = ("{{hub", "hub}}") if hub else ("{{", "}}")
        data = self.data()
        text = self.definitions() + self.nodes(pick.choice([0, 1, 1, 2]))
        if pick.random() < 0.08:
            text = self.damaged(text)
        missing: MissingKey | Literal[""] = pick.choice(["error", "zero"]) if pick.random() < 0.08 else ""
        return Case(text, data, self.left, self.right, plain, missing)
