"""Values for an addon's chart."""

from __future__ import annotations

import pytest

from muster.addon.agent_addon import AddonError, Installation
from muster.addon.values import annotation_values, builtin_values, merge_values
from muster.api.addon.v1alpha1 import ManagedClusterAddOn
from muster.api.addons import HOSTING_CLUSTER_ANNOTATION, VALUES_ANNOTATION
from muster.api.cluster.v1 import ManagedCluster


def installation(**annotations: str) -> Installation:
    cluster = ManagedCluster.decode({"metadata": {"name": "c1"}, "spec": {}})
    metadata = {"name": "hello", "namespace": "c1", "annotations": annotations}
    return Installation(cluster, ManagedClusterAddOn.decode({"metadata": metadata, "spec": {}}))


def test_every_chart_is_told_where_and_as_whom_it_runs() -> None:
    assert builtin_values(installation(), "hello-ns") == {
        "clusterName": "c1",
        "addonInstallNamespace": "hello-ns",
        "hubKubeConfigSecret": "hello-hub-kubeconfig",
        "managedKubeConfigSecret": "hello-managed-kubeconfig",
        "installMode": "Default",
    }
    assert builtin_values(installation(**{HOSTING_CLUSTER_ANNOTATION: "h"}), "ns")["installMode"] == "Hosted"


def test_later_values_override_and_maps_are_merged() -> None:
    assert merge_values({"a": {"x": 1, "y": 1}, "b": [1]}, {"a": {"y": 2}, "b": [2]}) == {"a": {"x": 1, "y": 2}, "b": [2]}


def test_values_are_read_from_the_annotation() -> None:
    assert annotation_values(installation(**{VALUES_ANNOTATION: '{"a": 1}'})) == {"a": 1}
    assert annotation_values(installation()) == {}


@pytest.mark.parametrize("text", ["[1]", "{", "[" * 100_000])
def test_an_annotation_that_is_no_object_is_named(text: str) -> None:
    with pytest.raises(AddonError, match="must be a JSON object"):
        annotation_values(installation(**{VALUES_ANNOTATION: text}))
