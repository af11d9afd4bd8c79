"""Compares our CustomResourceDefinitions with upstream's: does ours take everything that theirs takes?

    python -m tools.upstream_crds FILE_OR_DIRECTORY…      (YAML with CustomResourceDefinitions, for example the api module's)

Schemas are walked side by side; every place where ours is narrower (a field missing, a smaller enum, a tighter bound, another
pattern, something more required) is a problem, every other difference in what the server does (defaults, list types, columns) is
too. Places where ours is deliberately wider are known by name here. Nothing of upstream's texts is kept.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from muster.api.crds import definitions
from muster.kube import yaml

Raw = Mapping[str, Any]
_WIDER_PATTERNS: Final = {"arn:aws:eks:": "arn:aws[a-z-]*:eks:"}
_SAME: Final = (
    *("type", "format", "default", "nullable", "x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-map-type"),
    *("x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource", "exclusiveMinimum"),
)
_LOWER_IS_WIDER: Final = ("minLength", "minimum", "minItems", "minProperties")
_HIGHER_IS_WIDER: Final = ("maxLength", "maximum", "maxItems", "maxProperties")


def compare(theirs: Raw, ours: Raw) -> Iterator[str]:
    """What differs between two definitions, other than by ours being wider on purpose."""
    name = theirs["metadata"]["name"]
    for field in ("group", "scope", "names"):
        if theirs["spec"][field] != ours["spec"][field]:
            yield f"{name}: {field} is {ours['spec'][field]}, upstream has {theirs['spec'][field]}"
    known = {version["name"]: version for version in ours["spec"]["versions"]}
    for version in theirs["spec"]["versions"]:
        path = f"{name}/{version['name']}"
        if version["name"] not in known:
            yield f"{path} is missing"
            continue
        yield from _compare_versions(version, known[version["name"]], path)


def _compare_versions(theirs: Raw, ours: Raw, path: str) -> Iterator[str]:
    for field in ("served", "storage", "deprecated"):
        if theirs.get(field) != ours.get(field):
            yield f"{path}: {field} is {ours.get(field)}, upstream has {theirs.get(field)}"
    if (theirs.get("subresources") or {}) != (ours.get("subresources") or {}):
        yield f"{path}: subresources differ"
    if _columns(theirs) != _columns(ours):
        yield f"{path}: columns are {_columns(ours)}, upstream has {_columns(theirs)}"
    yield from _compare_schemas(theirs["schema"]["openAPIV3Schema"], ours["schema"]["openAPIV3Schema"], path)


def _columns(version: Raw) -> list[tuple[str, str, str]]:
    return [(column["name"], column["type"], column["jsonPath"]) for column in version.get("additionalPrinterColumns") or ()]


def _compare_schemas(theirs: Raw, ours: Raw, path: str) -> Iterator[str]:
    for field, below in (theirs.get("properties") or {}).items():
        if field in (ours.get("properties") or {}):
            yield from _compare_schemas(below, ours["properties"][field], f"{path}.{field}")
        else:
            yield f"{path}.{field} is missing"
    for field in ("items", "additionalProperties"):
        if isinstance(theirs.get(field), Mapping):
            yield from _compare_schemas(theirs[field], ours.get(field) or {}, f"{path}[]")
    if more := set(ours.get("required") or ()) - set(theirs.get("required") or ()):
        yield f"{path}: {sorted(more)} is required, upstream does without"
    yield from _compare_bounds(theirs, ours, path)
    for keyword in _SAME:
        if theirs.get(keyword) != ours.get(keyword):
            yield f"{path}: {keyword} is {ours.get(keyword)!r}, upstream has {theirs.get(keyword)!r}"


def _compare_bounds(theirs: Raw, ours: Raw, path: str) -> Iterator[str]:
    allowed = _choices(theirs)
    if allowed is not None and "enum" not in ours:
        # A name of any driver where upstream lists its own: wide enough if theirs all pass.
        if refused := sorted(choice for choice in allowed if not _takes(ours, choice)):
            yield f"{path}: refuses {refused}"
        return
    for keywords, sign in ((_LOWER_IS_WIDER, 1), (_HIGHER_IS_WIDER, -1)):
        for keyword in keywords:
            if keyword in ours and (keyword not in theirs or sign * ours[keyword] > sign * theirs[keyword]):
                yield f"{path}: {keyword} is {ours[keyword]}, upstream has {theirs.get(keyword)}"
    if "enum" in ours and (allowed is None or not allowed <= set(ours["enum"])):
        yield f"{path}: only {ours['enum']}, upstream has {sorted(allowed or ())}"
    if "pattern" in ours and not _is_same_or_wider(theirs.get("pattern", ""), ours["pattern"]):
        yield f"{path}: pattern is {ours['pattern']}, upstream has {theirs.get('pattern')}"
    for keyword in ("oneOf", "anyOf", "not"):
        if keyword in ours and keyword not in theirs:
            yield f"{path}: has {keyword}, upstream does without"
    rules = {rule["rule"] for rule in theirs.get("x-kubernetes-validations") or ()}
    if more := {rule["rule"] for rule in ours.get("x-kubernetes-validations") or ()} - rules:
        yield f"{path}: has more rules: {sorted(more)}"


def _choices(schema: Raw) -> set[str] | None:
    """What an enum allows; upstream also writes several in `allOf`."""
    enums = [set(part["enum"]) for part in (schema, *(schema.get("allOf") or ())) if "enum" in part]
    return set.intersection(*enums) if enums else None


def _takes(schema: Raw, text: str) -> bool:
    return len(text) <= schema.get("maxLength", len(text)) and re.search(schema.get("pattern", ""), text) is not None


def _is_same_or_wider(theirs: str, ours: str) -> bool:
    if theirs == ours:
        return True
    return any(old in theirs and new in ours for old, new in _WIDER_PATTERNS.items())


def read(paths: Iterable[Path]) -> dict[str, Any]:
    """The definitions in files and directories, by name."""
    files = [file for path in paths for file in (sorted(path.rglob("*.yaml")) if path.is_dir() else [path])]
    documents = [document for file in files for document in yaml.load_all(file.read_bytes())]
    return {
        document["metadata"]["name"]: document
        for document in documents
        if isinstance(document, dict) and document.get("kind") == "CustomResourceDefinition"
    }


def main(arguments: list[str]) -> int:
    ours = {document["metadata"]["name"]: document for document in definitions()}
    theirs = read(map(Path, arguments))
    problems = [problem for name in sorted(theirs.keys() & ours.keys()) for problem in compare(theirs[name], ours[name])]
    for problem in problems:
        print(problem)
    print(f"{len(theirs.keys() & ours.keys())} definitions compared, {len(problems)} differences", file=sys.stderr)
    print(f"only upstream: {', '.join(sorted(theirs.keys() - ours.keys())) or '-'}", file=sys.stderr)
    print(f"only ours: {', '.join(sorted(ours.keys() - theirs.keys())) or '-'}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
