"""Templates whose result is known from Go: what the tests of text/template check, in our words, and each sprig function.

A case is a template, the name of its data, and options. The expectations are in `expectations.json`, written by
`tools/gotemplate_expectations.py` with the Go toolchain; nothing there is written by hand.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from muster.gotemplate.template import MissingKey
from muster.gotemplate.values import ANY_MAP, ANY_SLICE, Int64, Map, Slice, Struct, Uint8
from tests.unit.gotemplate import language_cases, sprig_cases

DATA: dict[str, Any] = {
    "nil": None,
    "text": "plain",
    "number": 42,
    "list": [1, "two", None, 3.5],
    "main": {
        "s": "str", "t": "Hello, World", "empty": "", "i": 17, "neg": -5, "i64": Int64(1 << 40), "byte": Uint8(200),
        "f": 1.5, "whole": 3.0, "big": 123456789012.0, "tiny": 1e-7, "yes": True, "no": False, "null": None,
        "list": [1, "x", None, 2.5], "strings": Slice(["c", "a", "b"], "[]string"), "ints": Slice([3, 4, 5], "[]int"),
        "none": [], "dup": ["a", "b", "a", 1, 1, 1.0], "nested": [[1, 2], [3]], "matrix": [{"n": 1}, {"n": 2}],
        "map": {"one": 1, "two": "2", "nil": None, "sub": {"deep": "yes"}}, "labels": Map({"env": "prod"}),
        "numbered": Map({10: "ten", 9: "nine"}, "map[int]string"), "nilmap": Map({}, ANY_MAP, is_nil=True),
        "nillist": Slice([], ANY_SLICE, is_nil=True), "uni": "héllo wörld", "html": "<a href='x'>\"&\"</a>",
        "lines": "one\ntwo\nthree", "json": '{"a":[1,2,{"b":null}]}', "date": "2024-02-29", "url": "https://u:p@h:8/p?q=1#f",
    },
    "hub": Struct({"ManagedClusterName": "c1", "ManagedClusterLabels": Map({"env": "prod"})}),
}  # fmt: skip


class Case(NamedTuple):
    text: str
    data: str = "main"
    left: str = ""
    right: str = ""
    plain: bool = False
    missing: MissingKey | Literal[""] = ""


def _lines(block: str) -> list[str]:
    """One template per line; `⏎` stands for a newline inside one."""
    return [line.replace("⏎", "\n") for line in block.strip("\n").split("\n")]


def all_cases() -> list[Case]:
    cases = [Case(text, plain=True) for text in _lines(language_cases.PLAIN)]
    cases += [Case(text) for text in _lines(language_cases.WITH_SPRIG)]
    cases += [Case(text, "hub", "{{hub", "hub}}") for text in _lines(language_cases.HUB)]
    cases += [Case(text, plain=True, missing="error") for text in _lines(language_cases.MISSING)]
    cases += [Case(text, plain=True, missing="zero") for text in _lines(language_cases.MISSING)]
    cases += [Case(text, name, plain=True) for text in _lines(language_cases.OTHER_DATA) for name in DATA]
    cases += [Case(text, "main", "<<", ">>", plain=True) for text in _lines(language_cases.ANGLES)]
    cases += [Case(text) for text in _lines(sprig_cases.SPRIG)]
    return cases
