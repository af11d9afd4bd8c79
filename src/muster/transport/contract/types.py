"""What events are about and what they ask for: `<group>.<version>.<resource>.<subresource>.<action>`.

The first three parts are the data type, by which agents subscribe. Groups have dots of their own, so types are read from their end.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


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


@dataclass(frozen=True, slots=True)
class DataType:
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


@dataclass(frozen=True, slots=True)
class EventType:
    data_type: DataType
    subresource: Subresource
    action: Action

    @classmethod
    def parse(cls, text: str) -> EventType:
        """Raises InvalidType."""
        expected = "an event type is <group>.<version>.<resource>.<subresource>.<action>"
        data_type, subresource, action = _from_the_end(text, 2, expected)
        try:
            return cls(DataType.parse(data_type), Subresource(subresource), Action(action))
        except ValueError as error:
            raise InvalidType(f"{text!r}: {error}; {expected}") from None

    def __str__(self) -> str:
        return f"{self.data_type}.{self.subresource}.{self.action}"


HEARTBEAT = "io.open-cluster-management.cloudevents.heartbeat"
"""The type of the events that only say that a stream lives; it has no data type."""


def _from_the_end(text: str, dots: int, expected: str) -> list[str]:
    parts = text.rsplit(".", dots)
    if len(parts) != dots + 1 or not all(parts):
        raise InvalidType(f"{text!r}: {expected}")
    return parts
