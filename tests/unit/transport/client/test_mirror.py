"""Whatever a hub does and streams suffer, a mirror ends as the hub is, and never shows a deleted work alive again."""

import copy
from datetime import UTC, datetime
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from muster.machinery.golang.timestamps import format_time
from muster.machinery.objects import Object, ObjectKey
from muster.transport.client.mirror import CONFIRM_SECONDS, Mirror, MirrorEvent
from muster.transport.client.mirror_events import mirror_event_of
from muster.transport.codecs.works import encode_spec
from muster.transport.contract.event import CloudEvent
from muster.transport.contract.rows import LEASE_ROW, WORKS
from muster.transport.contract.types import Action
from tests.support.fake_clock import FakeClock

NAMES = st.sampled_from(["a", "b", "c"])


def lease(name: str, uid: str, version: int, value: int = 0) -> Object:
    return {
        "metadata": {"name": name, "namespace": "c1", "uid": uid, "resourceVersion": str(version)},
        "spec": {"value": value},
    }


def arrival(document: Object, version: int, **options: Any) -> MirrorEvent:
    metadata = document["metadata"]
    return MirrorEvent(metadata["uid"], ObjectKey("c1", metadata["name"]), version, copy.deepcopy(document), **options)


def gone(uid: str, **options: Any) -> MirrorEvent:
    return MirrorEvent(uid, None, None, None, deleted="2026-01-01T00:00:00Z", gone=True, **options)


class Clock(FakeClock):
    def pass_(self, seconds: float) -> None:
        self._elapsed += seconds


class FollowedHub(RuleBasedStateMachine):
    """A hub, a stream in order with duplicates, and breaks after which a resync follows whose answers come between events.

    The server may be another one after a break. One of OCM 1.2 calls objects by their names, answers on the stream with all that it
    has, and says of what was named otherwise that it is gone.
    """

    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        self.mirror = Mirror(LEASE_ROW, clock=self.clock)
        self.hub: dict[str, Object] = {}
        self.version = 0
        self.uids = 0
        self.stream: list[MirrorEvent] | None = None
        self.by_name = False
        self.answers: list[MirrorEvent] = []
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

    def _tell(self, event: MirrorEvent) -> None:
        if self.stream is not None:
            self.stream.append(event)

    def _called(self, obj: Object) -> str:
        called: str = obj["metadata"]["name" if self.by_name else "uid"]
        return called

    @rule(name=NAMES, value=st.integers(0, 3))
    def write(self, name: str, value: int) -> None:
        self.version += 1
        known = self.hub.get(name)
        if known is None:
            self.uids += 1
        uid = known["metadata"]["uid"] if known else f"uid-{self.uids}"
        self.hub[name] = lease(name, uid, self.version, value)
        self._tell(arrival(self.hub[name], self.version, hub_id=self._called(self.hub[name])))

    @rule(name=NAMES)
    def delete(self, name: str) -> None:
        found = self.hub.pop(name, None)
        if found is not None:
            self.version += 1
            self._tell(gone(found["metadata"]["uid"], hub_id=self._called(found)))

    @rule()
    def disconnect(self) -> None:
        self.stream, self.answers = None, []

    @precondition(lambda self: self.stream is None)
    @rule(by_name=st.booleans())
    def connect(self, by_name: bool) -> None:
        self.stream, self.by_name = [], by_name
        known = {one.uid: one.version for one in self.mirror.begin_resync()}
        there = {self._called(obj): obj for obj in self.hub.values()}
        answers = [] if by_name else self.answers
        for called, obj in there.items():
            version = int(obj["metadata"]["resourceVersion"])
            if by_name or known.get(called) != version:
                answers.append(arrival(obj, version, answer=not by_name, hub_id=called))
        answers += [gone(called, answer=not by_name) for called in known if called not in there]
        if by_name:
            self.stream += answers

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

    @precondition(lambda self: self.stream is not None)
    @rule()
    def hear_all(self) -> None:
        assert self.stream is not None
        heard, self.answers, self.stream = [*self.answers, *self.stream], [], []
        for event in heard:
            self.mirror.apply(event)
        self.compare()

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
    mirror.apply(MirrorEvent("u", None, 6, None, deleted="2026-01-01T00:00:00Z"))
    entry = mirror.by_uid("u")
    assert entry is not None
    assert entry.document["metadata"]["deletionTimestamp"] == "2026-01-01T00:00:00Z"
    mirror.apply(MirrorEvent("unknown", None, 6, None, deleted="2026-01-01T00:00:00Z"))
    assert len(mirror) == 1


def test_a_server_of_ocm_1_2_calls_what_is_gone_by_its_name() -> None:
    mirror = Mirror(LEASE_ROW, clock=Clock())
    mirror.apply(arrival(lease("a", "u", 5), 5, hub_id="a"))
    assert [known.uid for known in mirror.begin_resync()] == ["a"]
    mirror.apply(gone("a"))
    assert len(mirror) == 0


def test_a_deletion_of_something_that_the_hub_calls_otherwise_is_none() -> None:
    """A server of OCM 1.2 tells of every object, and then that what was named by a uid is gone: it knows them by their names."""
    mirror = Mirror(LEASE_ROW, clock=Clock())
    mirror.apply(arrival(lease("a", "u", 5), 5))
    assert [known.uid for known in mirror.begin_resync()] == ["u"]
    mirror.apply(arrival(lease("a", "u", 5), 5, hub_id="a"))
    mirror.apply(gone("u"))
    assert mirror.by_uid("u") is not None

    # One of 1.3 in its place knows them by their uids.
    assert [known.uid for known in mirror.begin_resync()] == ["a"]
    mirror.apply(arrival(lease("a", "u", 5), 5, hub_id="u"))
    mirror.apply(gone("a"))
    assert mirror.by_uid("u") is not None
    mirror.apply(gone("u"))
    assert len(mirror) == 0


def test_an_object_that_goes_while_another_server_takes_over_is_gone() -> None:
    """Its deletion comes before the answers that would tell by which name the new server calls it."""
    mirror = Mirror(LEASE_ROW, clock=Clock())
    mirror.apply(arrival(lease("a", "u", 5), 5, hub_id="a"))
    assert [known.uid for known in mirror.begin_resync()] == ["a"]
    mirror.apply(gone("u", hub_id="u"))
    mirror.apply(arrival(lease("a", "u", 5), 5, answer=True, hub_id="u"))
    mirror.apply(gone("a", answer=True))
    assert len(mirror) == 0


def test_a_deletion_that_says_how_the_object_was_is_about_its_uid() -> None:
    mirror = Mirror(LEASE_ROW, clock=Clock())
    mirror.apply(arrival(lease("a", "u", 5), 5))
    mirror.apply(gone("u", hub_id="a"))
    assert len(mirror) == 0


def test_a_work_that_a_server_of_ocm_1_2_calls_gone_is_taken_over_while_it_is_held() -> None:
    """By an agent that was just started: somebody has to see to what was applied of it."""
    mirror = Mirror(WORKS, clock=Clock())
    now = datetime(2026, 1, 1, tzinfo=UTC)

    def deletion(name: str, finalizers: list[str]) -> CloudEvent:
        metadata = {"name": name, "namespace": "c1", "uid": name, "generation": 2, "finalizers": finalizers}
        return encode_spec({"metadata": {**metadata, "deletionTimestamp": format_time(now)}}, Action.DELETE, now=now)

    held = deletion("held", ["f"])
    for event in (held, deletion("gone", [])):
        mirror.apply(mirror_event_of(WORKS, event))
    [entry] = mirror
    assert (entry.uid, entry.deleting) == ("held", True)
    # Once this agent has let it go, the same event is the hub's last word.
    mirror.forget("held")
    mirror.apply(mirror_event_of(WORKS, held))
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


class TestStatuses:
    """What the hub says that this agent has reported is there to be taken, once."""

    def test_a_status_is_no_part_of_the_object_and_is_taken_once(self) -> None:
        mirror = Mirror(WORKS, clock=Clock())
        mirror.apply(arrival(lease("a", "u1", 1), 1, answer=True, status="{}"))
        entry = mirror.by_uid("u1")
        assert entry is not None
        assert "status" not in entry.document
        assert [mirror.take_status("u1"), mirror.take_status("u1")] == ["{}", ""]

    def test_an_answer_that_is_older_than_an_event_still_has_the_status(self) -> None:
        mirror = Mirror(WORKS, clock=Clock())
        mirror.begin_resync()
        mirror.apply(arrival(lease("a", "u1", 2), 2))
        mirror.apply(arrival(lease("a", "u1", 1), 1, answer=True, status="{}"))
        entry = mirror.by_uid("u1")
        assert entry is not None
        assert (entry.version, mirror.take_status("u1")) == (2, "{}")

    def test_a_change_of_the_object_leaves_it_and_its_end_takes_it_away(self) -> None:
        mirror = Mirror(WORKS, clock=Clock())
        for uid in ("u1", "u2"):
            mirror.apply(arrival(lease(uid, uid, 1), 1, answer=True, status="{}"))
            mirror.apply(arrival(lease(uid, uid, 2), 2))
        mirror.apply(gone("u2"))
        assert [mirror.take_status("u1"), mirror.take_status("u2")] == ["{}", ""]

    def test_of_what_is_not_known_nothing_is_kept(self) -> None:
        mirror = Mirror(WORKS, clock=Clock())
        mirror.forget("u1")
        mirror.apply(arrival(lease("a", "u1", 1), 1, answer=True, status="{}"))
        assert mirror.take_status("u1") == ""


class TestWithheld:
    """Of what is too large to be sent the hub says only that it is there."""

    @staticmethod
    def withheld(name: str, uid: str, version: int) -> MirrorEvent:
        return arrival(lease(name, uid, version), version, answer=True, withheld=True)

    def test_it_is_there_and_nothing_else_is_known_of_it(self) -> None:
        mirror = Mirror(WORKS, clock=Clock())
        mirror.apply(self.withheld("a", "u1", 1))
        assert mirror.has(ObjectKey("c1", "a"))
        assert not mirror.has(ObjectKey("c1", "b"))
        assert (mirror.get(ObjectKey("c1", "a")), mirror.by_uid("u1"), len(mirror)) == (None, None, 0)

    def test_what_was_known_before_stays(self) -> None:
        mirror = Mirror(WORKS, clock=Clock())
        mirror.apply(arrival(lease("a", "u1", 1), 1))
        before = mirror.by_uid("u1")
        mirror.apply(self.withheld("a", "u1", 2))
        assert mirror.by_uid("u1") is before
        assert [known.version for known in mirror.begin_resync()] == [1]

    def test_resyncs_name_it_and_want_whatever_the_hub_has(self) -> None:
        mirror = Mirror(WORKS, clock=Clock())
        mirror.apply(self.withheld("a", "u1", 4))
        assert [(known.uid, known.version, known.key.name) for known in mirror.begin_resync()] == [("u1", 0, "a")]

    def test_its_end_is_told_and_ends_it(self) -> None:
        mirror = Mirror(WORKS, clock=Clock())
        told: list[tuple[bool, bool]] = []
        mirror.on_change(lambda old, new: told.append((old is not None, new is not None)))
        mirror.apply(self.withheld("a", "u1", 1))
        mirror.apply(self.withheld("a", "u1", 2))
        mirror.apply(gone("u1"))
        assert told == [(False, True), (True, False)]
        assert not mirror.has(ObjectKey("c1", "a"))
        assert mirror.begin_resync() == []

    def test_once_it_fits_it_is_as_any_other(self) -> None:
        mirror = Mirror(WORKS, clock=Clock())
        mirror.apply(self.withheld("a", "u1", 1))
        mirror.apply(arrival(lease("a", "u1", 2), 2))
        assert [(known.uid, known.version) for known in mirror.begin_resync()] == [("u1", 2)]
        mirror.apply(gone("u1"))
        assert not mirror.has(ObjectKey("c1", "a"))

    def test_what_this_agent_has_seen_to_the_end_of_does_not_come_back(self) -> None:
        mirror = Mirror(WORKS, clock=Clock())
        mirror.forget("u1")
        mirror.apply(self.withheld("a", "u1", 1))
        assert not mirror.has(ObjectKey("c1", "a"))
