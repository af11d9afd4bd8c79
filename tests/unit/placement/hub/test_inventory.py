"""Which placements a change of sets and bindings concerns."""

from __future__ import annotations

from muster.api.cluster.v1beta1 import Placement
from muster.api.cluster.v1beta2 import ManagedClusterSet
from muster.machinery.objects import ObjectKey
from muster.placement.hub.inventory import Inventory
from tests.support.placement_world import NOW, placement

CHOOSY = ObjectKey("apps", "choosy")


def inventory() -> tuple[Inventory, Placement]:
    found, choosy = Inventory(), placement("choosy", clusterSets=["wanted"])
    found.put_placement(choosy)
    return found, choosy


def cluster_set(name: str) -> ManagedClusterSet:
    return ManagedClusterSet.decode({"metadata": {"name": name}, "spec": {}})


def test_any_binding_concerns_a_placement_that_has_no_set_and_says_why() -> None:
    found, choosy = inventory()
    found.put_set(cluster_set("other"))
    assert list(found.world(choosy, NOW).bound) == []
    assert found.put_binding(ObjectKey("apps", "other")) == [CHOOSY]
    assert found.put_binding(ObjectKey("apps", "other")) == []
    assert found.put_binding(ObjectKey("elsewhere", "other")) == []
    assert found.drop_binding(ObjectKey("apps", "other")) == [CHOOSY]


def test_so_does_a_set_that_makes_a_binding_valid() -> None:
    found, _ = inventory()
    found.put_binding(ObjectKey("apps", "other"))
    assert found.put_set(cluster_set("other")) == [CHOOSY]
    assert found.put_set(cluster_set("other")) == []
    assert found.put_set(cluster_set("unbound")) == []
    assert found.drop_set("other") == [CHOOSY]
