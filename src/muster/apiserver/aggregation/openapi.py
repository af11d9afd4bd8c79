"""OpenAPI v3 and v2 documents of aggregated API servers, merged into our own, so that `kubectl explain` knows their kinds.

Remote documents are not trusted: their size is limited, from a v2 document only the paths below the server's own group version and
the definitions that these need are used, and a part that cannot be encoded is dropped as a whole. A definition that has the name of
one of ours and a different content gets another name, as in kube-openapi (`aggregator.MergeSpecs`).

Documents are refreshed with every probe: a v3 document is fetched when the hash in its URL has changed, a v2 document unless the
ETag still matches. If a server does not answer or sends an invalid document, the last valid one is kept.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any, Final

import orjson

from muster.apiserver.openapi_protobuf import encode_document

Document = dict[str, Any]
Fetch = Callable[[str, str, int], Awaitable[tuple[int, str, bytes]]]
"""(target, known ETag, maximum size) → status, ETag and body of the answer. Raises OSError."""
RunInWorker = Callable[..., Awaitable[Any]]
"""Calls a function with its arguments in the worker thread."""

INDEX: Final = "/openapi/v3"
SWAGGER: Final = "/openapi/v2"
_MAX_INDEX: Final = 1024 * 1024
_MAX_DOCUMENT: Final = 8 * 1024 * 1024
_MAX_SWAGGER: Final = 16 * 1024 * 1024
_MAX_PART: Final = 4 * 1024 * 1024
"""Limit for the part of a v2 document that is merged; it is kept in memory."""
_DEFINITIONS: Final = "#/definitions/"
_PARAMETERS: Final = "#/parameters/"
_KINDS: Final = "x-kubernetes-group-version-kind"


class RemoteOpenApi:
    """The documents of one remote group version."""

    def __init__(self, group: str, version: str) -> None:
        self._group = group
        self._version = version
        self.document: tuple[bytes, str] | None = None
        """The v3 document and its hash; None if the server has none."""
        self.swagger: Document | None = None
        """`paths` and `definitions` of the v2 document; None if the server has none."""
        self._address = ""
        self._etag = ""

    @property
    def name(self) -> str:
        return f"apis/{self._group}/{self._version}"

    async def refresh(self, fetch: Fetch, run_in_worker: RunInWorker) -> bool:
        """Fetch the documents again; return whether they have changed."""
        changed = await self._refresh_document(fetch, run_in_worker)
        return await self._refresh_swagger(fetch, run_in_worker) or changed

    async def _refresh_document(self, fetch: Fetch, run_in_worker: RunInWorker) -> bool:
        status, _, body = await fetch(INDEX, "", _MAX_INDEX)
        address = document_address(body, self.name) if status == 200 else ""
        if not address or (address == self._address and "hash=" in address):
            return False
        status, _, body = await fetch(address, "", _MAX_DOCUMENT)
        if status != 200 or not await run_in_worker(is_document, body):
            return False
        self._address = address
        before, self.document = self.document, (body, hashlib.sha256(body).hexdigest().upper())
        return before != self.document

    async def _refresh_swagger(self, fetch: Fetch, run_in_worker: RunInWorker) -> bool:
        status, etag, body = await fetch(SWAGGER, self._etag, _MAX_SWAGGER)
        if status != 200:
            return False
        part = await run_in_worker(swagger_part, body, self._group, self._version)
        if part is None:
            return False
        self._etag = etag
        before, self.swagger = self.swagger, part
        return bool(before != part)


def document_address(index: bytes, name: str) -> str:
    """The URL of a v3 document according to the index; empty if it is missing or invalid."""
    try:
        entry = orjson.loads(index)["paths"][name]["serverRelativeURL"]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return ""
    if not isinstance(entry, str) or not entry.startswith(f"{INDEX}/") or not entry.isascii() or not entry.isprintable():
        return ""
    return "" if " " in entry else entry


def is_document(body: bytes) -> bool:
    """Whether the body is a v3 document."""
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        return False
    if not isinstance(document, dict) or not str(document.get("openapi", "")).startswith("3."):
        return False
    components = document.get("components")
    return isinstance(document.get("paths"), dict) and isinstance(components, dict) and isinstance(components.get("schemas"), dict)


def swagger_part(body: bytes, group: str, version: str) -> Document | None:
    """The part of a v2 document for one group version: its paths, and all definitions that they or its kinds need."""
    try:
        whole = orjson.loads(body)
        root = f"/apis/{group}/{version}"
        parameters = whole.get("parameters") or {}
        paths = {
            path: _with_parameters(item, parameters)
            for path, item in whole["paths"].items()
            if (path == root or path.startswith(root + "/")) and isinstance(item, dict)
        }
        part = {"paths": paths, "definitions": _needed_definitions(paths, whole["definitions"], group, version)}
        # Checked here, because a part that cannot be encoded would make our own document fail.
        encode_document({"swagger": "2.0", "info": {"title": "", "version": ""}, **part})
        size = len(orjson.dumps(part))
    except (orjson.JSONDecodeError, AttributeError, KeyError, TypeError, ValueError, RecursionError):
        return None
    return part if size <= _MAX_PART and part["definitions"] else None


def _needed_definitions(paths: Document, definitions: Mapping[str, Any], group: str, version: str) -> Document:
    pending = [*_references(paths)]
    for name, schema in definitions.items():
        kinds = schema.get(_KINDS) or ()
        if any(kind.get("group") == group and kind.get("version") == version for kind in kinds):
            pending.append(name)
    found: Document = {}
    while pending:
        name = pending.pop()
        if name not in found and name in definitions:
            found[name] = definitions[name]
            pending.extend(_references(found[name]))
    return dict(sorted(found.items()))


def _references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        reference = node.get("$ref")
        if isinstance(reference, str):
            yield reference.removeprefix(_DEFINITIONS)
        for value in node.values():
            yield from _references(value)
    elif isinstance(node, list):
        for value in node:
            yield from _references(value)


def _with_parameters(node: Any, parameters: Mapping[str, Any]) -> Any:
    """A copy in which references to shared parameters are replaced by the parameters."""
    if isinstance(node, list):
        return [_with_parameters(value, parameters) for value in node]
    if not isinstance(node, dict):
        return node
    reference = node.get("$ref")
    if isinstance(reference, str) and reference.startswith(_PARAMETERS):
        return dict(parameters[reference.removeprefix(_PARAMETERS)])
    return {key: _with_parameters(value, parameters) for key, value in node.items()}


def merge_swagger(document: Document, part: Document) -> None:
    """Add the part of a remote server to a v2 document. Its paths replace ours, because it serves the requests for them."""
    ours, theirs = document["definitions"], part["definitions"]
    names = {name: _free_name(name, schema, ours, theirs) for name, schema in theirs.items() if ours.get(name, schema) != schema}
    for name, schema in theirs.items():
        ours[names.get(name, name)] = _renamed(schema, names) if names else schema
    for path, item in part["paths"].items():
        document["paths"][path] = _renamed(item, names) if names else item


def _free_name(name: str, schema: Any, ours: Document, theirs: Document) -> str:
    """A free name for a definition; two group versions of one server may share it if the content is equal."""
    for number in itertools.count(2):
        free = f"{name}_v{number}"
        if free not in theirs and ours.get(free, schema) == schema:
            break
    return free


def _renamed(node: Any, names: Mapping[str, str]) -> Any:
    if isinstance(node, list):
        return [_renamed(value, names) for value in node]
    if not isinstance(node, dict):
        return node
    copied = {key: _renamed(value, names) for key, value in node.items()}
    reference = copied.get("$ref")
    if isinstance(reference, str) and reference.startswith(_DEFINITIONS):
        name = reference.removeprefix(_DEFINITIONS)
        copied["$ref"] = _DEFINITIONS + names.get(name, name)
    return copied
