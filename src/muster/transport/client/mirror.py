"""The agent's copy of the hub's objects of one data type, by name and by uid, from the events of a stream and from resyncs.

Events of a stream are applied in order; duplicates change nothing, and invalid events are dropped before they get here. Five cases
need more care.

A *resync* requests all objects, and its answers come on the same stream, between other events, in no particular order. An answer
may be older than an event that came since the request: then it is ignored. Objects are removed only when an event says that they
are gone, never because a resync did not mention them.

*Lower versions* than the known one come from a hub that was restored from a backup, or from a server whose cache lags behind. One
message cannot distinguish these. So a lower version causes a *doubt*: the object stays unchanged, and another resync is requested
without its version, so that every server answers. If that has the same version, `CONFIRM_SECONDS` later, it is accepted.

A *deletion without a document* concerns the object that the hub calls by this id, and no other. Servers of OCM 1.2 do not find an
object in a resync that is named by its uid, so after they have sent it they report that the object with this uid is gone. A server
that calls it by its uid reports the same for an object that was deleted before the resync could reveal its current id: then the
resync's answer that nothing has its old name is accepted, even if an event came in between.

A *withheld* object, which is too large to be sent, exists all the same: its known state stays, and if there is none, its existence
is recorded.

A *deletion that has begun* is final for an object: no later message reverts it, and for a `forgotten` uid, whose cleanup this agent
has finished, only deletions are accepted for a while. A work that is being deleted must never be applied again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

import orjson

from muster.machinery.clock import SYSTEM, Clock
from muster.machinery.objects import Object, ObjectKey
from muster.transport.contract.rows import Row, Versioned

CONFIRM_SECONDS: Final = 3.0
"""Seconds after which a version that is lower than the known one is requested again, and accepted."""
FORGOTTEN_SECONDS: Final = 600.0
MOST_FORGOTTEN: Final = 10_000


@dataclass(frozen=True)
class MirrorEvent:
    """The content of an event about an object."""

    uid: str
    """The hub's id of the object, if the event does not have the object."""
    key: ObjectKey | None
    """None if there is no document."""
    version: int | None
    """None if there is none, or it is no number."""
    document: Object | None
    """None if the event does not have the object."""
    deleted: str = ""
    """The deletionTimestamp; empty if the object is not being deleted."""
    gone: bool = False
    """Whether the hub no longer has it. If there is a document all the same, and the known object has a finalizer or is being
    deleted, this agent has not finished its cleanup, and the object stays as one that is being deleted until it is `forgotten`."""
    answer: bool = False
    """Whether it answers a resync."""
    hub_id: str = ""
    """The hub's id if it differs from the uid: servers of OCM 1.2 use names for all kinds but works."""
    held: bool = False
    """For an object that is gone: whether a finalizer still held it, according to the event."""
    status: str = ""
    """The hub's copy of the status that this agent reported, as JSON, if it was requested."""
    withheld: bool = False
    """Whether the hub only reports that the object exists, because it is too large to be sent."""


class Entry(NamedTuple):
    key: ObjectKey
    uid: str
    version: int | None
    deleting: bool
    raw: bytes
    """The whole object as JSON."""

    @property
    def document(self) -> Object:
        """Decoded at each call."""
        document: Object = orjson.loads(self.raw)
        return document


class Known(NamedTuple):
    """An object in a resync request."""

    uid: str
    """The hub's id."""
    version: int
    """0: any version is wanted."""
    key: ObjectKey


Handler = Callable[[Entry | None, Entry | None], None]
"""Called with the old and the new entry: None and entry for a new object, entry and None for a removed one. Must be quick."""


class Mirror:
    def __init__(self, row: Row, *, clock: Clock = SYSTEM) -> None:
        self.row = row
        self.revision = 0
        """Counts changes."""
        self._clock = clock
        self._entries: dict[ObjectKey, Entry] = {}
        self._by_uid: dict[str, ObjectKey] = {}
        self._handlers: list[Handler] = []
        self._touched: set[str] | None = None
        """During a resync: the uids of events since its start."""
        self._misnamed: set[str] = set()
        """Those of them that were reported as gone while the hub, as far as was known, used another id for the objects."""
        self._doubts: dict[str, float] = {}
        """By uid: since when a lower version is reported."""
        self._resyncing: set[str] = set()
        """Doubts that the current resync is about."""
        self._forgotten: OrderedDict[str, float] = OrderedDict()
        """By uid: until when only deletions are accepted."""
        self._hub_ids: dict[str, str] = {}
        """By uid: the hub's id, if it differs."""
        self._statuses: dict[str, str] = {}
        """By uid: the status that the hub has sent, until it is taken."""
        self._withheld: dict[str, Entry] = {}
        """By uid: objects of which only the existence is known, without their bytes."""

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Entry]:
        return iter(list(self._entries.values()))

    def get(self, key: ObjectKey) -> Entry | None:
        return self._entries.get(key)

    def by_uid(self, uid: str) -> Entry | None:
        key = self._by_uid.get(uid)
        return None if key is None else self._entries[key]

    def has(self, key: ObjectKey) -> bool:
        """Whether the hub has it, even if its state is unknown."""
        return key in self._entries or any(entry.key == key for entry in self._withheld.values())

    def take_status(self, uid: str) -> str:
        """The status that the hub has of an object, as JSON; empty if it has sent none, or it was taken before. It is no part of
        the object, because later events do not have it."""
        return self._statuses.pop(uid, "")

    def on_change(self, handler: Handler) -> Callable[[], None]:
        """Call the result to remove the handler."""
        self._handlers.append(handler)
        return lambda: self._handlers.remove(handler)

    # Resyncs.

    def begin_resync(self, *, again: bool = False) -> list[Known]:
        """Start a resync: returns the objects to name in the request. `again`: the same request is repeated, because its first
        answers may be late."""
        if self._touched is None or not again:
            self._touched, self._misnamed = set(), set()
        now = self._clock.monotonic()
        self._resyncing = {uid for uid, since in self._doubts.items() if now - since >= CONFIRM_SECONDS}
        known = [
            Known(self._hub_ids.get(entry.uid, entry.uid), 0 if entry.uid in self._doubts else entry.version or 0, entry.key)
            for entry in self._entries.values()
        ]
        return known + [Known(entry.uid, 0, entry.key) for entry in self._withheld.values()]

    def end_resync(self) -> None:
        """All answers have come, as far as is known. A doubt that was not confirmed is dropped."""
        self._touched = None
        for uid in self._resyncing:
            self._doubts.pop(uid, None)
        self._resyncing = set()

    def doubt(self, uid: str) -> None:
        """The hub has reported a contradictory state of this object: the next resync is to resolve it."""
        if uid in self._by_uid:
            self._doubts[uid] = self._clock.monotonic() - CONFIRM_SECONDS

    @property
    def resync_due(self) -> float | None:
        """Seconds until another resync must resolve a doubt; None if there is none."""
        if not self._doubts:
            return None
        return max(0.0, min(self._doubts.values()) + CONFIRM_SECONDS - self._clock.monotonic())

    # Events.

    def apply(self, arrival: MirrorEvent) -> None:
        known = self._meant(arrival)
        uid = arrival.uid if known is None else known.uid
        if self._touched is not None:
            if not arrival.answer:
                self._touch(self._touched, uid, arrival, known)
            elif uid in self._touched and not (arrival.gone and uid in self._misnamed):
                self._note_status(uid, arrival)
                return
        if arrival.withheld:
            self._withhold(uid, arrival, known)
            return
        if arrival.gone and uid in self._withheld:
            self._notify(self._withheld.pop(uid), None)
        if arrival.gone and not self._is_left_to_us(arrival, uid, known):
            if known is not None:
                self._remove(known)
            return
        document = self._document(arrival, known)
        if document is not None and self._is_news(arrival, uid, known):
            self._put(self._entry(uid, arrival, document, known), known)
        if arrival.document is not None and uid in self._by_uid:
            self._note_hub_id(uid, arrival.hub_id)
        self._note_status(uid, arrival)

    def _touch(self, touched: set[str], uid: str, arrival: MirrorEvent, known: Entry | None) -> None:
        touched.add(uid)
        if arrival.gone and known is None and uid in self._by_uid:
            self._misnamed.add(uid)
        else:
            self._misnamed.discard(uid)

    def _is_left_to_us(self, arrival: MirrorEvent, uid: str, known: Entry | None) -> bool:
        """Whether this agent must clean up an object that is reported as gone. Servers of OCM 1.2 also report so, in answer to a
        resync, for a work that is only being deleted; the last event of a work that this agent has released looks the same."""
        if known is None:
            return arrival.held and not self._is_forgotten(uid)
        return arrival.document is not None and (known.deleting or _is_held(known))

    def _is_forgotten(self, uid: str) -> bool:
        return self._clock.monotonic() < self._forgotten.get(uid, 0.0)

    def forget(self, uid: str) -> None:
        """This agent has finished the cleanup of an object, and the hub will be or was notified."""
        now = self._clock.monotonic()
        while self._forgotten and (len(self._forgotten) >= MOST_FORGOTTEN or next(iter(self._forgotten.values())) <= now):
            self._forgotten.popitem(last=False)
        self._forgotten[uid] = now + FORGOTTEN_SECONDS
        self._forgotten.move_to_end(uid)
        entry = self.by_uid(uid)
        if entry is not None:
            self._remove(entry)

    def record(self, uid: str, version: int, change: Callable[[Object], Object]) -> Entry | None:
        """Change the known object because the hub has just accepted a write that causes no event. An object of another version by
        now is not changed; returns the known one."""
        entry = self.by_uid(uid)
        if entry is None or entry.version != version:
            return entry
        recorded = entry._replace(raw=_stamped(change(entry.document), str(self.revision + 1)))
        self._put(recorded, entry)
        return recorded

    def _meant(self, arrival: MirrorEvent) -> Entry | None:
        """The object with this uid; without more information than the hub's id, the object with that id."""
        hub_id = arrival.hub_id or arrival.uid
        if arrival.document is not None or hub_id != arrival.uid:
            return self.by_uid(arrival.uid)
        uid = next((uid for uid, known in self._hub_ids.items() if known == hub_id), hub_id)
        return self.by_uid(uid) if self._hub_ids.get(uid, uid) == hub_id else None

    def _note_hub_id(self, uid: str, hub_id: str) -> None:
        if hub_id and hub_id != uid:
            self._hub_ids[uid] = hub_id
        else:
            self._hub_ids.pop(uid, None)

    def _withhold(self, uid: str, arrival: MirrorEvent, known: Entry | None) -> None:
        """The known object stays: its current state cannot be sent."""
        if known is None and arrival.key is not None and not self._is_forgotten(uid) and uid not in self._withheld:
            entry = self._withheld[uid] = Entry(arrival.key, uid, arrival.version, False, b"")
            self._notify(None, entry)

    def _note_status(self, uid: str, arrival: MirrorEvent) -> None:
        """Take the status even from an old event: only this agent changes the status."""
        if arrival.status and uid in self._by_uid:
            self._statuses[uid] = arrival.status

    def _document(self, arrival: MirrorEvent, known: Entry | None) -> Object | None:
        """The resulting object; None if it cannot be determined."""
        document = arrival.document
        if document is None:
            if known is None or not arrival.deleted:
                return None
            document = known.document
        elif arrival.deleted and known is not None:
            # Deletions need not have the whole object: the known fields stay.
            document = {**known.document, **document}
        if arrival.deleted and not document["metadata"].get("deletionTimestamp"):
            document = {**document, "metadata": {**document["metadata"], "deletionTimestamp": arrival.deleted}}
        return document

    def _is_news(self, arrival: MirrorEvent, uid: str, known: Entry | None) -> bool:
        if not arrival.deleted and self._is_forgotten(uid):
            return False
        if known is None:
            return True
        if known.deleting and not arrival.deleted:
            return False
        if arrival.deleted and not known.deleting:
            # With any version: deletions are final.
            return True
        if arrival.version is None or known.version is None or arrival.version >= known.version:
            self._doubts.pop(uid, None)
            return True
        if arrival.answer and uid in self._resyncing:
            del self._doubts[uid]
            self._resyncing.discard(uid)
            return True
        self._doubts.setdefault(uid, self._clock.monotonic())
        return False

    def _entry(self, uid: str, arrival: MirrorEvent, document: Object, known: Entry | None) -> Entry:
        metadata = document["metadata"]
        key = ObjectKey(metadata.get("namespace") or "", metadata["name"]) if arrival.key is None else arrival.key
        version = arrival.version if arrival.version is not None or known is None else known.version
        entry = Entry(key, uid, version, bool(metadata.get("deletionTimestamp")), b"")
        if self.row.versioned is not Versioned.GENERATION:
            return entry._replace(raw=orjson.dumps(document))
        # Works come without a resourceVersion: they get one of ours, by which two states can be distinguished.
        if known is not None:
            same = entry._replace(raw=_stamped(document, _revision_of(known)))
            if same == known:
                return same
        return entry._replace(raw=_stamped(document, str(self.revision + 1)))

    def _put(self, entry: Entry, known: Entry | None) -> None:
        if known == entry:
            return
        if known is not None and known.key != entry.key:
            self._remove(known)
            known = None
        other = self._entries.get(entry.key)
        if known is None and other is not None:
            # Created again under the name of a deleted object, whose deletion was not reported.
            self._remove(other)
        self._entries[entry.key] = entry
        self._by_uid[entry.uid] = entry.key
        self._withheld.pop(entry.uid, None)
        self._notify(known, entry)

    def _remove(self, entry: Entry) -> None:
        del self._entries[entry.key]
        self._by_uid.pop(entry.uid, None)
        self._doubts.pop(entry.uid, None)
        self._hub_ids.pop(entry.uid, None)
        self._statuses.pop(entry.uid, None)
        self._notify(entry, None)

    def _notify(self, old: Entry | None, new: Entry | None) -> None:
        self.revision += 1
        for handler in list(self._handlers):
            handler(old, new)


def _is_held(entry: Entry) -> bool:
    return bool(entry.document["metadata"].get("finalizers"))


def _stamped(document: Object, revision: str) -> bytes:
    return orjson.dumps({**document, "metadata": {**document["metadata"], "resourceVersion": revision}})


def _revision_of(entry: Entry) -> str:
    return str(entry.document["metadata"].get("resourceVersion") or "")
