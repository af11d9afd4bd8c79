"""Changes of objects, which become events when there are subscribers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Final

import msgspec

from muster.machinery.clock import Clock
from muster.machinery.objects import Object
from muster.transport.codecs.objects import encode_object
from muster.transport.codecs.works import encode_spec
from muster.transport.contract.event import HUB_SOURCE, CloudEvent
from muster.transport.contract.rows import ROWS, WORKS, Row
from muster.transport.contract.types import Action, DataType, EventType, Subresource
from muster.transport.services.objects import KeptObject

Encode = Callable[[Row, bytes | Object, Action, datetime, bool], CloudEvent]


def _plain(row: Row, obj: bytes | Object, action: Action, now: datetime, gone: bool) -> CloudEvent:
    return encode_object(row, obj, _TYPES[row.data_type][action], source=HUB_SOURCE, now=now, gone=gone)


_TYPES: Final[Mapping[DataType, Mapping[Action, EventType]]] = {
    data_type: {action: EventType(data_type, Subresource.SPEC, action) for action in Action} for data_type in ROWS
}


def _work(row: Row, obj: bytes | Object, action: Action, now: datetime, gone: bool) -> CloudEvent:
    return encode_spec(obj, action, now=now, gone=gone)


_ENCODE: Final[Mapping[DataType, Encode]] = {WORKS.data_type: _work}
"""For rows whose events are not the objects themselves."""


def encode(row: Row, obj: bytes | Object, action: Action, now: datetime, *, gone: bool = False) -> CloudEvent:
    """The event of an object, which is JSON or a document. Raises InvalidEvent if it cannot be decoded."""
    return _ENCODE.get(row.data_type, _plain)(row, obj, action, now, gone)


class ObjectChange(msgspec.Struct, frozen=True):
    """An object that was added, changed or deleted; a deleted one in its last state."""

    row: Row
    kept: KeptObject
    action: Action
    clock: Clock

    @property
    def cluster(self) -> str:
        return self.kept.cluster

    @property
    def resource_id(self) -> str:
        return self.kept.uid

    def event(self) -> CloudEvent:
        gone = self.action is Action.DELETE
        return encode(self.row, self.kept.raw, self.action, self.clock.now(), gone=gone)
