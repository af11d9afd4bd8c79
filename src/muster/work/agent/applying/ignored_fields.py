"""`ignoreFields` of server-side apply: which fields of a manifest are left out of what is applied.

Only those of the condition OnSpokePresent are; those of OnSpokeChange are applied, but not because they changed on the cluster. A
selector is a JSONPath whose last step names a field, a JSON pointer, or a jq path. One that selects nothing is no mistake; one that
cannot be understood is reported, because a field its author thinks ignored would be overwritten.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable
from typing import Any, Final

from muster.api.work.v1 import IgnoreField
from muster.kube.jsonpath import JSONPathError, Limit, compile_path
from muster.machinery.objects import Object
from muster.work.agent.applying.jqpaths import JqError, delete_path
from muster.work.agent.interfaces import ApplyProblem

REASON: Final = "AppliedManifestSSAIgnoreFieldError"
MOST: Final = 100_000
"""Limit of values that all selectors of a manifest may visit together: no manifest may block the agent."""
ON_PRESENT: Final = "OnSpokePresent"
_LAST: Final = re.compile(r"(?P<parent>.*)(?:\.(?P<name>[^.\[\]{}'\"]+)|\['(?P<quoted>[^']+)'\])", re.DOTALL)


def without_ignored(document: Object, fields: Iterable[IgnoreField]) -> Object:
    """A copy of the document without the fields to be ignored where the object exists."""
    kept: Object = copy.deepcopy(document)
    limit = Limit(MOST)
    for field in fields:
        if field.condition != ON_PRESENT:
            continue
        for path in field.json_paths:
            _delete_json_path(kept, path, limit)
        for pointer in field.json_pointers:
            _delete_pointer(kept, pointer)
        for expression in field.jq_path_expressions:
            try:
                delete_path(kept, expression, limit)
            except JqError as error:
                raise _problem(f"JQ expression error in '{expression}': {error}") from error
    return kept


def _problem(text: str) -> ApplyProblem:
    return ApplyProblem(REASON, f"Failed to process ignoreFields: {text}")


def _delete_json_path(document: Object, path: str, limit: Limit) -> None:
    bare = path[1:-1] if path.startswith("{") and path.endswith("}") else path
    found = _LAST.fullmatch(bare if bare.startswith((".", "[", "$")) else f".{bare}")
    if found is None:
        raise _problem(f"JSONPath error in '{path}': it must end with the name of a field")
    parent = found["parent"].removeprefix("$")
    try:
        holders = compile_path(parent).find(document, limit=limit) if parent else [document]
    except JSONPathError as error:
        raise _problem(f"JSONPath error in '{path}': {error}") from error
    for holder in holders:
        if isinstance(holder, dict):
            holder.pop(found["name"] or found["quoted"], None)


def _delete_pointer(document: Object, pointer: str) -> None:
    if not pointer.startswith("/"):
        raise _problem(f"JSON Pointer error in '{pointer}': it must begin with '/'")
    *parents, last = [part.replace("~1", "/").replace("~0", "~") for part in pointer[1:].split("/")]
    holder: Any = document
    for part in parents:
        holder = _step(holder, part)
    if isinstance(holder, dict):
        holder.pop(last, None)
    elif isinstance(holder, list) and _step(holder, last) is not None:
        del holder[int(last)]


def _step(holder: Any, part: str) -> Any:
    if isinstance(holder, dict):
        return holder.get(part)
    if isinstance(holder, list) and part.isascii() and part.isdigit() and int(part) < len(holder):
        return holder[int(part)]
    return None
