"""Which reports about an object are news, in whatever order they come."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.runtime.client.builtin import CONFIG_MAPS
from muster.work.agent.observing.sighting import Sighting, kept, older, trimmed
from muster.work.agent.seam import Presence


def seen(sighting: Sighting, version: str, uid: str = "u1") -> None:
    sighting.seen(uid, version, lambda: f"{uid}@{version}".encode())


def written(sighting: Sighting, version: str, uid: str = "u1") -> None:
    sighting.written(uid, version, f"{uid}@{version}".encode())


def test_what_is_learnt_before_anybody_looked_is_no_news() -> None:
    sighting = Sighting()
    seen(sighting, "5")
    assert not sighting.news
    assert sighting.look().raw == b"u1@5"


def test_what_is_learnt_after_somebody_looked_in_vain_is_news() -> None:
    sighting = Sighting()
    assert sighting.look().presence is Presence.UNKNOWN
    seen(sighting, "5")
    assert sighting.news
    sighting.tell()
    assert not sighting.news


@pytest.mark.parametrize("event_first", [True, False])
def test_an_own_write_is_no_news_whether_its_event_or_its_answer_comes_first(event_first: bool) -> None:
    sighting = Sighting()
    sighting.look()
    if event_first:
        seen(sighting, "7")
        written(sighting, "7")
    else:
        written(sighting, "7")
        seen(sighting, "7")
    assert not sighting.news


def test_an_event_older_than_the_own_write_is_no_news() -> None:
    sighting = Sighting()
    seen(sighting, "5")
    written(sighting, "9")
    seen(sighting, "8")
    assert (sighting.news, sighting.look().version) == (False, "9")


def test_a_change_that_overtook_the_answer_to_an_own_write_is_news() -> None:
    sighting = Sighting()
    sighting.look()
    seen(sighting, "8")
    written(sighting, "7")
    assert (sighting.news, sighting.look().version) == (True, "8")


def test_a_deletion_is_news_and_a_late_event_of_the_deleted_one_is_not() -> None:
    sighting = Sighting()
    seen(sighting, "5")
    sighting.gone("u1", "6")
    assert (sighting.news, sighting.look().presence) == (True, Presence.ABSENT)
    sighting.tell()
    seen(sighting, "5")
    assert (sighting.news, sighting.look().presence) == (False, Presence.ABSENT)


def test_an_own_deletion_is_no_news_nor_are_the_events_before_it() -> None:
    sighting = Sighting()
    seen(sighting, "5")
    sighting.deleted()
    seen(sighting, "4")
    seen(sighting, "5")
    sighting.gone("u1", "7")
    assert (sighting.news, sighting.look().presence) == (False, Presence.ABSENT)


def test_an_object_that_outlives_the_word_of_its_deletion_is_believed_to_live() -> None:
    sighting = Sighting()
    seen(sighting, "5")
    sighting.deleted()
    seen(sighting, "6")
    assert (sighting.news, sighting.look().presence) == (True, Presence.PRESENT)


def test_a_recreated_object_is_news_and_its_predecessors_late_deletion_is_not() -> None:
    sighting = Sighting()
    seen(sighting, "5")
    written(sighting, "9", "u2")
    sighting.gone("u1", "7")
    assert (sighting.news, sighting.look().uid) == (False, "u2")
    sighting.gone("u2", "10")
    assert sighting.news


def test_a_state_older_than_the_own_write_says_nothing_about_it() -> None:
    sighting = Sighting()
    written(sighting, "9")
    sighting.missing("8")
    assert sighting.look().presence is Presence.PRESENT
    sighting.missing("9")
    assert (sighting.news, sighting.look().presence) == (True, Presence.ABSENT)


def test_what_is_learnt_anew_of_a_cluster_that_was_set_back_is_news_if_it_differs() -> None:
    sighting = Sighting()
    seen(sighting, "9")
    sighting.forget()
    assert not sighting.news
    seen(sighting, "4")
    assert (sighting.news, sighting.look().version) == (True, "4")


def test_versions_that_are_no_numbers_have_no_order() -> None:
    assert older("9", "10")
    assert not older("a9", "b1")
    assert not older("", "1")


@given(st.permutations(range(1, 9)))
def test_whatever_the_order_the_newest_version_wins(order: list[int]) -> None:
    sighting = Sighting()
    for version in order:
        seen(sighting, str(version))
    assert sighting.look().version == "8"


def test_kept_bytes_have_a_type_and_no_managed_fields_and_the_document_stays_whole() -> None:
    document: dict[str, Any] = {"metadata": {"name": "a", "managedFields": [{"manager": "m"}]}, "data": {"k": "v"}}
    expected = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"v"}}'
    assert kept(document, CONFIG_MAPS) == expected
    assert "managedFields" in document["metadata"]
    assert trimmed(b'{"metadata":{"name":"a","managedFields":[]},"data":{"k":"v"}}', CONFIG_MAPS) == expected
