"""Whatever a hub does and streams suffer, a mirror ends as the hub is, and never shows a deleted work alive again."""

import copy
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from muster.machinery.objects import Object, ObjectKey
from muster.transport.client.mirror import CONFIRM_SECONDS, Arrival, Mirror
from muster.transport.contract.rows import LEASE_ROW, WORKS
from tests.support.fake_clock import FakeClock

NAMES = st.sampled_from(["a", "b", "c"])


def lease(name: str, uid: str, version: int, value: int = 0) -> Object:
    return {
        "metadata": {"name": name, "namespace": "c1", "uid": uid, "resourceVersion": str(version)},
        "spec": {"value": value},
    }


def arrival(document: Object, version: int, **options: Any) -> Arrival:
    metadata = document["metadata"]
    return Arrival(metadata["uid"], ObjectKey("c1", metadata["name"]), version, copy.deepcopy(document), **options)


def gone(uid: str, **options: Any) -> Arrival:
    return Arrival(uid, None, None, None, deleted="2026-01-01T00:00:00Z", gone=True, **options)


class Clock(FakeClock):
    def pass_(self, seconds: float) -> None:
        self._elapsed += seconds


class FollowedHub(RuleBasedStateMachine):
    """A hub, a stream in order with duplicates, and breaks after which a resync follows whose answers come between events."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        self.mirror = Mirror(LEASE_ROW, clock=self.clock)
        self.hub: dict[str, Object] = {}
        self.version = 0
        self.uids = 0
        self.stream: list[Arrival] | None = None
        self.answers: list[Arrival] = []
        self.shown: dict[ObjectKey, Object] = {}
        self.mirror.on_change(self._told)

    def _told(self, old: Any, new: Any) -> None:
        """Handlers are told what leads from one state to the next."""
        key = (new or old).key
        assert self.shown.get(key) == (None if old is None else old.document)
        if new is None:
            del self.shown[key]
        else:
            self.shown[key] = new.document

    def _tell(self, event: Arrival) -> None:
        if self.stream is not None:
            self.stream.append(event)

    @rule(name=NAMES, value=st.integers(0, 3))
    def write(self, name: str, value: int) -> None:
        self.version += 1
        known = self.hub.get(name)
        if known is None:
            self.uids += 1
        uid = known["metadata"]["uid"] if known else f"uid-{self.uids}"
        self.hub[name] = lease(name, uid, self.version, value)
        self._tell(arrival(self.hub[name], self.version))

    @rule(name=NAMES)
    def delete(self, name: str) -> None:
        found = self.hub.pop(name, None)
        if found is not None:
            self.version += 1
            self._tell(gone(found["metadata"]["uid"]))

    @rule()
    def disconnect(self) -> None:
        self.stream, self.answers = None, []

    @precondition(lambda self: self.stream is None)
    @rule()
    def connect(self) -> None:
        self.stream = []
        known = {one.uid: one.version for one in self.mirror.begin_resync()}
        there = {obj["metadata"]["uid"]: obj for obj in self.hub.values()}
        for uid, obj in there.items():
            version = int(obj["metadata"]["resourceVersion"])
            if known.get(uid) != version:
                self.answers.append(arrival(obj, version, answer=True))
        self.answers += [gone(uid, answer=True) for uid in known if uid not in there]

    @precondition(lambda self: self.stream)
    @rule(twice=st.booleans())
    def hear(self, twice: bool) -> None:
        assert self.stream is not None
        event = self.stream.pop(0)
        for _ in range(1 + twice):
            self.mirror.apply(event)

    @precondition(lambda self: self.answers)
    @rule(data=st.data())
    def hear_answer(self, data: st.DataObject) -> None:
        self.mirror.apply(self.answers.pop(data.draw(st.integers(0, len(self.answers) - 1))))

    @precondition(lambda self: self.stream == [] and not self.answers)
    @rule()
    def compare(self) -> None:
        self.mirror.end_resync()
        assert {entry.key.name: entry.document for entry in self.mirror} == self.hub

    @invariant()
    def names_and_uids_agree(self) -> None:
        entries = list(self.mirror)
        assert all(self.mirror.by_uid(entry.uid) == entry for entry in entries)
        assert {entry.key: entry.document for entry in entries} == self.shown
        assert len({entry.uid for entry in entries}) == len(entries)


TestFollowedHub = FollowedHub.TestCase
TestFollowedHub.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)


def work(generation: int, *, deleting: bool = False, finalizers: tuple[str, ...] = ()) -> Object:
    metadata: Object = {"name": "w", "namespace": "c1", "uid": "u", "generation": generation, "finalizers": list(finalizers)}
    if deleting:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        return {"metadata": metadata}
    return {"metadata": metadata, "spec": {"value": generation}}


EVENTS = st.lists(
    st.tuples(st.sampled_from(["alive", "deleting", "ended", "resync", "forget", "later"]), st.integers(1, 4), st.booleans()),
    max_size=25,
)


@given(EVENTS)
def test_a_deletion_that_has_begun_is_final(steps: list[tuple[str, int, bool]]) -> None:
    clock = Clock()
    mirror = Mirror(WORKS, clock=clock)
    ending = forgotten = False
    for step, generation, answer in steps:
        entry = mirror.by_uid("u")
        if step == "alive":
            mirror.apply(arrival(work(generation, finalizers=("f",)), generation, answer=answer))
        elif step == "deleting":
            mirror.apply(arrival(work(generation, deleting=True, finalizers=("f",)), generation, deleted="now", answer=answer))
        elif step == "ended":
            mirror.apply(arrival(work(generation, deleting=True), generation, deleted="now", gone=True, answer=answer))
        elif step == "resync":
            mirror.begin_resync()
        elif step == "later":
            clock.pass_(CONFIRM_SECONDS)
        elif entry is not None and entry.deleting:
            mirror.forget("u")
            forgotten = True
        after = mirror.by_uid("u")
        if after is not None and after.deleting:
            ending = True
        if ending or forgotten:
            assert after is None or after.deleting, "a deleted work came back to life"


def test_a_deletion_keeps_what_was_known_of_the_object() -> None:
    mirror = Mirror(WORKS, clock=Clock())
    mirror.apply(arrival(work(1), 1))
    mirror.apply(arrival(work(2, deleting=True, finalizers=("f",)), 2, deleted="2026-01-01T00:00:00Z"))
    entry = mirror.by_uid("u")
    assert entry is not None
    assert entry.deleting
    assert entry.version == 2
    assert entry.document["spec"] == {"value": 1}


def test_a_deletion_without_a_body_is_noted_on_what_is_known() -> None:
    mirror = Mirror(LEASE_ROW, clock=Clock())
    mirror.apply(arrival(lease("a", "u", 5), 5))
    mirror.apply(Arrival("u", None, 6, None, deleted="2026-01-01T00:00:00Z"))
    entry = mirror.by_uid("u")
    assert entry is not None
    assert entry.document["metadata"]["deletionTimestamp"] == "2026-01-01T00:00:00Z"
    mirror.apply(Arrival("unknown", None, 6, None, deleted="2026-01-01T00:00:00Z"))
    assert len(mirror) == 1


def test_a_server_of_ocm_1_2_names_what_is_gone() -> None:
    mirror = Mirror(LEASE_ROW, clock=Clock())
    mirror.apply(arrival(lease("a", "u", 5), 5))
    mirror.apply(gone("a"))
    assert len(mirror) == 0


def test_works_have_a_version_that_changes_when_anything_does() -> None:
    mirror = Mirror(WORKS, clock=Clock())
    seen = []
    for labels in ({}, {}, {"a": "b"}):
        document = work(1)
        document["metadata"]["labels"] = labels
        mirror.apply(arrival(document, 1))
        entry = mirror.by_uid("u")
        assert entry is not None
        seen.append(entry.document["metadata"]["resourceVersion"])
    assert seen[0] == seen[1] != seen[2]
