"""Documents as YAML that is a template, and rendered YAML as documents; both in yaml.v3's dialect.

What came of a document is kept, by its bytes: policies are resolved far more often than they change. Rendered texts that are the
same as before are not read again either. Both memories are bounded by the size of what they keep.
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
"""Bytes of a document from which on it is read and written in a thread."""
_NOT_A_NUMBER: Final = re.compile(r"\.(?:nan|inf)", re.IGNORECASE)
"""How YAML spells the numbers that JSON has not."""


class Kept(Generic[T]):
    """What was used last, up to a total size."""

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
    """The document's bytes: JSON, unless it is a text. Raises GoError for what is no document."""
    if isinstance(document, bytes):
        return document
    if isinstance(document, str):
        return document.encode("utf-8", "surrogateescape")
    try:
        return orjson.dumps(document)
    except TypeError as error:
        raise GoError(f"yaml: the document cannot be written as JSON: {error}") from None


def to_yaml(data: bytes) -> str:
    """JSON as the YAML in which templates stand. Raises GoError."""
    # Upstream reads JSON as YAML, which it is but for some characters; what is YAML and no JSON is read too.
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
                # Something that Go writes in its own way, or refuses in its own words.
                pass
        return gojson.marshal(value).encode()


@contextmanager
def _bounded(limits: Limits) -> Iterator[None]:
    """The limits of a template, for what is done beside it."""
    token = current_meter.set(Meter(limits))
    try:
        yield
    except LimitExceeded as error:
        raise GoError(f"yaml: {error}") from None
    except RecursionError:
        raise GoError("yaml: the document is nested too deeply") from None
    finally:
        current_meter.reset(token)
