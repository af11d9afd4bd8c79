"""The index of decisions: counts that are always those of the objects, and an echo that is no news."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from muster.api.cluster.v1beta1 import PlacementDecision
from muster.machinery.objects import ObjectKey
from muster.placement.hub.decision_index import CONFIRMED_WITHIN, DecisionIndex
from tests.support.fake_clock import FakeClock

LABEL = "cluster.open-cluster-management.io/placement"


def decision(name: str, version: int, *clusters: str, owner: str = "", label: str = "", uid: str = "") -> PlacementDecision:
    owners = [{"apiVersion": "v1", "kind": "Placement", "name": owner, "uid": f"{owner}-uid"}] if owner else []
    metadata: dict[str, Any] = {"name": name, "namespace": "ns", "uid": uid or f"{name}-uid", "resourceVersion": str(version)}
    metadata |= {"ownerReferences": owners, "labels": {LABEL: label} if label else {}}
    return PlacementDecision.decode(
        {"metadata": metadata, "status": {"decisions": [{"clusterName": one, "reason": ""} for one in clusters]}}
    )


steps = st.lists(
    st.tuples(
        st.sampled_from(["d1", "d2", "d3", "d4"]),
        st.sampled_from(["observe", "write", "gone", "delete"]),
        st.sampled_from(["p", "q", ""]),
        st.lists(st.sampled_from("abcd"), unique=True),
    )
)


@given(steps)
def test_counts_are_those_of_the_decisions_that_are_there(done: list[tuple[str, str, str, list[str]]]) -> None:
    index, model, version = DecisionIndex(FakeClock()), dict[str, PlacementDecision](), 0
    for name, what, owner, clusters in done:
        version += 1
        one = decision(
            name, version, *clusters, owner=owner, uid=f"{name}-{version if name not in model else model[name].metadata.uid}"
        )
        if what in ("gone", "delete"):
            if name in model:
                gone = model.pop(name)
                index.record_delete(ObjectKey("ns", name), gone.metadata.uid) if what == "delete" else index.observe_deletion(gone)
            continue
        index.observe(one) if what == "observe" else index.record_write(one)
        model[name] = one
    by_placement: dict[str, set[str]] = {}
    for name, one in model.items():
        owner = one.metadata.owner_references[0].name if one.metadata.owner_references else name
        by_placement.setdefault(owner, set()).update(entry.cluster_name for entry in one.status.decisions)
    for placement in ("p", "q", "other"):
        expected = Counter(cluster for owner, clusters in by_placement.items() if owner != placement for cluster in clusters)
        assert index.chosen_by_others(ObjectKey("ns", placement)) == dict(expected)
        owned = {name for name, one in model.items() if any(ref.name == placement for ref in one.metadata.owner_references)}
        assert set(index.owned_by(f"{placement}-uid")) == owned


def test_a_cluster_in_two_decisions_of_a_placement_is_chosen_once() -> None:
    index = DecisionIndex(FakeClock())
    index.observe(decision("d1", 1, "a", owner="p"))
    index.observe(decision("d2", 2, "a", owner="p"))
    assert index.chosen_by_others(ObjectKey("ns", "q")) == {"a": 1}
    assert index.chosen_by_others(ObjectKey("ns", "p")) == {}


def test_an_echo_or_an_older_version_is_no_news() -> None:
    index = DecisionIndex(FakeClock())
    index.record_write(decision("d1", 5, "b", owner="p"))
    assert not index.observe(decision("d1", 4, "a", owner="p"))
    assert not index.observe(decision("d1", 5, "b", owner="p"))
    assert index.observe(decision("d1", 6, "c", owner="p"))
    assert index.owned_by("p-uid")["d1"].content.names == {"c"}


def test_what_was_deleted_here_does_not_come_back_by_a_watch_that_lags() -> None:
    index = DecisionIndex(FakeClock())
    known = decision("d1", 5, "a", owner="p")
    index.observe(known)
    index.record_delete(ObjectKey("ns", "d1"), "d1-uid")
    assert not index.observe(decision("d1", 6, "a", owner="p"))
    assert not index.observe_deletion(known)
    assert index.observe(decision("d1", 8, "a", owner="p", uid="another"))


def test_a_write_that_the_watch_never_confirms_is_forgotten() -> None:
    clock = FakeClock()
    index = DecisionIndex(clock)
    index.record_write(decision("d1", 5, "a", owner="p"))
    index.record_write(decision("d2", 6, "b", owner="p"))
    assert not index.observe(decision("d2", 6, "b", owner="p"))
    clock._elapsed += CONFIRMED_WITHIN + 1
    assert set(index.owned_by("p-uid")) == {"d2"}
    assert index.chosen_by_others(ObjectKey("ns", "q")) == {"b": 1}


def test_a_decision_without_owner_counts_for_the_placement_that_its_label_names() -> None:
    index = DecisionIndex(FakeClock())
    index.observe(decision("d1", 1, "a", label="p"))
    assert index.chosen_by_others(ObjectKey("ns", "p")) == {}
    assert index.chosen_by_others(ObjectKey("ns", "q")) == {"a": 1}
    assert [one.key.name for one in index.labelled(ObjectKey("ns", "p"))] == ["d1"]


def test_a_choice_that_is_being_written_counts_as_written() -> None:
    index = DecisionIndex(FakeClock())
    index.observe(decision("d1", 1, "a", "b", owner="p"))
    with index.expecting(ObjectKey("ns", "p"), frozenset("bc")):
        assert index.chosen_by_others(ObjectKey("ns", "q")) == {"b": 1, "c": 1}
        assert index.chosen_by_others(ObjectKey("ns", "p")) == {}
    assert index.chosen_by_others(ObjectKey("ns", "q")) == {"a": 1, "b": 1}


def test_what_is_written_while_a_choice_is_being_written_is_counted_once() -> None:
    index = DecisionIndex(FakeClock())
    index.observe(decision("d1", 1, "a", "b", owner="p"))
    with index.expecting(ObjectKey("ns", "p"), frozenset("bcd")):
        index.record_write(decision("d1", 2, "b", "c", owner="p"))
        assert index.chosen_by_others(ObjectKey("ns", "q")) == {"b": 1, "c": 1, "d": 1}
        index.observe(decision("d9", 3, "c", owner="other"))
        assert index.chosen_by_others(ObjectKey("ns", "q")) == {"b": 1, "c": 2, "d": 1}
        assert index.chosen_by_others(ObjectKey("ns", "p")) == {"c": 1}
    assert index.chosen_by_others(ObjectKey("ns", "q")) == {"b": 1, "c": 2}, "what could not be written is not counted"
