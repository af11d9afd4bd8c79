"""Table column definitions of every kind from the real server's printers: names, types, formats, priorities, descriptions."""

from __future__ import annotations

import json
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


def _swagger_docs(directory: Path) -> dict[str, dict[str, str]]:
    docs: dict[str, dict[str, str]] = {}
    current: dict[str, str] = {}
    for line in (directory / "types_swagger_doc_generated.go").read_text().splitlines():
        if found := _DOC_MAP.match(line):
            current = docs.setdefault(found[1], {})
        elif found := _DOC_ENTRY.match(line):
            current[json.loads(found[1])] = json.loads(found[2])
    return docs


def collect(kubernetes: Path, modules: dict[str, Path]) -> dict[str, list[dict[str, Any]]]:
    """Kind (as the internal type is called) → columns."""
    lines = (kubernetes / "pkg/printers/internalversion/printers.go").read_text().splitlines()
    imports = {found[1] or found[2].rsplit("/", 1)[-1]: found[2] for line in lines if (found := _IMPORT.match(line))}
    cache: dict[str, dict[str, dict[str, str]]] = {}

    def description(line: str) -> str:
        if found := _LITERAL.search(line):
            text: str = json.loads(found[1])
            return text
        found = _SWAGGER.search(line)
        if found is None:
            return ""
        path = imports[found[1]]
        if path not in cache:
            module = max((m for m in modules if path.startswith(m + "/")), key=len)
            cache[path] = _swagger_docs(modules[module] / path.removeprefix(module).lstrip("/"))
        return cache[path][_EMBEDDED[found[3]] if found[3] else found[2]].get(found[4], "")

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
            current.append({**column, "description": description(line)})
        elif (found := _HANDLER.search(line)) and not found[2].endswith("List"):
            kinds[found[2]] = definitions[found[1]]
    return kinds
