"""The status that an agent has reported of a work, as an agent that has just started is given it back.

Statuses are not kept here: they are as large as what they are about, and only agents that start ask for them, each once. They come
from whoever keeps the objects, so an agent that was restarted a moment after its last report does not miss that. Of the conditions
that are this end's own there is the one that says which report that was, so that the agent can number the next one higher.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Iterable
from typing import Any, Final

import msgspec

from muster.machinery.logs import get_logger
from muster.transport.services.reduction import DELIVERED

log = get_logger("muster.transport.services")

MOST_BYTES: Final = 32 * 1024 * 1024
"""Of the statuses of one cluster that wait for one reader: the rest is sent without, and reported anew."""


class _Metadata(msgspec.Struct):
    uid: str = ""


class _Object(msgspec.Struct):
    metadata: _Metadata
    status: dict[str, msgspec.Raw] | None = None


_read_object: Final = msgspec.json.Decoder(_Object).decode
_read_conditions: Final = msgspec.json.Decoder(list[dict[str, Any]] | None).decode
_encode: Final = msgspec.json.encode


async def read_statuses(pages: AsyncIterable[Iterable[bytes]], cluster: str, *, most_bytes: int = MOST_BYTES) -> dict[str, bytes]:
    """By uid, of objects that have one."""
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
    """Of an object: its uid, and its status; empty where there is none that can be read."""
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
        # Whatever a status is, the work is sent.
        return "", b""
