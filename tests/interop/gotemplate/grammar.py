"""Generates templates and data for differential fuzzing.

A template is built from Go's grammar: text, actions, control structures, variables, definitions. Function calls are
drawn from the real signatures, with arguments that usually fit (so that functions do their work) and sometimes do not
(so that errors are compared too). One template in twelve is damaged afterwards, to compare lexical and parse errors.

Left out are functions whose result differs from run to run in Go itself.
"""

from __future__ import annotations

import random
from typing import Any

from muster.gotemplate.builtins import BUILTINS
from muster.gotemplate.signature import ANY, VALUE, Func
from muster.gotemplate.sprig import SPRIG
from muster.gotemplate.values import ANY_MAP, ANY_SLICE, Int64, Map, Slice, Struct, Uint8

UNSTABLE = frozenset(
    """now ago uuidv4 shuffle bcrypt htpasswd randAlpha randAlphaNum randAscii randNumeric randBytes randInt
    genPrivateKey genCA genCAWithKey genSelfSignedCert genSelfSignedCertWithKey genSignedCert genSignedCertWithKey
    buildCustomCert encryptAES getHostByName derivePassword keys values htmlDate htmlDateInZone date dateInZone
    date_in_zone durationRound and or call slice mustSlice chunk mustChunk repeat until untilStep seq indent nindent
    urlParse""".split()
)
STRINGS = [
    "", "a", "abc", "Hello World", "foo_bar-baz", "HTTPServer2xx", "  padded  ", "x=1,y=2", "line1\\nline2", "tab\\there",
    "héllo", "日本語", "<b>&\\\"'</b>", "12", "-7", "3.75", "0x1F", "010", "true", "1e3", "a/b/../c.txt", "1.2.3", "v2.0.0-rc.1",
    "Z", "ÀÉÎ ǆ", "%d%%", "$1 ${x}", "....", "A1B2c3", "\\x00\\x7f", "🙂 ok", "a,b,,c", "snake_case_word", "/abs/path/",
]  # fmt: skip
SPECIAL: dict[str, list[list[str]]] = {
    "regex": [["a+", "[a-z]+", "(\\\\w)(\\\\d)?", "^.", "x*", "(?i)h", "\\\\b", "[", "(?P<n>o)", "", "b|o*", "\\\\s+", "(a"]],
    "version": [["1.2.3", "1.2", "v1", "2.0.0-beta.1+x", "1.2.3.4", "01.2.3", "x", "", "0.0.3", "1.2.3-01"]],
    "constraint": [[">=1.2", "^1.2.3", "~1.2", "1.x", "!=1.2.3", "1.0 - 2.0", ">1 <3 || 5", "*", "bad", "=1.2.3-beta", "^0.0.3"]],
    "layout": [["2006-01-02", "Jan _2 15:04:05.000", "Mon, 02 Jan 2006 03:04PM -0700 MST", "06.1.2", "2006-01-02T15:04:05Z07:00", "x", "002"]],
    "json": [['{\\"a\\":1}', "[1,2.5,null]", '\\"s\\"', "{", "tru", "1 2", "", '{\\"a\\":[{\\"b\\":\\"<x>\\"}]}', "1e400", '[\\"\\\\u00e9\\"]', "-"]],
    "base64": [["YWJj", "YQ==", "YQ=", "Y", "####", "YWJj\\nZGVm", "", "/+8="]],
    "base32": [["MFRGG===", "ME======", "M", "mfrgg", "", "MFRGGZDF"]],
    "duration": [["1h30m", "2s", "-5m", "1.5h", "x", "", "300ms", "1d"]],
    "format": [["%d", "%s", "%v|%v", "%5.2f", "%-8q|", "%x", "%+v", "%#v", "%T", "%08b", "%t", "%c", "%U", "%e", "%[2]v %[1]v", "%*d", "%!", "%6.3v", "% d", "%X", "%o", "%g", "%G", "%q", "%z", "%", "%%", "%.2s", "%+d", "%#x", "%x %X", "%#q", "%+q", "%O", "% x", "%#U", "%-5d|%5d", "%05d", "%.3", "%[3]d", "%[1]", "%.*f", "%6s|", "%#g", "%F"]],
    "url": [["http://u:p@h.example:80/a%20b?q=1#f", "mailto:a@b", "/rel/path", "//h/p", "http://[::1]:8/", ":bad", "%zz", "a b", "", "http://h:x/", "http://a:b:1/"]],
}  # fmt: skip
BY_FUNCTION: dict[str, list[str | None]] = {
    "semver": ["version"], "semverCompare": ["constraint", "version"], "toDate": ["layout", None],
    "mustToDate": ["layout", None], "fromJson": ["json"], "mustFromJson": ["json"], "b64dec": ["base64"],
    "b32dec": ["base32"], "duration": ["duration"], "dateModify": ["duration"], "date_modify": ["duration"],
    "mustDateModify": ["duration"], "must_date_modify": ["duration"], "printf": ["format"], "urlParse": ["url"],
}  # fmt: skip
for _name in SPRIG:
    if "egex" in _name and _name != "regexQuoteMeta":
        BY_FUNCTION[_name] = ["regex"]
NUMBERS = ["0", "1", "2", "-1", "3", "7", "10", "1.5", "-2.25", "0x1F", "010", "1e3", "'a'", "1_000", "2.0", "0b11", "1i", "1e-7", "100000", "9223372036854775807", "123456789.5"]  # fmt: skip
SMALL = ["0", "1", "2", "3", "5", "-1", "4", "8", "20", "2.0"]
TIMES = [
    '(toDate "2006-01-02" "2024-02-29")',
    '(toDate "2006-01-02T15:04:05Z07:00" "2023-07-01T12:30:45+02:00")',
    '(toDate "Jan 2, 2006 at 3:04pm (MST)" "Feb 3, 2013 at 7:54pm (PST)")',
]
ZONES = ['"UTC"', '"America/New_York"', '"Nowhere"', '"Asia/Kolkata"']
METHODS = ["Year", "Month", "Weekday", "Unix", "YearDay", "UTC", 'Format "Jan 2"', "Nope", "Hour", "IsZero", "Format 5", "Format"]  # fmt: skip
REPLACEMENTS = ['"$1"', '"[$0]"', '"${1}x"', '"$n"', '"$$"', '"-"']
INDEXES = ["0", "1", "-1", "3", "9", '"a"', '"k"', '"zz"', "1.0", ".i", "nil", "0 0", '"c" "d"', "2", ".i64"]
TEXTS = ["", " ", "\n", "text ", "a: ", "\n  - ", "{ }", "é", "}} ", "'", "x\n\ty "]


class Grammar:
    """Builds one template after another from a seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.functions = {name: func for name, func in {**BUILTINS, **SPRIG}.items() if name not in UNSTABLE}
        self.names = sorted(self.functions)
        self.by_result: dict[str, list[str]] = {}
        for name in self.names:
            self.by_result.setdefault(self.functions[name].result, []).append(name)
        self.variables: list[str] = []
        self.in_range = 0
        self.templates: list[str] = []
        self.fields: dict[str, list[str]] = {}

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

    def string_literal(self, kind: str | None = None) -> str:
        pool = SPECIAL[kind][0] if kind else STRINGS
        text = self.random.choice(pool)
        if self.random.random() < 0.1 and "\\" not in text and "`" not in text:
            return f"`{text}`"
        return f'"{text}"'

    def any_field(self) -> str:
        return self.random.choice(
            [".s", ".i", ".f", ".b", ".n", ".m", ".l", ".ms", ".ls", ".li", ".none", ".m.a", ".m.c.d", ".none.x", ".el",
             ".i64", ".u", ".em", ".m.é", ".n.x", ".s.x", ".ms.zz", ".mi", ".nl", ".nm", ".", ".m.b", ".l.x", ".Name", ".M.a"]
        )  # fmt: skip

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
            return pick.choice(SMALL)
        if type_name == "float64":
            return pick.choice(NUMBERS)
        if type_name == "bool":
            return pick.choice(["true", "false", "(eq 1 1)", "(not .s)"])
        if type_name == ANY_MAP:
            return pick.choice(['(dict "a" 1 "b" .s)', "(dict)", ".m", '(dict "x" (dict "y" 2) "l" (list 1 2))'])
        if type_name == ANY_SLICE:
            return pick.choice(["(list 1 2 3)", ".l", "(list)", '(list "b" "a" nil)'])
        if type_name == "time.Time":
            return pick.choice(TIMES)
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
            return pick.choice(NUMBERS)
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

    def special_call(self, depth: int) -> str:
        """Calls that need bounds on their arguments, or an order on their results."""
        pick = self.random
        return pick.choice(
            [
                lambda: f"{pick.choice(['and', 'or'])} {' '.join(self.anything(depth) for _ in range(pick.choice([1, 2, 3])))}",
                lambda: f"keys {self.argument(ANY_MAP, 0)} | sortAlpha",
                lambda: f"values {self.argument(ANY_MAP, 0)} | toStrings | sortAlpha",
                lambda: f"repeat {pick.choice(['0', '1', '3', '-1'])} {self.argument('string', depth)}",
                lambda: f"until {pick.choice(['0', '3', '-2', '2.0', '.i64', '1.5'])}",
                lambda: f"untilStep {pick.choice(['0', '5', '-3'])} {pick.choice(['0', '6', '-4'])} {pick.choice(['1', '2', '-1', '0'])}",
                lambda: f"seq {' '.join(pick.choice(['1', '3', '-2', '0', '5']) for _ in range(pick.choice([0, 1, 2, 3, 4])))}",
                lambda: f"{pick.choice(['indent', 'nindent'])} {pick.choice(['0', '2', '4', '-1'])} {self.argument('string', depth)}",
                lambda: f"slice {pick.choice(['.l', '(list 1 2 3)', '.ls', '.li', '.s', '.n'])} {pick.choice(['0', '1', '', '0 1', '1 1', '0 2'])}",
                lambda: f"chunk {pick.choice(['1', '2', '5'])} {self.argument(ANY_SLICE, 0)}",
                lambda: f"date_in_zone {self.string_literal('layout')} {pick.choice(TIMES)} {pick.choice(ZONES)}",
                lambda: f"htmlDateInZone {pick.choice(['.i', '.i64', '1700000000'])} {pick.choice(ZONES)}",
                lambda: f"durationRound {self.string_literal('duration')}",
                lambda: f"(urlParse {self.string_literal('url')})",
                lambda: f"urlParse {self.string_literal('url')} | urlJoin",
                lambda: f"(semver {self.string_literal('version')}).{pick.choice(['Major', 'Minor', 'Prerelease', 'Original', 'Metadata', 'Nope'])}",
                lambda: f"{pick.choice(TIMES)}.{pick.choice(METHODS)}",
                lambda: f"regexReplaceAll {self.string_literal('regex')} {self.argument('string', 0)} {pick.choice(REPLACEMENTS)}",
                lambda: f"{pick.choice(['regexFindAll', 'regexSplit', 'mustRegexSplit'])} {self.string_literal('regex')} {self.argument('string', 0)} {pick.choice(['-1', '0', '1', '2'])}",
                lambda: f"printf {self.string_literal('format')} {' '.join(self.anything(0) for _ in range(pick.choice([0, 1, 2, 3])))}",
                lambda: f"index {pick.choice(['.l', '.m', '.s', '.ms', '.ls', '.li', '.mi', '.n', '.none', '.i', '.el', '(list 1 2)'])} {pick.choice(INDEXES)}",
            ]
        )()  # fmt: skip

    def command(self, depth: int, piped: bool = False) -> str:
        pick = self.random
        if not piped and pick.random() < 0.35:
            return self.anything(depth)
        if not piped and pick.random() < 0.3:
            return self.special_call(depth)
        return self.call(pick.choice(self.names), depth, piped)

    def pipeline(self, depth: int) -> str:
        parts = [self.command(depth)]
        while self.random.random() < 0.25:
            parts.append(self.command(depth, piped=True))
        return " | ".join(parts)

    # Structure

    def delimited(self, body: str) -> str:
        pick = self.random
        left = pick.choice(["{{", "{{ ", "{{ ", "{{- "])
        right = pick.choice(["}}", " }}", " }}", " -}}"])
        return left + body + right

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
            return pick.choice(TEXTS)
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
            return pick.choice(["{{/* comment */}}", "{{- /* a */ -}}", "{{/* {{ }} */}}"])
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
        over = pick.choice(
            [".l", ".m", ".ls", ".li", "3", ".el", ".n", "(list 1 .s nil)", ".i64", ".ms", ".s", ".f", "2", ".mi", ".u",
             self.argument(ANY_SLICE, 1), self.argument(ANY_MAP, 1)]
        )  # fmt: skip
        # An integer from the data may be huge: a range over it would take for ever in Go.
        if over in (".i64", ".u"):
            over = "(list .i64)"
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
            return self.delimited(f'block "B{pick.randrange(3)}" {self.pipeline(0)}') + body + "{{end}}"
        name = pick.choice([*self.templates, "T0", "missing"])
        return self.delimited(f'template "{name}"{pick.choice(["", " .", " .m", " $"])}')

    def definitions(self) -> str:
        text = ""
        self.templates = []
        for number in range(self.random.choice([0, 0, 0, 0, 0, 0, 1, 2])):
            self.variables, self.in_range = [], 0
            text += f'{{{{define "T{number}"}}}}{self.nodes(1)}{{{{end}}}}'
            self.templates.append(f"T{number}")
        self.variables = []
        return text

    def damaged(self, text: str) -> str:
        pick = self.random
        at = pick.randrange(len(text) + 1) if text else 0
        return pick.choice(
            [
                lambda: text[:at] + text[at + 1 :],
                lambda: text[:at] + pick.choice("{}()|.$\"'`:=,-/*\\ \n#@é1x") + text[at:],
                lambda: text[:at],
                lambda: text[:at] + pick.choice(["{{", "}}", "{{end}}", "{{else}}", " -}}", "{{- ", "/*", "nil", "0x", "$"]) + text[at:],
            ]
        )()  # fmt: skip

    def case(self) -> tuple[str, Any]:
        """A template and its data."""
        data = self.data()
        text = self.definitions() + self.nodes(self.random.choice([0, 1, 1, 2]))
        if self.random.random() < 0.08:
            text = self.damaged(text)
        return text, data
