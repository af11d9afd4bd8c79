"""JSON patch (RFC 6902) with the semantics of the library the Kubernetes server uses.

It is laxer than the RFC in places clients rely on: `replace` of an absent map key adds it, `test` of an absent key against null
passes, array indices may be negative (from the end), and what precedes the first slash of a path is ignored. The document is never
changed: containers on the way to a change are copied once, the rest is shared with the result. Two limits stop patches that
multiply: the number of operations, and the total size of what `copy` duplicates.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import orjson

MAX_OPERATIONS: Final = 10_000
MAX_COPIED_BYTES: Final = 3 * 1024 * 1024

_INDEX: Final = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)
_ESCAPE: Final = re.compile("~[01]")


class PatchError(ValueError):
    """An operation does not apply; the server answers 422."""


class TooManyOperations(PatchError):
    """More operations than the server accepts in one patch; the server answers 413."""


def check_operations(operations: Sequence[object]) -> None:
    if len(operations) > MAX_OPERATIONS:
        raise TooManyOperations(f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(operations)}")


def apply_json_patch(document: Any, operations: Sequence[Mapping[str, Any]]) -> Any:
    check_operations(operations)
    patch = _Patch(document)
    for operation in operations:
        name = operation.get("op")
        kind = name if isinstance(name, str) else "unknown"
        apply = _OPERATIONS.get(kind)
        if apply is None:
            raise PatchError(f"Unexpected kind: {kind}")
        apply(patch, operation)
    return patch.document


def _key(text: str) -> str:
    return _ESCAPE.sub(lambda found: "/" if found[0] == "~1" else "~", text) if "~" in text else text


def _index(key: str, length: int) -> int:
    """The position a key names in a list with `length` addressable places."""
    if not _INDEX.fullmatch(key):
        raise PatchError(f'strconv.Atoi: parsing "{key}": invalid syntax')
    index = int(key)
    if index >= length or index < -length:
        raise PatchError(f"Unable to access invalid index: {index}: invalid index referenced")
    return index + length if index < 0 else index


def _get(container: Any, key: str) -> Any:
    """The value at a key; None where a map lacks it, an error where a list does."""
    if isinstance(container, dict):
        return container.get(key)
    return container[_index(key, len(container))]


def _text(operation: Mapping[str, Any], name: str) -> str | None:
    value = operation.get(name)
    return value if isinstance(value, str) else None


def _path(operation: Mapping[str, Any], kind: str) -> str:
    path = _text(operation, "path")
    if path is None:
        raise PatchError(f"{kind} operation failed to decode path: missing value")
    return path


def _from(operation: Mapping[str, Any], kind: str) -> str:
    path = _text(operation, "from")
    if path is None:
        raise PatchError(f"{kind} operation failed to decode from: operation, missing from field: missing value")
    return path


def _equal(left: Any, right: Any) -> bool:
    """Equality of JSON texts: 1, 1.0 and true are three different values."""
    if isinstance(left, dict):
        return isinstance(right, dict) and left.keys() == right.keys() and all(_equal(v, right[k]) for k, v in left.items())
    if isinstance(left, list):
        return isinstance(right, list) and len(left) == len(right) and all(map(_equal, left, right))
    return type(left) is type(right) and bool(left == right)


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copy(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_copy(item) for item in value]
    return value


class _Patch:
    """The document under work. `_own` holds the containers made here, the only ones that may be changed."""

    def __init__(self, document: Any) -> None:
        self.document = document
        self._own: dict[int, Any] = {}
        self._copied = 0

    def _mine(self, container: Any) -> Any:
        if id(container) in self._own:
            return container
        made = dict(container) if isinstance(container, dict) else list(container)
        self._own[id(made)] = made
        return made

    def find(self, path: str, change: bool) -> tuple[Any, str] | None:
        """The container a path ends in and the key there; with `change`, every container on the way may be written to."""
        parts = path.split("/")
        if len(parts) < 2 or not isinstance(self.document, dict | list):
            return None
        if change:
            self.document = self._mine(self.document)
        container = self.document
        for part in parts[1:-1]:
            key = _key(part)
            try:
                child = _get(container, key)
            except PatchError:
                return None
            if not isinstance(child, dict | list):
                return None
            if change and (mine := self._mine(child)) is not child:
                location: Any = key if isinstance(container, dict) else _index(key, len(container))
                container[location] = child = mine
            container = child
        return container, _key(parts[-1])

    def _insert(self, location: tuple[Any, str], value: Any) -> None:
        container, key = location
        if isinstance(container, dict):
            container[key] = value
        elif key == "-":
            container.append(value)
        elif not _INDEX.fullmatch(key):
            raise PatchError(f"value was not a proper array index: '{key}': strconv.Atoi: parsing \"{key}\": invalid syntax")
        else:
            container.insert(_index(key, len(container) + 1), value)

    def _delete(self, location: tuple[Any, str]) -> None:
        container, key = location
        if not isinstance(container, dict):
            del container[_index(key, len(container))]
        elif key in container:
            del container[key]
        else:
            raise PatchError(f"Unable to remove nonexistent key: {key}: missing value")

    def add(self, operation: Mapping[str, Any]) -> None:
        path = _path(operation, "add")
        location = self.find(path, change=True)
        if location is None:
            raise PatchError(f'add operation does not apply: doc is missing path: "{path}": missing value')
        try:
            self._insert(location, operation.get("value"))
        except PatchError as problem:
            raise PatchError(f"error in add for path: '{path}': {problem}") from None

    def remove(self, operation: Mapping[str, Any]) -> None:
        path = _path(operation, "remove")
        location = self.find(path, change=True)
        if location is None:
            raise PatchError(f'remove operation does not apply: doc is missing path: "{path}": missing value')
        try:
            self._delete(location)
        except PatchError as problem:
            raise PatchError(f"error in remove for path: '{path}': {problem}") from None

    def replace(self, operation: Mapping[str, Any]) -> None:
        path = _path(operation, "replace")
        value = operation.get("value")
        if path == "":
            if not isinstance(value, dict | list):
                raise PatchError("replace operation value must be object or array")
            self.document = value
            return
        location = self.find(path, change=True)
        if location is None:
            raise PatchError(f"replace operation does not apply: doc is missing path: {path}: missing value")
        container, key = location
        if isinstance(container, dict):
            container[key] = value
            return
        try:
            container[_index(key, len(container))] = value
        except PatchError:
            raise PatchError(f"replace operation does not apply: doc is missing key: {path}: missing value") from None

    def move(self, operation: Mapping[str, Any]) -> None:
        source = _from(operation, "move")
        location = self.find(source, change=True)
        if location is None:
            raise PatchError(f"move operation does not apply: doc is missing from path: {source}: missing value")
        try:
            value = _get(*location)
            self._delete(location)
        except PatchError as problem:
            raise PatchError(f"error in move for path: '{location[1]}': {problem}") from None
        path = _path(operation, "move")
        target = self.find(path, change=True)
        if target is None:
            raise PatchError(f"move operation does not apply: doc is missing destination path: {path}: missing value")
        try:
            self._insert(target, value)
        except PatchError as problem:
            raise PatchError(f"error in move for path: '{path}': {problem}") from None

    def copy(self, operation: Mapping[str, Any]) -> None:
        source = _from(operation, "copy")
        location = self.find(source, change=False)
        if location is None:
            raise PatchError(f"copy operation does not apply: doc is missing from path: {source}: missing value")
        try:
            value = _get(*location)
        except PatchError as problem:
            raise PatchError(f"error in copy for from: '{source}': {problem}") from None
        path = _path(operation, "copy")
        target = self.find(path, change=True)
        if target is None:
            raise PatchError(f"copy operation does not apply: doc is missing destination path: {path}: missing value")
        self._copied += len(orjson.dumps(value)) if value is not None else 0
        if self._copied > MAX_COPIED_BYTES:
            raise PatchError(
                f"Unable to complete the copy, the accumulated size increase of copy is {self._copied}, "
                f"exceeding the limit {MAX_COPIED_BYTES}"
            )
        try:
            self._insert(target, _copy(value))
        except PatchError as problem:
            raise PatchError(f"error while adding value during copy: {problem}") from None

    def test(self, operation: Mapping[str, Any]) -> None:
        path = _path(operation, "test")
        expected = operation.get("value")
        if path == "":
            found = self.document
        else:
            location = self.find(path, change=False)
            if location is None:
                raise PatchError(f"test operation does not apply: is missing path: {path}: missing value")
            try:
                found = _get(*location)
            except PatchError as problem:
                raise PatchError(f"error in test for path: '{path}': {problem}") from None
        if not _equal(found, expected):
            raise PatchError(f"testing value {path} failed: test failed")


_OPERATIONS: Final = {
    "add": _Patch.add,
    "remove": _Patch.remove,
    "replace": _Patch.replace,
    "move": _Patch.move,
    "copy": _Patch.copy,
    "test": _Patch.test,
}
