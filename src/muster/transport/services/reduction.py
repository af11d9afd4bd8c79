"""Reduces a row's objects to what agents receive, and what their next write is checked against.

managedFields are of no use to agents, and are often larger than the rest; of a work's status, which agents send and rarely receive
(`reported.py`), only the conditions remain that the server writes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from muster.transport.codecs.sequence import REPORTED
from muster.transport.contract.rows import Row, Versioned

DELIVERED: Final = "Delivered"
"""The condition of a work that cannot be sent to its agent (ours)."""
OWN_CONDITIONS: Final = frozenset((REPORTED, DELIVERED))
"""The conditions that agents must not report. They get back the first one with their status (`reported.py`), but not the other."""
Reduction = Callable[[bytes], bytes]


def reduction_of(row: Row) -> Reduction:
    """Raises DecodeError for invalid objects."""
    return _reduced_work if row.versioned is Versioned.GENERATION else _reduced


_read_members: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_encode: Final = msgspec.json.encode


class _Status(msgspec.Struct):
    conditions: list[dict[str, object]] | None = None


_read_status: Final = msgspec.json.Decoder(_Status).decode


def _reduced(raw: bytes) -> bytes:
    return _encode(_drop_managed_fields(_read_members(raw))) if b'"managedFields"' in raw else raw


def _reduced_work(raw: bytes) -> bytes:
    members = _drop_managed_fields(_read_members(raw))
    if "status" in members:
        members["status"] = msgspec.Raw(_encode({"conditions": _own(members["status"])}))
    return _encode(members)


def _own(status: msgspec.Raw) -> list[dict[str, object]]:
    try:
        conditions = _read_status(status).conditions or ()
    except msgspec.DecodeError:
        # The work is sent even if its status is invalid.
        return []
    return [condition for condition in conditions if condition.get("type") in OWN_CONDITIONS]


def _drop_managed_fields(members: dict[str, msgspec.Raw]) -> dict[str, msgspec.Raw]:
    if "metadata" in members:
        metadata = _read_members(members["metadata"])
        if metadata.pop("managedFields", None) is not None:
            members["metadata"] = msgspec.Raw(_encode(metadata))
    return members
