"""The status that an agent has reported of a work, which is sent back to an agent that has just started.

Statuses are not cached: they are large, and only agents that start need them, each once. They are read from the storage, so an
agent that was restarted a moment after its last report gets that one too. They include the server's condition with the sequence id
of the last report, so that the agent can continue from it.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Iterable
from typing import Any, Final

import msgspec

from muster.machinery.logs import get_logger
from muster.transport.services.reduction import DELIVERED

log = get_logger("muster.transport.services")

MOST_BYTES: Final = 32 * 1024 * 1024
"""Of the statuses of one cluster that wait for one reader: the rest is sent without status, and reported again."""


class _Metadata(msgspec.Struct):
    uid: str = ""


class _Object(msgspec.Struct):
    metadata: _Metadata
    status: dict[str, msgspec.Raw] | None = None


_read_object: Final = msgspec.json.Decoder(_Object).decode
_read_conditions: Final = msgspec.json.Decoder(list[dict[str, Any]] | None).decode
_encode: Final = msgspec.json.encode


async def read_statuses(pages: AsyncIterable[Iterable[bytes]], cluster: str, *, most_bytes: int = MOST_BYTES) -> dict[str, bytes]:
    """By uid, of objects with a status."""
    statuses: dict[str, bytes] = {}
    held = left_out = 0
    async for page in pages:
        for raw in page:
            uid, status = _status_of(raw)
            if status and held + len(status) <= most_bytes:
                statuses[uid] = status
                held += len(status)
            elif status:
                left_out += 1
    if left_out:
        log.warning("statuses are too large to be sent back", cluster=cluster, works=left_out, limit=most_bytes)
    return statuses


def _status_of(raw: bytes) -> tuple[str, bytes]:
    """The uid of an object and its status; empty if there is no valid one."""
    try:
        found = _read_object(raw)
        members = found.status
        if not members:
            return found.metadata.uid, b""
        if "conditions" in members:
            conditions = _read_conditions(members["conditions"]) or []
            members["conditions"] = msgspec.Raw(
                _encode([condition for condition in conditions if condition.get("type") != DELIVERED])
            )
        return found.metadata.uid, _encode(members)
    except msgspec.DecodeError:
        # The work is sent even if its status is invalid.
        return "", b""
