"""Converts documents to YAML templates, and rendered YAML to documents; both in yaml.v3's dialect.

Conversions are cached by the document's bytes, because policies are resolved far more often than they change. Rendered texts are
cached too. Both caches are limited by the size of their content.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import Any, Final, Generic, TypeVar

import orjson

from muster.gotemplate import GoError, Limits
from muster.gotemplate.errors import LimitExceeded
from muster.gotemplate.golang import json as gojson
from muster.gotemplate.golang import yaml
from muster.gotemplate.limits import DEFAULT_LIMITS, Meter, current_meter
from muster.machinery.golang.json import dumps

T = TypeVar("T")
Document = dict[str, Any] | list[Any] | str | bytes
LARGE: Final = 8 * 1024
"""Bytes of a document above which it is converted in a thread."""
_NOT_A_NUMBER: Final = re.compile(r"\.(?:nan|inf)", re.IGNORECASE)
"""YAML's notation for numbers that JSON does not have."""


class SizedCache(Generic[T]):
    """An LRU cache with a limit of the total size."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._used = 0
        self._items: OrderedDict[Hashable, tuple[T, int]] = OrderedDict()

    def get(self, key: Hashable) -> T | None:
        found = self._items.get(key)
        if found is None:
            return None
        self._items.move_to_end(key)
        return found[0]

    def put(self, key: Hashable, value: T, size: int) -> None:
        if size > self._size // 8:
            return
        before = self._items.pop(key, None)
        self._used += size - (before[1] if before else 0)
        self._items[key] = value, size
        while self._used > self._size:
            _, (_, freed) = self._items.popitem(last=False)
            self._used -= freed


def encoded(document: Document) -> bytes:
    """The document's bytes: JSON, unless it is a text. Raises GoError for an invalid document."""
    if isinstance(document, bytes):
        return document
    if isinstance(document, str):
        return document.encode("utf-8", "surrogateescape")
    try:
        return orjson.dumps(document)
    except TypeError as error:
        raise GoError(f"yaml: the document cannot be written as JSON: {error}") from None


def to_yaml(data: bytes) -> str:
    """JSON as YAML with templates. Raises GoError."""
    # Upstream parses JSON as YAML, of which it is a subset except for some characters; YAML input is accepted too.
    with _bounded(DEFAULT_LIMITS):
        return yaml.dump(yaml.load(data.decode("utf-8", "surrogateescape")))


def to_json(text: str, limits: Limits = DEFAULT_LIMITS) -> bytes:
    """Rendered YAML as JSON, with numbers as Go writes them. Raises GoError."""
    with _bounded(limits):
        value = yaml.load(text)
        if not _NOT_A_NUMBER.search(text):
            try:
                return dumps(value)
            except TypeError:
                # A value that Go encodes differently, or refuses with its own message.
                pass
        return gojson.marshal(value).encode()


@contextmanager
def _bounded(limits: Limits) -> Iterator[None]:
    """Applies the limits of a template to conversions."""
    token = current_meter.set(Meter(limits))
    try:
        yield
    except LimitExceeded as error:
        raise GoError(f"yaml: {error}") from None
    except RecursionError:
        raise GoError("yaml: the document is nested too deeply") from None
    finally:
        current_meter.reset(token)
