"""What was right is not looked at again, and what failed not before its time, unless something has changed."""

from __future__ import annotations

import pytest

from muster.api.work.v1 import UpdateStrategy
from muster.machinery.backoff import Backoff
from muster.machinery.objects import ObjectRef
from muster.runtime.cache.observed import ABSENT, UNKNOWN, ObservedObject, Presence
from muster.runtime.client.builtin import CONFIG_MAPS
from muster.runtime.client.errors import Forbidden, Invalid, NotFound
from muster.work.agent.interfaces import ApplyProblem, Manifest
from muster.work.agent.reporting import failed
from muster.work.agent.work_state import CHANGED_RETRY, CONTESTED_RETRY, MISSING_RETRY, REPAIR_PAUSE, REPAIRS, WorkState

REF = ObjectRef(CONFIG_MAPS, "app", "a")
BACKOFF = Backoff(1.0, 100.0, jitter=0.0)


def manifest(digest: bytes = b"1") -> Manifest:
    return Manifest(ordinal=0, rank=3, ref=REF, document={}, digest=digest, strategy=UpdateStrategy(), owned=True)


def present(version: str) -> ObservedObject:
    return ObservedObject(Presence.PRESENT, "u", version, b"{}")


@pytest.fixture
def memory() -> WorkState:
    return WorkState()


def fail(memory: WorkState, error: Exception, now: float = 0.0, seen: ObservedObject = ABSENT) -> None:
    memory.failed(manifest(), seen, error, failed(error), now, BACKOFF)


def test_what_agreed_agrees_until_manifest_or_object_change(memory: WorkState) -> None:
    assert not memory.agrees(manifest(), present("5"))
    memory.applied(manifest(), "5", 0.0, wrote=True)
    assert memory.agrees(manifest(), present("5"))
    assert not memory.agrees(manifest(b"2"), present("5"))
    assert not memory.agrees(manifest(), present("6"))
    assert not memory.agrees(manifest(), ABSENT)
    assert not memory.agrees(manifest(), UNKNOWN)


def test_what_failed_is_tried_later_and_later(memory: WorkState) -> None:
    fail(memory, Invalid(422, "Invalid", "no"))
    assert memory.due() == 1.0
    assert memory.trouble(manifest(), ABSENT, 0.9)
    assert memory.trouble(manifest(), ABSENT, 1.0) is None
    fail(memory, Invalid(422, "Invalid", "no"), 1.0)
    fail(memory, Invalid(422, "Invalid", "no"), 3.0)
    assert memory.due() == 7.0
    memory.applied(manifest(), "5", 0.0, wrote=True)
    assert memory.due() is None


def test_a_changed_manifest_is_tried_at_once_and_anew(memory: WorkState) -> None:
    fail(memory, Invalid(422, "Invalid", "no"))
    fail(memory, Invalid(422, "Invalid", "no"))
    assert memory.trouble(manifest(b"2"), ABSENT, 0.0) is None


def test_a_changed_object_is_tried_soon_but_not_each_time_that_it_changes(memory: WorkState) -> None:
    conflict = ApplyProblem("ApplyConflict", "no")
    fail(memory, conflict, 0.0, present("1"))
    assert memory.due() == CONTESTED_RETRY
    assert memory.trouble(manifest(), present("2"), 0.5)
    assert memory.due() == CHANGED_RETRY
    assert memory.trouble(manifest(), present("3"), CHANGED_RETRY) is None


def test_what_waits_for_something_else_never_waits_long(memory: WorkState) -> None:
    for _ in range(20):
        fail(memory, NotFound(404, "NotFound", "no namespace"))
    assert memory.due() == MISSING_RETRY


def test_what_failed_in_a_namespace_that_is_going_never_waits_long(memory: WorkState) -> None:
    causes = {"causes": [{"reason": "NamespaceTerminating", "field": "metadata.namespace"}]}
    for _ in range(10):
        fail(memory, Forbidden(403, "Forbidden", "it is being terminated", causes))
    assert memory.due() == MISSING_RETRY


def test_what_failed_for_want_of_a_namespace_is_tried_when_that_was_made(memory: WorkState) -> None:
    for _ in range(10):
        fail(memory, Forbidden(403, "Forbidden", "no"))
    memory.made("another", 3.0)
    assert memory.trouble(manifest(), ABSENT, 3.0) is not None
    memory.made("app", 3.0)
    assert memory.trouble(manifest(), ABSENT, 3.0) is None


def test_what_the_work_is_no_longer_about_is_forgotten(memory: WorkState) -> None:
    memory.applied(manifest(), "1", 0.0, wrote=True)
    memory.keep_only(frozenset())
    assert not memory.agrees(manifest(), present("1"))


def test_nothing_is_right_under_a_record_that_was_made_anew(memory: WorkState) -> None:
    memory.belongs_to("first")
    memory.applied(manifest(), "5", 0.0, wrote=True)
    memory.belongs_to("first")
    assert memory.agrees(manifest(), present("5"))
    memory.belongs_to("second")
    assert not memory.agrees(manifest(), present("5"))


def repair(memory: WorkState, now: float = 0.0) -> None:
    memory.applied(manifest(), "5", now, wrote=True)


def test_what_has_to_be_set_right_again_and_again_rests(memory: WorkState) -> None:
    repair(memory)
    for _ in range(int(REPAIRS)):
        assert not memory.rests(manifest(), 0.0)
        repair(memory)
    assert memory.rests(manifest(), 0.0)
    assert memory.due() == REPAIR_PAUSE
    assert not memory.rests(manifest(b"2"), 0.0)
    assert not memory.rests(manifest(), REPAIR_PAUSE)
    repair(memory, REPAIR_PAUSE)
    assert memory.rests(manifest(), REPAIR_PAUSE)


def test_repairs_are_forgiven_in_time(memory: WorkState) -> None:
    for _ in range(int(REPAIRS) + 1):
        repair(memory)
    long = REPAIR_PAUSE * REPAIRS * 100
    for _ in range(int(REPAIRS)):
        assert not memory.rests(manifest(), long)
        repair(memory, long)
    assert memory.rests(manifest(), long)


def test_looking_at_an_object_that_changes_all_the_time_is_no_repair(memory: WorkState) -> None:
    for version in range(100):
        memory.applied(manifest(), str(version), 0.0, wrote=False)
    assert not memory.rests(manifest(), 0.0)


def test_a_pass_that_does_not_come_to_what_rests_is_not_called_again_for_it(memory: WorkState) -> None:
    for _ in range(int(REPAIRS) + 1):
        repair(memory)
    assert memory.rests(manifest(), 0.0)
    memory.keep_only(frozenset({REF}))
    assert memory.due() is None
