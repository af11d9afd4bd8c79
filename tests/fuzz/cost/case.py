"""A request that grows: the same attack at every size, so that its cost can be seen to grow in step."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import orjson

from tests.support.client import JSON, Client

BODY_LIMIT = 3 * 1024 * 1024
HEAD_LIMIT = 60 * 1024
NAMESPACE = "cost"
SLACK = 2048
"""Room for what a body has besides the part that grows."""


@dataclass(frozen=True)
class Asked:
    """One request, ready to be sent."""

    method: str
    path: str
    body: bytes = b""
    media: str = JSON
    query: dict[str, Any] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    accept: str = JSON


@dataclass(frozen=True)
class Case:
    """An attack by its name: what is asked at a size in bytes, by whom, and what must be there before."""

    name: str
    ask: Callable[[int], Asked]
    limit: int = BODY_LIMIT
    user: str = "admin"
    before: Callable[[Client, int], None] | None = None
    """Makes what the request meets, at the same size; not measured."""
    after: Callable[[Client], object] | None = None


def filled(make: Callable[[int], bytes], size: int, separator: bytes = b",") -> bytes:
    """As many pieces as make up `size` bytes."""
    pieces: list[bytes] = []
    left = size - SLACK
    number = 0
    while left > 0:
        piece = make(number)
        pieces.append(piece)
        left -= len(piece) + len(separator)
        number += 1
    return separator.join(pieces)


def repeated(piece: bytes, size: int, separator: bytes = b",") -> bytes:
    """The same piece until it makes up `size` bytes."""
    return separator.join([piece] * max(1, (size - SLACK) // (len(piece) + len(separator))))


def in_list(pieces: bytes) -> bytes:
    return b"[" + pieces + b"]"


def in_map(pieces: bytes) -> bytes:
    return b"{" + pieces + b"}"


HOLE = "\x00grows here\x00"


def around(document: Any, pieces: bytes) -> bytes:
    """A document in JSON with the part that grows where its `HOLE` is."""
    return orjson.dumps(document).replace(orjson.dumps(HOLE), pieces, 1)


def meta(name: str = "grown", **more: Any) -> dict[str, Any]:
    return {"name": name, **more}


def namespaced(prefix: str, plural: str) -> str:
    return f"{prefix}/namespaces/{NAMESPACE}/{plural}"


DRY = {"dryRun": "All"}


def posted(path: str, document: Any, grow: Callable[[int], bytes], **more: Any) -> Callable[[int], Asked]:
    """A POST of a document whose hole is filled by `grow(size)`."""
    more.setdefault("query", DRY)
    return lambda size: Asked("POST", path, around(document, grow(size)), **more)


def names(prefix: str) -> Callable[[int], bytes]:
    return lambda number: b'"%s%d"' % (prefix.encode(), number)


def joined(groups: Iterable[list[Case]]) -> list[Case]:
    return [case for group in groups for case in group]
