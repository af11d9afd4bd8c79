"""JSON-like values as YAML in block style with sorted keys, as kubectl writes them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

import yaml as pyyaml
from yaml.nodes import ScalarNode, SequenceNode

from muster.kube.yamlscalars import STR, TYPED


class _Dumper(pyyaml.CSafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


_BASE_60: Final = r"[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?"
_DATE: Final = r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:[Tt ].*)?"
_LOOKS_TYPED: Final = re.compile(f"(?:{TYPED}|{_BASE_60}|{_DATE})\\Z")


def _write_string(dumper: _Dumper, value: str) -> ScalarNode:
    if "\n" in value:
        return dumper.represent_scalar(STR, value, style="|")
    return dumper.represent_scalar(STR, value, style='"' if _LOOKS_TYPED.match(value) else None)


def _write_list(dumper: _Dumper, value: list[Any]) -> SequenceNode:
    return dumper.represent_sequence("tag:yaml.org,2002:seq", value, flow_style=not value)


_Dumper.add_representer(str, _write_string)
_Dumper.add_representer(list, _write_list)


def dump(value: Any, *, ascii_only: bool = False) -> str:
    """Block style, keys sorted, lists level with their key, text that could be mistaken for another type quoted. With `ascii_only`
    every other character is an escape."""
    text: str = pyyaml.dump(
        value, Dumper=_Dumper, default_flow_style=False, sort_keys=True, allow_unicode=not ascii_only, width=2**31 - 1
    )
    return text.removesuffix("...\n")


def dump_all(values: Iterable[Any]) -> str:
    """Documents separated by `---`."""
    return "---\n".join(dump(value) for value in values)
