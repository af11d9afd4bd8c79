"""What attributes are called on the wire."""

from __future__ import annotations

from typing import Final

from muster.transport.contract import event as names

PREFIX: Final = "ce-"
CONTENT_TYPE: Final = "contenttype"
FIELDS: Final = frozenset(("id", "source", "specversion", "type"))
"""What the message has fields for."""
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
"""Attributes that are to be expected with a text."""
