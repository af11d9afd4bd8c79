"""Table column definitions of every kind from the real server's printers: names, types, formats and priorities."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

_START = re.compile(r"^\t(\w+) :?= (?:append\(\w+, )?\[\]metav1\.TableColumnDefinition\{")
_ATTRIBUTE = re.compile(r'(Name|Type|Format|Priority): (?:"([^"]*)"|(\d+))')
_LITERAL = re.compile(r'Description: ("(?:[^"\\]|\\.)*")')
_SWAGGER = re.compile(r'Description: (\w+)\.(\w+)\{\}(?:\.(\w+))?\.SwaggerDoc\(\)\["(\w*)"\]')
_HANDLER = re.compile(r"TableHandler\((\w+), print(\w+)\)")
_IMPORT = re.compile(r'^\s*(?:(\w+)\s+)?"(k8s\.io/[\w./-]+)"')
_DOC_MAP = re.compile(r"^var map_(\w+) = map\[string\]string\{")
_DOC_ENTRY = re.compile(r'^\t("(?:[^"\\]|\\.)*"):\s+("(?:[^"\\]|\\.)*"),$')
_EMBEDDED = {"InvolvedObject": "ObjectReference"}


def collect(kubernetes: Path) -> dict[str, list[dict[str, Any]]]:
    """Kind (as the internal type is called) → columns."""
    lines = (kubernetes / "pkg/printers/internalversion/printers.go").read_text().splitlines()

    definitions: dict[str, list[dict[str, Any]]] = {}
    kinds: dict[str, list[dict[str, Any]]] = {}
    current: list[dict[str, Any]] | None = None
    for line in lines:
        if found := _START.match(line):
            current = definitions.setdefault(found[1], [])
        elif line.startswith("\t}"):
            current = None
        elif current is not None and line.startswith("\t\t{"):
            column: dict[str, Any] = {
                name.lower(): text or int(number) for name, text, number in _ATTRIBUTE.findall(line.partition("Description:")[0])
            }
            current.append(column)
        elif (found := _HANDLER.search(line)) and not found[2].endswith("List"):
            kinds[found[2]] = definitions[found[1]]
    return kinds
