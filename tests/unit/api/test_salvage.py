"""An object of which parts cannot be read is read without them, where its kind allows that."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from muster.api import Condition, MalformedObject, condition_of, merge_patch, with_condition
from muster.api.addon.v1alpha1 import ManagedClusterAddOn
from muster.api.cluster.v1 import ManagedCluster
from muster.api.work.v1 import ManifestWork

GOOD = {
    "type": "HubAcceptedManagedCluster",
    "status": "True",
    "reason": "R",
    "message": "m",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}
HOSTILE: list[Any] = [True, 1e3, 1.5, 2**63, 1e300, "", "x" * 5000, "\x1b[31m\x00", [], {}, [[]], {"a": {"b": []}}, None]


def cluster(**parts: Any) -> ManagedCluster:
    return ManagedCluster.decode(orjson.dumps({"metadata": {"name": "c"}, **parts}))


def test_a_whole_float_counts_as_an_integer() -> None:
    read = cluster(status={"conditions": [{**GOOD, "observedGeneration": 1e3}]}, spec={"leaseDurationSeconds": 60.0})
    assert read.status.conditions[0].observed_generation == 1000
    assert read.spec.lease_duration_seconds == 60
    assert read.unread == ()


def test_what_does_not_fit_is_left_out_and_named() -> None:
    read = cluster(
        spec={"hubAcceptsClient": True, "taints": [{"key": "a"}, {"key": "b", "effect": "NoSelect"}]},
        status={
            "conditions": [{**GOOD, "observedGeneration": 1.5}, 7, {"type": "X"}],
            "version": [],
            "capacity": {"cpu": 1.5, "m": "1"},
        },
    )
    assert read.spec.hub_accepts_client
    assert [taint.key for taint in read.spec.taints] == ["b"]
    assert [condition.type for condition in read.status.conditions] == ["HubAcceptedManagedCluster"]
    assert read.status.capacity == {"m": "1"}
    assert read.unread[0] == "spec.taints[0] (without effect)"
    assert read.unread[1] == "status.conditions[0].observedGeneration"
    assert read.unread[-1] == "and 1 more"


@pytest.mark.parametrize("value", HOSTILE, ids=lambda value: repr(value)[:20])
@pytest.mark.parametrize("kind", [ManagedCluster, ManifestWork, ManagedClusterAddOn], ids=lambda kind: str(kind.resource.kind))
def test_no_status_keeps_an_object_from_being_read(
    kind: type[ManagedCluster | ManifestWork | ManagedClusterAddOn], value: Any
) -> None:
    for status in (value, {"conditions": value}, {"conditions": [value]}, {"conditions": [{**GOOD, "reason": value}]}):
        read = kind.decode(orjson.dumps({"metadata": {"name": "c", "namespace": "n"}, "spec": {}, "status": status}))
        assert read.metadata.name == "c"


def test_a_spec_that_other_kinds_are_judged_by_is_read_strictly() -> None:
    with pytest.raises(MalformedObject):
        ManifestWork.decode(orjson.dumps({"metadata": {"name": "w"}, "spec": {"executor": []}}))


def test_an_acceptance_that_cannot_be_read_is_none() -> None:
    assert not cluster(spec={"hubAcceptsClient": "true"}).spec.hub_accepts_client


def test_a_change_of_what_was_read_in_part_mends_the_list_that_it_changes() -> None:
    before = cluster(status={"conditions": [7, {**GOOD, "vendor": "kept"}], "clusterClaims": "x"})
    denied = Condition(type=GOOD["type"], status="False", reason="HubClusterAdminDenied", message="out")
    after = ManagedCluster(
        metadata=before.metadata,
        spec=before.spec,
        status=type(before.status)(conditions=with_condition(before.status.conditions, denied, "2026-01-02T00:00:00Z")),
    )
    patch = merge_patch(before, after)
    assert list(patch["status"]) == ["conditions"]
    assert [one["status"] for one in patch["status"]["conditions"]] == ["False"]
    assert condition_of(after.status.conditions, GOOD["type"]) is not None
