"""What an agent knows of its hub's objects of one data type: by name and by uid, from the events of a stream and from resyncs.

Events of a stream are believed in the order in which they come; duplicates change nothing, and what cannot be understood is left
out before it gets here. Five things need more care.

A *resync* is a question about everything, and its answers come on the same stream, between other events, in no particular order.
Such an answer may be older than an event that came since the question was asked: then it does not count. Objects are removed only
when somebody says that they are gone, never because a resync did not speak of them.

*Lower versions* than the known one come from a hub that was restored from a backup, or from a server whose own view lags behind.
Neither can be told from the other by one message. So a lower version makes a *doubt*: the object stays as it is, and another resync
is asked for, which names no version of it, so that every server answers. If that says the same, `CONFIRM_SECONDS` later, it is
followed.

A *deletion without a document* is about the object that the hub calls so, and no other. Servers of OCM 1.2 do not find an object in
a resync that is named by its uid, so after they have told of it they say that what has this uid is gone. A server that calls it by
its uid says the same of an object that was deleted before the resync could tell how it is called now: then the resync's answer that
nothing has its old name is believed, though an event came in between.

An object that is *withheld*, because it is too large to be sent, is there all the same: what is known of it stays, and of one of
which nothing is known it is known that the hub has it.

A *deletion that has begun* is final for an object: no later message takes the deletion back, and of a uid that was `forgotten`,
because this agent has seen to its end, only deletions count for a while. A work that is going must never be applied again.
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
"""After which a version that is lower than the known one is asked for again, and believed."""
FORGOTTEN_SECONDS: Final = 600.0
MOST_FORGOTTEN: Final = 10_000


@dataclass(frozen=True)
class MirrorEvent:
    """An object as an event tells of it."""

    uid: str
    """Whatever the hub calls it, where the event does not say how the object is."""
    key: ObjectKey | None
    """None where there is no document."""
    version: int | None
    """None where it is not told, or is no number."""
    document: Object | None
    """None where the event does not say how the object is."""
    deleted: str = ""
    """Since when the object is being deleted; empty when it is not."""
    gone: bool = False
    """Whether the hub has it no more. If there is a document all the same, and what is known is held by a finalizer or being
    deleted, then this agent has not seen to its end yet, and it stays as one that is being deleted until it is `forgotten`."""
    answer: bool = False
    """Whether it answers a resync."""
    hub_id: str = ""
    """What the hub calls it, where that is not its uid: servers of OCM 1.2 call all but works by their names."""
    held: bool = False
    """Of what is gone: whether a finalizer still held it, by what the event says of it."""
    status: str = ""
    """What the hub has as the status that this agent reported, as JSON, where it was asked for."""
    withheld: bool = False
    """Whether the hub says only that it has the object, which is too large to be sent."""


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
    """What a resync names."""

    uid: str
    """As the hub calls it."""
    version: int
    """0: whatever the hub has is wanted."""
    key: ObjectKey


Handler = Callable[[Entry | None, Entry | None], None]
"""Is told what was and what is: None and entry for a new object, entry and None for one that is gone. Must be quick."""


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
        """While a resync is under way: the uids that events were about since."""
        self._misnamed: set[str] = set()
        """Those of them that were said to be gone while, as far as was known, the hub called the objects otherwise."""
        self._doubts: dict[str, float] = {}
        """By uid: since when a lower version is said to be there."""
        self._resyncing: set[str] = set()
        """Doubts that the resync under way is about."""
        self._forgotten: OrderedDict[str, float] = OrderedDict()
        """By uid, until when nothing but deletions of it counts."""
        self._hub_ids: dict[str, str] = {}
        """By uid: what the hub calls it, where that is something else."""
        self._statuses: dict[str, str] = {}
        """By uid: what the hub has said to be the status, until somebody takes it."""
        self._withheld: dict[str, Entry] = {}
        """By uid: objects of which only that they are there is known; without their bytes."""

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
        """Whether the hub has it, though it may not be known how it is."""
        return key in self._entries or any(entry.key == key for entry in self._withheld.values())

    def take_status(self, uid: str) -> str:
        """The status that the hub said it has of an object, as JSON; empty where it has said none, or it was taken before. It is
        no part of the object, because what comes later of that comes without."""
        return self._statuses.pop(uid, "")

    def on_change(self, handler: Handler) -> Callable[[], None]:
        """What it gives ends the telling."""
        self._handlers.append(handler)
        return lambda: self._handlers.remove(handler)

    # Resyncs.

    def begin_resync(self, *, again: bool = False) -> list[Known]:
        """A resync is about to be asked for: what it is to name. `again`: the same question, whose first answers may be late."""
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
        """All answers have come, as far as anybody knows. A doubt of which nothing more was said is none."""
        self._touched = None
        for uid in self._resyncing:
            self._doubts.pop(uid, None)
        self._resyncing = set()

    def doubt(self, uid: str) -> None:
        """The hub has said something else of this object than what is known: the next resync is to tell how it is."""
        if uid in self._by_uid:
            self._doubts[uid] = self._clock.monotonic() - CONFIRM_SECONDS

    @property
    def resync_due(self) -> float | None:
        """Seconds until a doubt is to be settled by another resync; None when there is none."""
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
        """Whether this agent has to see to the end of what is gone. Servers of OCM 1.2 also say so of a work that is only being
        deleted, in answer to a resync; an API server's last word of one that this agent has let go looks the same."""
        if known is None:
            return arrival.held and not self._is_forgotten(uid)
        return arrival.document is not None and (known.deleting or _is_held(known))

    def _is_forgotten(self, uid: str) -> bool:
        return self._clock.monotonic() < self._forgotten.get(uid, 0.0)

    def forget(self, uid: str) -> None:
        """This agent has seen to the end of an object, which the hub will hear of or has heard of."""
        now = self._clock.monotonic()
        while self._forgotten and (len(self._forgotten) >= MOST_FORGOTTEN or next(iter(self._forgotten.values())) <= now):
            self._forgotten.popitem(last=False)
        self._forgotten[uid] = now + FORGOTTEN_SECONDS
        self._forgotten.move_to_end(uid)
        entry = self.by_uid(uid)
        if entry is not None:
            self._remove(entry)

    def record(self, uid: str, version: int, change: Callable[[Object], Object]) -> Entry | None:
        """What is known of an object because the hub has just agreed to it, though nothing comes of it on the stream. Nothing is
        changed of one that is another version by now; gives what is known then."""
        entry = self.by_uid(uid)
        if entry is None or entry.version != version:
            return entry
        recorded = entry._replace(raw=_stamped(change(entry.document), str(self.revision + 1)))
        self._put(recorded, entry)
        return recorded

    def _meant(self, arrival: MirrorEvent) -> Entry | None:
        """The object that has this uid; where no more is said than what the hub calls it, the one that it calls so."""
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
        """What is known of an object stays: nobody can say more of it."""
        if known is None and arrival.key is not None and not self._is_forgotten(uid) and uid not in self._withheld:
            entry = self._withheld[uid] = Entry(arrival.key, uid, arrival.version, False, b"")
            self._notify(None, entry)

    def _note_status(self, uid: str, arrival: MirrorEvent) -> None:
        """Whatever else the event says is old: nobody but this agent changes the status."""
        if arrival.status and uid in self._by_uid:
            self._statuses[uid] = arrival.status

    def _document(self, arrival: MirrorEvent, known: Entry | None) -> Object | None:
        """The object as it is then; None where nothing can be said of it."""
        document = arrival.document
        if document is None:
            if known is None or not arrival.deleted:
                return None
            document = known.document
        elif arrival.deleted and known is not None:
            # Deletions need not say all of it: what was known of the object goes on being so.
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
            # Whatever its version is: deletions are final.
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
        # Works come without a resourceVersion: they have one of ours, by which two states can be told apart.
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
            # Made anew under the name of one that is gone, of whose end nobody has told.
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
