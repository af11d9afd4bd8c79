"""The metrics that the code declares, read from its syntax trees: name, kind and help of each."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

SOURCES = Path(__file__).parents[2] / "src/muster"
DECLARING = {"counter": "counter", "counter_of": "counter", "gauge": "gauge", "gauges": "gauge", "histogram": "histogram"}

_MENTION = re.compile(rf"\.({'|'.join(DECLARING)})\(|^\w+_METRIC\b", re.MULTILINE)


@dataclass(frozen=True)
class DeclaredMetric:
    pattern: str
    """Its name; `*` stands for what is only known when the code runs."""
    kind: str


@cache
def declared_metrics() -> list[DeclaredMetric]:
    sources = (file.read_text() for file in sorted(SOURCES.rglob("*.py")))
    trees = [ast.parse(source) for source in sources if _MENTION.search(source)]
    everywhere = {name: value for tree in trees for name, value in _constants(tree) if name.endswith("_METRIC")}
    return [one for tree in trees for one in _declared(tree, {**everywhere, **dict(_constants(tree))})]


def _declared(tree: ast.Module, constants: dict[str, str]) -> Iterator[DeclaredMetric]:
    # Names are looked up in the whole file: what is given to a call is nearly always assigned just above it.
    names = {**constants, **dict(_assigned(tree, constants))}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in DECLARING and node.args:
            pattern = _text(node.args[0], names)
            if pattern.strip("*"):
                yield DeclaredMetric(pattern, DECLARING[node.func.attr])


def _constants(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in tree.body:
        targets = [node.target] if isinstance(node, ast.AnnAssign) else node.targets if isinstance(node, ast.Assign) else []
        value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            yield from ((target.id, value.value) for target in targets if isinstance(target, ast.Name))


def _assigned(tree: ast.Module, constants: dict[str, str]) -> Iterator[tuple[str, str]]:
    """`name, text = "…", "…"` inside functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple) and isinstance(node.value, ast.Tuple):
            for target, value in zip(node.targets[0].elts, node.value.elts, strict=True):
                if isinstance(target, ast.Name) and target.id == "name":
                    yield target.id, _text(value, constants)


def _text(node: ast.expr, names: dict[str, str]) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.Name):
        return names.get(node.id, "*")
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part, names) for part in node.values)
    if isinstance(node, ast.FormattedValue):
        return _text(node.value, {name: text for name, text in names.items() if name != "name"})
    return "*"
