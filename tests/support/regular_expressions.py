"""Which regular expressions with possessive repeats or atomic groups Muster would compile on a Python that matches them wrongly.

    python -m tests.support.regular_expressions

It is a program, because modules are imported anew: with `POSSESSIVE` off, as before 3.11.5. It prints JSON: the expressions, each
with its file, and what YAML is written and read as without the quick ways.
"""

from __future__ import annotations

import ast
import importlib
import json
import pkgutil
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import muster

compiler: Any = importlib.import_module("re._compiler")
opcodes: Any = importlib.import_module("re._constants")
parser: Any = importlib.import_module("re._parser")

ROOT: Final = Path(muster.__file__).parent
WRONG: Final = frozenset((opcodes.POSSESSIVE_REPEAT, opcodes.ATOMIC_GROUP))
FUNCTIONS: Final = frozenset(("compile", "match", "search", "fullmatch", "sub", "subn", "split", "findall", "finditer"))
DOCUMENTS: Final = (
    "a: b\nlist:\n- x\n- y: 1\n  z: [1, 2]\ntext: |\n  one\n  two\nquoted: 'it''s'\nother: \"a\\tb\"\n",
    "- a b c # comment\n- -x\n- a:b\n- {k: v}\n",
    "key: value: wrong\n",
)
VALUES: Final = ("plain", "two words", "a: b", "a #b", "x ", "-x", "$x/y", "yes", "a\nb\n", "C++", "https://x/y?z#f")


def is_wrong(pattern: str | bytes, flags: int = 0) -> bool:
    try:
        return _has_wrong(parser.parse(pattern, flags))
    except re.error:
        return False


def _has_wrong(parsed: Any) -> bool:
    if isinstance(parsed, parser.SubPattern | list | tuple):
        return any(_has_wrong(one) for one in parsed)
    return parsed in WRONG if isinstance(parsed, type(opcodes.LITERAL)) else False


def in_calls(source: str) -> Iterator[str]:
    """Expressions that are given to functions of `re` as they are; those in functions are compiled only when these are called."""
    for node in ast.walk(ast.parse(source)):
        if not (isinstance(node, ast.Call) and node.args and isinstance(node.func, ast.Attribute)):
            continue
        function, pattern = node.func, node.args[0]
        if isinstance(function.value, ast.Name) and function.value.id == "re" and function.attr in FUNCTIONS:
            yield from _texts(pattern)


def _texts(pattern: ast.expr) -> Iterator[str]:
    if isinstance(pattern, ast.Constant) and isinstance(pattern.value, str):
        yield pattern.value
    elif isinstance(pattern, ast.JoinedStr):
        # What is filled in may be anything that stands for itself.
        yield "".join(str(part.value) if isinstance(part, ast.Constant) else "x" for part in pattern.values)


def compiled() -> list[tuple[str, str]]:
    """File and pattern of what is compiled while all modules are imported."""
    found: list[tuple[str, str]] = []
    original = compiler.compile

    def compile(pattern: Any, flags: int = 0) -> Any:
        if is_wrong(pattern, flags):
            frame: Any = sys._getframe()
            while frame is not None and not frame.f_code.co_filename.startswith(str(ROOT)):
                frame = frame.f_back
            if frame is not None:
                found.append((frame.f_code.co_filename, str(pattern)))
        return original(pattern, flags)

    compiler.compile = compile
    for module in pkgutil.walk_packages(muster.__path__, "muster."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    return found


def main() -> None:
    from muster.gotemplate.golang.yaml import characters

    characters.POSSESSIVE = False  # type: ignore[misc]
    found = compiled()
    for file in ROOT.rglob("*.py"):
        found += [(str(file), pattern) for pattern in in_calls(file.read_text()) if is_wrong(pattern)]
    print(json.dumps({"expressions": found, "yaml": yaml()}))


def yaml() -> list[str]:
    """The documents as they are read, and the values as they are written."""
    from muster.gotemplate.golang.yaml import YAMLError, dump, load

    answers = []
    for document in DOCUMENTS:
        try:
            answers.append(repr(load(document)))
        except YAMLError as error:
            answers.append(str(error))
    return [*answers, *(dump({"k": value}) for value in VALUES)]


if __name__ == "__main__":
    main()
