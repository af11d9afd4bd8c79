"""JSON-like values as YAML in block style with sorted keys, as kubectl writes them.

Keys are in the order of go-yaml v2: letters after everything else, and numbers within keys by their value (`a2` before `a10`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cmp_to_key
from typing import Any, Final

import yaml as pyyaml
from yaml.nodes import ScalarNode, SequenceNode

from muster.kube.yamlscalars import STR, TYPED
from muster.machinery.golang.numbers import format_float


class _Dumper(pyyaml.CSafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


_BASE_60: Final = r"[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?"
_DATE: Final = r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:[Tt ].*)?"
_PLAIN_KEY: Final = re.compile(r"[A-Za-z]*\Z")
_DIGITS: Final = re.compile(r"[0-9]+")
_TRAILING_DIGITS: Final = re.compile(r"[1-9][0-9]*\Z")
_LOOKS_TYPED: Final = re.compile(f"(?:{TYPED}|{_BASE_60}|{_DATE})\\Z")


def _write_string(dumper: _Dumper, value: str) -> ScalarNode:
    if "\n" in value:
        return dumper.represent_scalar(STR, value, style="|")
    return dumper.represent_scalar(STR, value, style='"' if _LOOKS_TYPED.match(value) else None)


def _write_list(dumper: _Dumper, value: list[Any]) -> SequenceNode:
    return dumper.represent_sequence("tag:yaml.org,2002:seq", value, flow_style=not value)


def _write_float(dumper: _Dumper, value: float) -> ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:float", format_float(value, "g", -1))


_Dumper.add_representer(str, _write_string)
_Dumper.add_representer(list, _write_list)
_Dumper.add_representer(float, _write_float)


def _compare_keys(one: str, other: str) -> int:
    for at, (left, right) in enumerate(zip(one, other, strict=False)):
        if left == right:
            continue
        if left.isalpha() or right.isalpha():
            return ord(left) - ord(right) if left.isalpha() and right.isalpha() else left.isalpha() - right.isalpha()
        # After a digit that counts, zeros count too.
        nonzero = "0" in (left, right) and _TRAILING_DIGITS.search(one[:at]) is not None
        numbers = [_DIGITS.match(text, at) for text in (one, other)]
        digits = [found[0] if found else "" for found in numbers]
        values = [int(f"{int(nonzero)}{text}" if nonzero else text or "0") for text in digits]
        return values[0] - values[1] or len(digits[0]) - len(digits[1]) or ord(left) - ord(right)
    return len(one) - len(other)


def _ordered(value: Any) -> Any:
    if isinstance(value, dict):
        keys = sorted(value)
        if not all(_PLAIN_KEY.match(key) for key in keys):
            keys.sort(key=cmp_to_key(_compare_keys))
        return {key: _ordered(value[key]) for key in keys}
    return [_ordered(item) for item in value] if isinstance(value, list) else value


def dump(value: Any, *, ascii_only: bool = False) -> str:
    """Block style, keys sorted, lists level with their key, text that could be mistaken for another type quoted. With `ascii_only`
    every other character is an escape."""
    text: str = pyyaml.dump(
        _ordered(value), Dumper=_Dumper, default_flow_style=False, sort_keys=False, allow_unicode=not ascii_only, width=2**31 - 1
    )
    return text.removesuffix("...\n")


def dump_all(values: Iterable[Any]) -> str:
    """Documents separated by `---`."""
    return "---\n".join(dump(value) for value in values)
