"""The frozen layer that clusters share: shown, overwritten and hidden per cluster, and never stored until touched."""

from __future__ import annotations

import tracemalloc
from collections.abc import Mapping

import pytest

from muster.store import ABSENT, Conflict, Entry, MemoryStore
from tests.unit.store.conftest import Medium
from tests.unit.store.histories import PODS, Watcher, contents, create, delete, put

ROLES = "rbac.authorization.k8s.io/clusterroles"


class Bootstrap:
    """Three roles and two namespaces; each cluster's rendering carries the cluster's name."""

    def __init__(self) -> None:
        keys = {ROLES: ["admin", "edit", "view"], "/namespaces": ["default", "kube-system"]}
        self.entries: Mapping[str, Mapping[str, Entry]] = {
            resource: {name: Entry(name, 1, b"template") for name in names} for resource, names in keys.items()
        }
        self.rendered = 0

    def materialize(self, cluster: str, resource: str, template: Entry) -> Entry:
        self.rendered += 1
        return Entry(template.key, template.revision, f"{template.key} of {cluster}".encode())


async def test_every_cluster_shows_its_own_rendering(medium: Medium) -> None:
    store = await medium.open()
    base = Bootstrap()
    for cluster in ("a", "b"):
        store.add_cluster(cluster, base)
        found = store.get(cluster, ROLES, "edit")
        assert found is not None
        assert (found.revision, found.value) == (1, f"edit of {cluster}".encode())
        assert store.get(cluster, ROLES, "edit") is found
        assert [entry.key for entry in store.list(cluster, ROLES)] == ["admin", "edit", "view"]
        assert [entry.key for entry in store.list(cluster, ROLES, start="b", limit=1)] == ["edit"]
        assert store.count(cluster, ROLES) == 3
        assert store.generation(cluster, ROLES) == 1
        assert [*store.resources(cluster)] == ["/namespaces", ROLES]
    assert base.rendered == 6


async def test_writing_a_base_entry_is_an_update_of_revision_one(medium: Medium) -> None:
    store = await medium.open()
    base = Bootstrap()
    store.add_cluster("a", base)
    store.add_cluster("b", base)
    watcher = Watcher(store, None, ROLES, None)
    with pytest.raises(Conflict):
        await put(store, "edit", "mine", ABSENT, "a", ROLES)
    written = await put(store, "edit", "mine", 1, "a", ROLES)
    new = await create(store, "custom", "new", "a", ROLES)
    assert [entry.key for entry in store.list("a", ROLES)] == ["admin", "custom", "edit", "view"]
    assert contents(store.list("b", ROLES))[1] == ("edit", "edit of b")
    assert watcher.seen == [
        ("MODIFIED", "edit", written.revision, "edit of a", "mine"),
        ("ADDED", "custom", new.revision, None, "new"),
    ]
    assert contents(store.list_at("a", ROLES, 1)) == [("admin", "admin of a"), ("edit", "edit of a"), ("view", "view of a")]
    assert contents(store.list_at("a", ROLES, written.revision, "e")) == [("edit", "mine")]


async def test_a_deleted_base_entry_stays_deleted_in_its_cluster(medium: Medium) -> None:
    store = await medium.open()
    base = Bootstrap()
    store.add_cluster("a", base)
    store.add_cluster("b", base)
    gone = await delete(store, "edit", 1, "a", ROLES)
    assert store.get("a", ROLES, "edit") is None
    assert [entry.key for entry in store.list("a", ROLES)] == ["admin", "view"]
    assert [entry.key for entry in store.list("b", ROLES)] == ["admin", "edit", "view"]
    assert [entry.key for entry in store.list_at("a", ROLES, gone.revision - 1)] == ["admin", "edit", "view"]
    with pytest.raises(Conflict):
        await delete(store, "edit", cluster="a", resource=ROLES)
    await create(store, "edit", "again", "a", ROLES)
    await delete(store, "edit", cluster="a", resource=ROLES)
    assert store.get("a", ROLES, "edit") is None


async def test_a_base_entry_deleted_and_made_again_is_listed(medium: Medium) -> None:
    store = await medium.open()
    store.add_cluster("a", Bootstrap())
    await delete(store, "edit", 1, "a", ROLES)
    await create(store, "edit", "again", "a", ROLES)
    assert contents(store.list("a", ROLES, "e")) == [("edit", "again")]


async def test_overlays_and_tombstones_survive_a_restart(durable: Medium) -> None:
    store = await durable.open()
    store.add_cluster("a", Bootstrap())
    await put(store, "edit", "mine", 1, "a", ROLES)
    last = await delete(store, "view", 1, "a", ROLES)
    before = Watcher(store, "a", ROLES, 0).seen
    store = await durable.reopen()
    store.add_cluster("a", Bootstrap())
    assert contents(store.list("a", ROLES)) == [("admin", "admin of a"), ("edit", "mine")]
    assert Watcher(store, "a", ROLES, 0).seen == before
    assert [entry.key for entry in store.list_at("a", ROLES, last.revision - 1)] == ["admin", "edit", "view"]


async def test_dropping_a_cluster_forgets_its_changes_to_the_base(medium: Medium) -> None:
    store = await medium.open()
    base = Bootstrap()
    store.add_cluster("a", base)
    await delete(store, "view", 1, "a", ROLES)
    await put(store, "edit", "mine", 1, "a", ROLES)
    await store.drop_cluster("a")
    store.add_cluster("a", base)
    assert contents(store.list("a", ROLES, "e")) == [("edit", "edit of a")]
    assert store.count("a", ROLES) == 3


async def test_a_new_base_shows_through_where_the_cluster_wrote_nothing(medium: Medium) -> None:
    store = await medium.open()
    store.add_cluster("a", Bootstrap())
    await put(store, "edit", "mine", 1, "a", ROLES)
    await delete(store, "view", 1, "a", ROLES)
    assert store.count("a", ROLES) == 2
    newer = Bootstrap()
    newer.entries = {ROLES: {name: Entry(name, 1, b"template") for name in ("audit", "edit", "view")}}
    store.add_cluster("a", newer)
    assert contents(store.list("a", ROLES)) == [("audit", "audit of a"), ("edit", "mine")]


async def test_a_thousand_untouched_clusters_cost_little() -> None:
    store = MemoryStore()
    base = Bootstrap()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for n in range(1_000):
            store.add_cluster(f"cluster-{n}", base)
            assert len(store.list(f"cluster-{n}", PODS)) == 0
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (after - before) / 1_000 < 2_048
