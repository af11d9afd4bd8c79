"""The real server's answers, kept in one file per module of cases.

`make test` compares the embedded server with these files and needs no Go; `make test-kube` also checks that the files
still say what the real server says.
"""

import importlib
import json
import pkgutil
from collections.abc import Iterable
from pathlib import Path

from tests.differential import cases
from tests.differential.dsl import Case
from tests.differential.runner import Record

DIRECTORY = Path(__file__).with_name("golden")


def groups() -> dict[str, list[Case]]:
    """Every module in `cases/` with its `CASES`."""
    found: dict[str, list[Case]] = {}
    for module in sorted(info.name for info in pkgutil.iter_modules(cases.__path__)):
        found[module] = list(importlib.import_module(f"{cases.__name__}.{module}").CASES)
    return found


def load(group: str) -> dict[str, list[Record]]:
    path = DIRECTORY / f"{group}.json"
    return json.loads(path.read_text()) if path.exists() else {}


def save(group: str, answers: dict[str, list[Record]], known: Iterable[str]) -> None:
    """Writes the answers of the cases that still exist, in their order; one answer a line, so that a diff shows answers."""
    DIRECTORY.mkdir(exist_ok=True)
    texts = []
    for name in known:
        if name in answers:
            lines = ",\n".join(json.dumps(r, ensure_ascii=False, separators=(",", ":")) for r in answers[name])
            texts.append(f"{json.dumps(name, ensure_ascii=False)}: [\n{lines}\n]")
    (DIRECTORY / f"{group}.json").write_text("{\n" + ",\n".join(texts) + "\n}\n")
