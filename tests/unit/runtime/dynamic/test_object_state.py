"""Which reports about an object are news, in whatever order they come."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.machinery.objects import Object
from muster.runtime.cache.observed import ObjectState, Presence, kept, older, trimmed
from muster.runtime.client.builtin import CONFIG_MAPS


def seen(state: ObjectState, version: str, uid: str = "u1") -> None:
    state.seen(uid, version, lambda: f"{uid}@{version}".encode())


def written(state: ObjectState, version: str, uid: str = "u1") -> None:
    state.written(uid, version, f"{uid}@{version}".encode())


def test_what_is_learnt_before_anybody_looked_is_no_news() -> None:
    state = ObjectState()
    seen(state, "5")
    assert not state.news
    assert state.get().raw == b"u1@5"


def test_what_is_learnt_after_somebody_looked_in_vain_is_news() -> None:
    state = ObjectState()
    assert state.get().presence is Presence.UNKNOWN
    seen(state, "5")
    assert state.news
    state.mark_reported()
    assert not state.news


@pytest.mark.parametrize("event_first", [True, False])
def test_an_own_write_is_no_news_whether_its_event_or_its_answer_comes_first(event_first: bool) -> None:
    state = ObjectState()
    state.get()
    if event_first:
        seen(state, "7")
        written(state, "7")
    else:
        written(state, "7")
        seen(state, "7")
    assert not state.news


def test_an_event_older_than_the_own_write_is_no_news() -> None:
    state = ObjectState()
    seen(state, "5")
    written(state, "9")
    seen(state, "8")
    assert (state.news, state.get().version) == (False, "9")


def test_a_change_that_overtook_the_answer_to_an_own_write_is_news() -> None:
    state = ObjectState()
    state.get()
    seen(state, "8")
    written(state, "7")
    assert (state.news, state.get().version) == (True, "8")


def test_a_deletion_is_news_and_a_late_event_of_the_deleted_one_is_not() -> None:
    state = ObjectState()
    seen(state, "5")
    state.gone("u1", "6")
    assert (state.news, state.get().presence) == (True, Presence.ABSENT)
    state.mark_reported()
    seen(state, "5")
    assert (state.news, state.get().presence) == (False, Presence.ABSENT)


def test_an_own_deletion_is_no_news_nor_are_the_events_before_it() -> None:
    state = ObjectState()
    seen(state, "5")
    state.deleted()
    seen(state, "4")
    seen(state, "5")
    state.gone("u1", "7")
    assert (state.news, state.get().presence) == (False, Presence.ABSENT)


def test_an_object_that_outlives_the_word_of_its_deletion_is_believed_to_live() -> None:
    state = ObjectState()
    seen(state, "5")
    state.deleted()
    seen(state, "6")
    assert (state.news, state.get().presence) == (True, Presence.PRESENT)


def test_a_recreated_object_is_news_and_its_predecessors_late_deletion_is_not() -> None:
    state = ObjectState()
    seen(state, "5")
    written(state, "9", "u2")
    state.gone("u1", "7")
    assert (state.news, state.get().uid) == (False, "u2")
    state.gone("u2", "10")
    assert state.news


def test_a_state_older_than_the_own_write_says_nothing_about_it() -> None:
    state = ObjectState()
    written(state, "9")
    state.missing("8")
    assert state.get().presence is Presence.PRESENT
    state.missing("9")
    assert (state.news, state.get().presence) == (True, Presence.ABSENT)


def test_what_is_learnt_anew_of_a_cluster_that_was_set_back_is_news_if_it_differs() -> None:
    state = ObjectState()
    seen(state, "9")
    state.forget()
    assert not state.news
    seen(state, "4")
    assert (state.news, state.get().version) == (True, "4")


def test_versions_that_are_no_numbers_have_no_order() -> None:
    assert older("9", "10")
    assert not older("a9", "b1")
    assert not older("", "1")


@given(st.permutations(range(1, 9)))
def test_whatever_the_order_the_newest_version_wins(order: list[int]) -> None:
    state = ObjectState()
    for version in order:
        seen(state, str(version))
    assert state.get().version == "8"


def test_kept_bytes_have_a_type_and_no_managed_fields_and_the_document_stays_whole() -> None:
    document: Object = {"metadata": {"name": "a", "managedFields": [{"manager": "m"}]}, "data": {"k": "v"}}
    expected = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"v"}}'
    assert kept(document, CONFIG_MAPS) == expected
    assert "managedFields" in document["metadata"]
    assert trimmed(b'{"metadata":{"name":"a","managedFields":[]},"data":{"k":"v"}}', CONFIG_MAPS) == expected
