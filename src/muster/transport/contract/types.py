"""Event types: `<group>.<version>.<resource>.<subresource>.<action>`.

The first three parts are the data type, by which agents subscribe. Groups contain dots, so types are parsed from their end.

There are few types and every event has one, so conversions between type and text are cached.
"""

from __future__ import annotations

from enum import StrEnum
from functools import lru_cache
from typing import Final

import msgspec


class InvalidType(ValueError):
    """A text that is no data type or event type."""


class Subresource(StrEnum):
    SPEC = "spec"
    STATUS = "status"


class Action(StrEnum):
    CREATE = "create_request"
    UPDATE = "update_request"
    DELETE = "delete_request"
    RESYNC = "resync_request"
    RESYNC_RESPONSE = "resync_response"


class DataType(msgspec.Struct, frozen=True, cache_hash=True):
    group: str
    version: str
    resource: str

    @classmethod
    def parse(cls, text: str) -> DataType:
        """Raises InvalidType."""
        group, version, resource = _from_the_end(text, 2, "a data type is <group>.<version>.<resource>")
        return cls(group, version, resource)

    def __str__(self) -> str:
        return f"{self.group}.{self.version}.{self.resource}"


class EventType(msgspec.Struct, frozen=True, cache_hash=True):
    data_type: DataType
    subresource: Subresource
    action: Action

    @classmethod
    def parse(cls, text: str) -> EventType:
        """Raises InvalidType."""
        return _remembered(text) if len(text) <= _LONGEST_REMEMBERED else _read(text)

    def __str__(self) -> str:
        return _text(self)


_REMEMBERED: Final = 256
_LONGEST_REMEMBERED: Final = 256
"""Characters: callers with made-up types must not exhaust memory."""


def _read(text: str) -> EventType:
    expected = "an event type is <group>.<version>.<resource>.<subresource>.<action>"
    data_type, subresource, action = _from_the_end(text, 2, expected)
    try:
        return EventType(DataType.parse(data_type), Subresource(subresource), Action(action))
    except ValueError as error:
        raise InvalidType(f"{text!r}: {error}; {expected}") from None


_remembered: Final = lru_cache(maxsize=_REMEMBERED)(_read)


@lru_cache(maxsize=_REMEMBERED)
def _text(event_type: EventType) -> str:
    return f"{event_type.data_type}.{event_type.subresource}.{event_type.action}"


HEARTBEAT = "io.open-cluster-management.cloudevents.heartbeat"
"""The type of heartbeat events; it has no data type."""


def _from_the_end(text: str, dots: int, expected: str) -> list[str]:
    parts = text.rsplit(".", dots)
    if len(parts) != dots + 1 or not all(parts):
        raise InvalidType(f"{text!r}: {expected}")
    return parts
