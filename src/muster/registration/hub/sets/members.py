"""Membership of clusters in sets: by the exclusive label that names a set, or by the set's own label selector.

An invalid selector selects nothing. This is the only implementation of the rule, for counting members, for managed namespaces and
for placement.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from muster.api.cluster.v1beta2 import BY_LABELS, CLUSTER_SET_LABEL, EXCLUSIVE, ManagedClusterSet
from muster.api.resource import known_fields
from muster.kube.selectors import NOTHING, Selector, SelectorError, from_label_selector_object, from_labels


def selector_of(cluster_set: ManagedClusterSet) -> Selector:
    chosen = cluster_set.spec.cluster_selector
    if chosen.selector_type in ("", EXCLUSIVE):
        return from_labels({CLUSTER_SET_LABEL: cluster_set.metadata.name})
    if chosen.selector_type != BY_LABELS or chosen.label_selector is None:
        return NOTHING
    try:
        return from_label_selector_object(known_fields(chosen.label_selector))
    except SelectorError:
        return NOTHING


def sets_of(labels: Mapping[str, str], cluster_sets: Iterable[ManagedClusterSet]) -> list[ManagedClusterSet]:
    """The sets that contain a cluster with these labels."""
    return [cluster_set for cluster_set in cluster_sets if selector_of(cluster_set).matches(labels)]
