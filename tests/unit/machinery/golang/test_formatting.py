from typing import Any

import pytest

from muster.machinery.golang import formatting


@pytest.mark.parametrize(
    ("value", "text", "syntax"),
    [
        (None, "<nil>", "interface {}(nil)"),
        (True, "true", "true"),
        (3, "3", "3"),
        (1.5, "1.5", "1.5"),
        (2.0, "2", "2"),
        (1e21, "1e+21", "1e+21"),
        (100000.25, "100000.25", "100000.25"),
        (1e6, "1e+06", "1e+06"),
        (12345678.5, "1.23456785e+07", "1.23456785e+07"),
        (1.2345678901234567e20, "1.2345678901234567e+20", "1.2345678901234567e+20"),
        (-0.0001, "-0.0001", "-0.0001"),
        (2**64 - 1, "1.8446744073709552e+19", None),
        (1.25e-7, "1.25e-07", "1.25e-07"),
        ("a b", "a b", '"a b"'),
        ([1, "x"], "[1 x]", '[]interface {}{1, "x"}'),
        ({"b": 1, "a": {"c": None}}, "map[a:map[c:<nil>] b:1]", None),
        ({"a": [1]}, "map[a:[1]]", 'map[string]interface {}{"a":[]interface {}{1}}'),
    ],
)
def test_values_print_as_go_prints_them(value: Any, text: str, syntax: str | None) -> None:
    assert formatting.text(value) == text
    if syntax is not None:
        assert formatting.syntax(value) == syntax


def test_types_have_their_go_names() -> None:
    values: list[Any] = ["", 1, 1.5, True, {}, [], None]
    assert [formatting.type_name(value) for value in values] == [
        "string",
        "int64",
        "float64",
        "bool",
        "map[string]interface {}",
        "[]interface {}",
        "<nil>",
    ]
