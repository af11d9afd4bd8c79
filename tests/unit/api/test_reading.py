"""How objects are read: tolerant of what Go tolerates, exact about what is wrong with the rest, cheap to keep."""

from __future__ import annotations

import tracemalloc

import msgspec
import orjson
import pytest

from muster.api import Condition, MalformedObject, condition_of, is_true, merge_patch
from muster.api.cluster.v1 import AVAILABLE, JOINED, ManagedCluster, ManagedClusterSpec, ManagedClusterStatus, Taint
from muster.api.cluster.v1beta1 import ClusterDecision, PlacementDecision, PlacementDecisionStatus
from muster.api.resource import ObjectMeta, known_fields
from muster.api.work.v1 import ManifestWork

CLUSTER = {
    "apiVersion": "cluster.open-cluster-management.io/v1",
    "kind": "ManagedCluster",
    "metadata": {"name": "c1", "labels": {"a": "b"}, "managedFields": [{"manager": "x"}]},
    "spec": {"hubAcceptsClient": True, "leaseDurationSeconds": 30, "fromTheFuture": {"x": 1}},
}


def condition(kind: str, status: str) -> Condition:
    return Condition(type=kind, status=status, reason="R", message="", last_transition_time="2024-01-01T00:00:00Z")


def test_null_means_absent_as_it_does_to_go() -> None:
    cluster = ManagedCluster.decode(
        {
            "metadata": {"name": "c1", "creationTimestamp": None, "labels": None},
            "spec": {"taints": None, "leaseDurationSeconds": None},
        }
    )
    assert cluster.metadata.creation_timestamp == ""
    assert cluster.spec == ManagedClusterSpec()


def test_bytes_are_given_back_as_they_were_received() -> None:
    received = b'{ "metadata": {"name":"c1"},\n "spec": {"hubAcceptsClient":true} }'
    assert ManagedCluster.decode(received).wire == received


def test_manifests_are_kept_as_received_and_take_no_space_of_their_own() -> None:
    manifest = b'{"apiVersion":"v1","kind":"X","metadata":{"name":"a"},"n":1.0, "big":12345678901234567890123,"a":[%s0]}' % (
        b"1," * 50_000
    )
    received = b'{"metadata":{"name":"w"},"spec":{"workload":{"manifests":[' + manifest + b"]}}}"
    ManifestWork.decode(b"{}")
    tracemalloc.start()
    work = ManifestWork.decode(received)
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert bytes(work.spec.workload.manifests[0]) == manifest
    assert taken < len(manifest) / 10


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ({"metadata": {"name": "c1"}, "spec": {"executor": "yes"}}, "executor"),
        ({"metadata": {"name": "c1"}, "spec": []}, "$.spec"),
        ({"metadata": {"name": "c1"}, "spec": {"manifestConfigs": [{"feedbackRules": 1}]}}, "manifestConfigs"),
    ],
)
def test_a_malformed_object_says_which_object_and_which_field(document: dict[str, object], problem: str) -> None:
    with pytest.raises(MalformedObject) as caught:
        ManifestWork.decode(document)
    assert (caught.value.kind, caught.value.name) == ("ManifestWork", "c1")
    assert problem in str(caught.value)


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"null", b'"x"', b"[" * 100_000, b'{"metadata":' * 50_000])
def test_bytes_that_are_no_object_are_malformed_too(data: bytes) -> None:
    with pytest.raises(MalformedObject):
        ManagedCluster.decode(data)


def test_values_that_our_definition_does_not_know_yet_can_be_read() -> None:
    cluster = ManagedCluster.decode(
        {"metadata": {"name": "c"}, "spec": {"taints": [{"key": "not a key!", "effect": "NoNewThing"}]}}
    )
    assert cluster.spec.taints == (Taint(key="not a key!", effect="NoNewThing"),)


def test_objects_made_here_say_what_they_are() -> None:
    made = ManagedCluster(metadata=ObjectMeta(name="c1"), spec=ManagedClusterSpec(hub_accepts_client=True))
    assert made.document() == {
        "apiVersion": "cluster.open-cluster-management.io/v1",
        "kind": "ManagedCluster",
        "metadata": {"name": "c1"},
        "spec": {"hubAcceptsClient": True},
    }
    assert orjson.loads(made.wire) == made.document()


def test_what_the_schema_requires_is_written_even_when_it_is_empty() -> None:
    status = PlacementDecisionStatus(decisions=(ClusterDecision(cluster_name="c", reason=""),))
    before = PlacementDecision.decode(PlacementDecision(status=status).document())
    assert before.document()["status"] == {"decisions": [{"clusterName": "c", "reason": ""}]}
    after = msgspec.structs.replace(before, status=PlacementDecisionStatus())
    assert merge_patch(before, after) == {"status": {"decisions": []}}
    assert known_fields(condition(JOINED, "True"))["message"] == ""


def test_a_condition_with_gos_zero_time_can_be_read() -> None:
    reported = {"type": JOINED, "status": "True", "lastTransitionTime": None}
    cluster = ManagedCluster.decode({"status": {"conditions": [reported]}})
    assert is_true(cluster.status.conditions, JOINED)


def test_structs_cannot_be_changed_in_place() -> None:
    cluster = ManagedCluster.decode(CLUSTER)
    with pytest.raises(AttributeError):
        cluster.spec.hub_accepts_client = False  # type: ignore[misc]


def test_a_patch_holds_the_change_and_nothing_else() -> None:
    before = ManagedCluster.decode(CLUSTER)
    after = msgspec.structs.replace(before, spec=msgspec.structs.replace(before.spec, hub_accepts_client=False))
    assert merge_patch(before, after) == {"spec": {"hubAcceptsClient": None}}


def test_a_condition_that_changes_keeps_the_unknown_fields_of_all_conditions() -> None:
    wire = {
        "type": JOINED,
        "status": "True",
        "reason": "R",
        "message": "",
        "lastTransitionTime": "2024-01-01T00:00:00Z",
        "hint": "h",
    }
    other = {**wire, "type": AVAILABLE, "hint": "other"}
    before = ManagedCluster.decode({"metadata": {"name": "c"}, "status": {"conditions": [wire, other]}})
    after = msgspec.structs.replace(
        before, status=ManagedClusterStatus(conditions=(condition(AVAILABLE, "False"), condition(JOINED, "True")))
    )
    assert merge_patch(before, after) == {"status": {"conditions": [{**other, "status": "False"}, wire]}}


def test_elements_that_go_take_their_unknown_fields_along() -> None:
    before = ManagedCluster.decode(
        {"spec": {"managedClusterClientConfigs": [{"url": "https://a", "note": "of a"}, {"url": "https://b", "note": "of b"}]}}
    )
    spec = msgspec.structs.replace(before.spec, managed_cluster_client_configs=before.spec.managed_cluster_client_configs[1:])
    patch = merge_patch(before, msgspec.structs.replace(before, spec=spec))
    assert patch == {"spec": {"managedClusterClientConfigs": [{"url": "https://b", "note": "of b"}]}}


def test_conditions_are_found_by_type() -> None:
    conditions = (condition(JOINED, "True"), condition(AVAILABLE, "Unknown"))
    assert is_true(conditions, JOINED)
    assert not is_true(conditions, AVAILABLE)
    assert condition_of(conditions, "Other") is None


def test_paths_lead_to_collections_objects_and_subresources() -> None:
    assert ManagedCluster.resource.path() == "/apis/cluster.open-cluster-management.io/v1/managedclusters"
    assert ManifestWork.resource.path("w", "c1", "status") == (
        "/apis/work.open-cluster-management.io/v1/namespaces/c1/manifestworks/w/status"
    )
