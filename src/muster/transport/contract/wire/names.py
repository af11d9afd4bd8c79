"""The names of attributes on the wire."""

from __future__ import annotations

from typing import Final

from muster.transport.contract import event as names

PREFIX: Final = "ce-"
CONTENT_TYPE: Final = "contenttype"
FIELDS: Final = frozenset(("id", "source", "specversion", "type"))
"""Attributes that are fields of the message."""
TEXTS: Final = (
    names.CLUSTER,
    names.ORIGINAL_SOURCE,
    names.RESOURCE_ID,
    names.RESOURCE_VERSION,
    names.SEQUENCE,
    names.STATUS_HASH,
    names.METADATA,
    names.LOG_TRACING,
    names.RESYNC,
)
"""Attributes that usually have a text."""
