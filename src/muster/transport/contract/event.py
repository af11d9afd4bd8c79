"""A CloudEvent of OCM's transport: four fields, attributes, and data that is always JSON.

Attributes are all but the four that have fields in the message, with their CloudEvents names, without the wire's prefix `ce-`.
"""

from __future__ import annotations

import re
from datetime import datetime
from itertools import count
from random import getrandbits
from typing import Final

import msgspec

from muster.transport.contract.types import HEARTBEAT, EventType

SPEC_VERSION: Final = "1.0"

TIME: Final = "time"
CLUSTER: Final = "clustername"
ORIGINAL_SOURCE: Final = "originalsource"
RESOURCE_ID: Final = "resourceid"
RESOURCE_VERSION: Final = "resourceversion"
SEQUENCE: Final = "sequenceid"
STATUS_HASH: Final = "statushash"
METADATA: Final = "metadata"
LOG_TRACING: Final = "logtracing"
DELETED: Final = "deletiontimestamp"
RESYNC: Final = "resyncid"
"""Ours: the id of a resync request, sent back once everything has been sent. Go's servers ignore it."""
WITH_STATUS: Final = "withstatus"
"""Ours, true in a resync request of an agent that has just started: each answer must have the hub's `status` too."""
STATUS: Final = "status"
"""Ours: that status, as JSON, besides a work's spec."""
WITHHELD: Final = "withheld"
"""Ours, true in an answer to a resync of our agents: the work exists, but with its spec the answer would be too large."""

MAX_EVENT: Final = 4 * 1024 * 1024
"""The largest message in bytes that agents receive: the default limit of Go's gRPC."""

HUB_SOURCE: Final = "kube"
"""The source of the hub's events. Agents keep it in a label, and it comes back as `originalsource`."""


_PROCESS_ID: Final = f"{getrandbits(32):08x}-{getrandbits(16):04x}-4{getrandbits(12):03x}-8{getrandbits(12):03x}-"
_numbers: Final = count(getrandbits(48))
_is_name: Final = re.compile("[a-z0-9]+").fullmatch


def is_attribute_name(name: str) -> bool:
    """Whether it is a valid attribute name of CloudEvents."""
    return _is_name(name) is not None


def new_event_id() -> str:
    """A UUID, which may be guessable: random digits of this process, then a counter. Every event has one, and `uuid.uuid4` takes
    ten times as long."""
    return f"{_PROCESS_ID}{next(_numbers) & 0xFFFFFFFFFFFF:012x}"


class InvalidEvent(ValueError):
    """Bytes that are no event, or an event without a field that its type requires; the text has the field."""


class Uri(str):
    """A text that is encoded as `ce_uri`."""

    __slots__ = ()


class UriRef(str):
    """A text that is encoded as `ce_uri_ref`."""

    __slots__ = ()


Attribute = bool | int | str | bytes | datetime
"""An int has 32 bits; a datetime has a time zone. Digits beyond microseconds are dropped when decoding."""


class CloudEvent(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    source: str
    type: str
    attributes: dict[str, Attribute] = {}
    data: bytes | None = None
    """JSON, or None if the event has none."""

    @property
    def event_type(self) -> EventType:
        """Raises InvalidType."""
        return EventType.parse(self.type)

    def text(self, name: str) -> str:
        """A text attribute; empty if it is absent. Raises InvalidEvent for another type."""
        value = self.attributes.get(name, "")
        if not isinstance(value, str):
            raise InvalidEvent(f"attribute {name!r} is a {type(value).__name__}; a string is expected")
        return value

    @property
    def cluster(self) -> str:
        """Raises InvalidEvent."""
        return self.text(CLUSTER)


def heartbeat() -> CloudEvent:
    """An event that only shows that a stream is alive: it has no source, no attributes and no data."""
    return CloudEvent(id=new_event_id(), source="", type=HEARTBEAT)


class SubscriptionRequest(msgspec.Struct, frozen=True, kw_only=True):
    source: str = ""
    cluster_name: str = ""
    data_type: str = ""
