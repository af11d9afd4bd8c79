"""Which clusters belong to which sets: by the exclusive label that names a set, or by the set's own label selector.

A selector that cannot be read selects nothing. The rule is here once, for counting members, for handing out namespaces and, later,
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
    """The sets that a cluster with these labels belongs to."""
    return [cluster_set for cluster_set in cluster_sets if selector_of(cluster_set).matches(labels)]
