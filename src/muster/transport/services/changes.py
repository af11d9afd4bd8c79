"""What happened to an object, to be made an event of when somebody listens."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from muster.machinery.clock import Clock
from muster.transport.codecs.objects import encode_object
from muster.transport.codecs.works import encode_spec
from muster.transport.contract.event import HUB_SOURCE, CloudEvent
from muster.transport.contract.rows import WORKS, Row
from muster.transport.contract.types import Action, DataType, EventType, Subresource
from muster.transport.services.objects import KeptObject

Encode = Callable[[Row, bytes, Action, datetime, bool], CloudEvent]


def _plain(row: Row, raw: bytes, action: Action, now: datetime, gone: bool) -> CloudEvent:
    event_type = EventType(row.data_type, Subresource.SPEC, action)
    return encode_object(row, raw, event_type, source=HUB_SOURCE, now=now, gone=gone)


def _work(row: Row, raw: bytes, action: Action, now: datetime, gone: bool) -> CloudEvent:
    return encode_spec(raw, action, now=now, gone=gone)


_ENCODE: Final[Mapping[DataType, Encode]] = {WORKS.data_type: _work}
"""Of rows whose events are not the objects themselves."""


def encode(row: Row, raw: bytes, action: Action, now: datetime, *, gone: bool = False) -> CloudEvent:
    """The event that tells agents of an object. Raises InvalidEvent for what cannot be read."""
    return _ENCODE.get(row.data_type, _plain)(row, raw, action, now, gone)


@dataclass(frozen=True, slots=True)
class ObjectChange:
    """An object that came, changed or went; of one that went, as it was last."""

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
