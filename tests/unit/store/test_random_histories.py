"""Random histories on every backend against the plainest model there is: a dict, and a copy of it per revision."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule, run_state_machine_as_test

from muster.store import ABSENT, ANY_REVISION, Compacted, Conflict, Entry, Store
from tests.unit.store.conftest import Medium, new_database
from tests.unit.store.histories import Seen, Watcher, contents, delete, put

RESOURCES = ["/pods", "apps/deployments"]
CLUSTERS = ["plain", "based"]
KEYS = ["n1/a", "n1/b", "n10/a", "n2/a", "z"]
State = dict[str, tuple[str, int]]
Place = tuple[str, str]


class Base:
    """Two keys of one resource under the cluster `based`."""

    def __init__(self) -> None:
        self.entries: Mapping[str, Mapping[str, Entry]] = {"/pods": {k: Entry(k, 1, b"t") for k in ("n1/a", "z")}}

    def materialize(self, cluster: str, resource: str, template: Entry) -> Entry:
        return Entry(template.key, 1, f"base of {cluster}".encode())


class Model:
    """All states by revision, and the events between them."""

    def __init__(self) -> None:
        self.revision = 1
        self.floor = 0
        self.dropped: dict[str, int] = {}
        self.now: dict[Place, State] = {(c, r): self.initial(c, r) for c in CLUSTERS for r in RESOURCES}
        self.past: dict[int, dict[Place, State]] = {1: self.copy()}
        self.events: list[tuple[str, str, Seen]] = []

    @staticmethod
    def initial(cluster: str, resource: str) -> State:
        if (cluster, resource) != ("based", "/pods"):
            return {}
        return dict.fromkeys(("n1/a", "z"), (f"base of {cluster}", 1))

    def copy(self) -> dict[Place, State]:
        return {place: dict(state) for place, state in self.now.items()}

    def record(self, cluster: str, resource: str, key: str, revision: int, value: str, deleted: bool) -> None:
        assert revision > self.revision
        state = self.now[cluster, resource]
        before = state[key][0] if key in state else None
        kind = "DELETED" if deleted else "ADDED" if before is None else "MODIFIED"
        self.events.append((cluster, resource, (kind, key, revision, before, value)))
        if deleted:
            del state[key]
        else:
            state[key] = (value, revision)
        self.revision = revision
        self.past[revision] = self.copy()

    def drop(self, cluster: str, revision: int) -> None:
        assert revision > self.revision
        self.revision = self.dropped[cluster] = revision
        for resource in RESOURCES:
            self.now[cluster, resource] = self.initial(cluster, resource)
        self.events = [event for event in self.events if event[0] != cluster]
        self.past[revision] = self.copy()

    def oldest(self, cluster: str | None) -> int:
        gone = max(self.dropped.values(), default=0) if cluster is None else self.dropped.get(cluster, 0)
        return max(self.floor, gone)

    def seen(self, cluster: str | None, resource: str | None, after: int) -> list[Seen]:
        return [
            event
            for where, what, event in self.events
            if cluster in (None, where) and resource in (None, what) and event[2] > after
        ]


class Histories(RuleBasedStateMachine):
    clusters = st.sampled_from(CLUSTERS)
    resources = st.sampled_from(RESOURCES)
    keys = st.sampled_from(KEYS)
    values = st.text("abc", max_size=3)
    moments = st.floats(0, 1)

    def __init__(self, make: Callable[[], Coroutine[Any, Any, Medium]]) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.medium = self.runner.run(make())
        self.model = Model()
        self.base = Base()
        self.watchers: list[tuple[Watcher, str | None, str | None, int]] = []
        self.store: Store

    @initialize()
    def begin(self) -> None:
        self.run(self.open())

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.runner.run(work)

    async def open(self) -> None:
        self.store = await self.medium.reopen()
        self.add_clusters()

    def add_clusters(self) -> None:
        self.store.add_cluster("plain")
        self.store.add_cluster("based", self.base)

    def revision_at(self, moment: float) -> int:
        known = [*self.model.past]
        return known[min(int(moment * len(known)), len(known) - 1)]

    @rule(cluster=clusters, resource=resources, key=keys, value=values, expect=st.sampled_from(["any", "head", "absent", "stale"]))
    def put(self, cluster: str, resource: str, key: str, value: str, expect: str) -> None:
        head = self.model.now[cluster, resource].get(key)
        wanted = {"any": ANY_REVISION, "head": head[1] if head else ABSENT, "absent": ABSENT, "stale": 999_999}[expect]
        fits = wanted == ANY_REVISION or wanted == (head[1] if head else ABSENT)
        if not fits:
            with pytest.raises(Conflict) as conflict:
                self.run(put(self.store, key, value, wanted, cluster, resource))
            found = conflict.value.head
            assert (found.revision if found else None) == (head[1] if head else None)
            return
        entry = self.run(put(self.store, key, value, wanted, cluster, resource))
        self.model.record(cluster, resource, key, entry.revision, value, False)

    @rule(cluster=clusters, resource=resources, key=keys)
    def delete(self, cluster: str, resource: str, key: str) -> None:
        if key not in self.model.now[cluster, resource]:
            with pytest.raises(Conflict):
                self.run(delete(self.store, key, cluster=cluster, resource=resource))
            return
        entry = self.run(delete(self.store, key, cluster=cluster, resource=resource))
        self.model.record(cluster, resource, key, entry.revision, "gone", True)

    @rule(writes=st.lists(st.tuples(clusters, resources, keys, values, st.booleans()), min_size=2, max_size=12))
    def write_together(self, writes: list[tuple[str, str, str, str, bool]]) -> None:
        """Concurrent writes take effect in the order of their revisions, whatever that is."""

        async def all_at_once() -> list[Entry | BaseException]:
            return await asyncio.gather(
                *(
                    delete(self.store, key, cluster=cluster, resource=resource)
                    if gone
                    else put(self.store, key, value, cluster=cluster, resource=resource)
                    for cluster, resource, key, value, gone in writes
                ),
                return_exceptions=True,
            )

        done = []
        for write, result in zip(writes, self.run(all_at_once()), strict=True):
            if isinstance(result, Entry):
                done.append((result.revision, write))
            else:
                assert isinstance(result, Conflict)
                assert write[4]
        for revision, (cluster, resource, key, value, gone) in sorted(done):
            self.model.record(cluster, resource, key, revision, "gone" if gone else value, gone)

    @rule(cluster=clusters, resource=resources, prefix=st.sampled_from(["", "n1", "n1/", "q"]), start=keys, limit=st.integers(0, 3))
    def list_part(self, cluster: str, resource: str, prefix: str, start: str, limit: int) -> None:
        state = self.model.now[cluster, resource]
        keys = sorted(key for key in state if key.startswith(prefix) and key >= start)
        assert self.store.count(cluster, resource, prefix, start) == len(keys)
        found = self.store.list(cluster, resource, prefix, start, limit)
        assert contents(found) == [(key, state[key][0]) for key in (keys[:limit] if limit else keys)]

    @rule(cluster=clusters, resource=resources, moment=moments, prefix=st.sampled_from(["", "n1/"]), limit=st.integers(0, 3))
    def list_the_past(self, cluster: str, resource: str, moment: float, prefix: str, limit: int) -> None:
        revision = self.revision_at(moment)
        try:
            found = self.store.list_at(cluster, resource, revision, prefix, limit=limit)
        except Compacted:
            assert revision < self.model.oldest(cluster)
            return
        assert revision >= self.model.oldest(cluster)
        state = self.model.past[revision][cluster, resource]
        keys = sorted(key for key in state if key.startswith(prefix))
        assert [(e.key, e.value.decode(), e.revision) for e in found] == [
            (key, *state[key]) for key in (keys[:limit] if limit else keys)
        ]

    @rule(cluster=st.none() | clusters, resource=st.none() | resources, moment=moments)
    def watch(self, cluster: str | None, resource: str | None, moment: float) -> None:
        revision = self.revision_at(moment)

        async def begin() -> Watcher:
            return Watcher(self.store, cluster, resource, revision)

        try:
            watcher = self.run(begin())
        except Compacted:
            assert revision < self.model.oldest(cluster)
            return
        assert revision >= self.model.oldest(cluster) or revision == self.model.revision
        self.watchers.append((watcher, cluster, resource, revision))

    @rule(moment=moments)
    def compact(self, moment: float) -> None:
        revision = self.revision_at(moment)
        self.run(self.store.compact(revision))
        self.model.floor = max(self.model.floor, revision)

    @rule(cluster=clusters)
    def drop(self, cluster: str) -> None:
        self.check_watchers()
        self.run(self.store.drop_cluster(cluster))
        self.model.drop(cluster, self.store.revision)
        for watcher, scope, _, _ in self.watchers:
            assert watcher.lost == (scope == cluster)
            watcher.subscription.close()
        self.watchers.clear()
        self.add_clusters()

    @precondition(lambda self: self.medium.kind != "memory")
    @rule()
    def restart(self) -> None:
        self.watchers.clear()
        self.run(self.open())

    @invariant()
    def the_present_is_right(self) -> None:
        if not hasattr(self, "store"):
            return
        assert self.store.revision == self.model.revision
        for (cluster, resource), state in self.model.now.items():
            entries = self.store.list(cluster, resource)
            assert {e.key: (e.value.decode(), e.revision) for e in entries} == state
        self.check_watchers()

    def check_watchers(self) -> None:
        for watcher, cluster, resource, revision in self.watchers:
            assert watcher.seen == self.model.seen(cluster, resource, revision)

    def teardown(self) -> None:
        self.run(self.medium.close())
        self.runner.close()


@pytest.mark.parametrize(("kind", "examples"), [("memory", 60), ("sqlite", 25), ("postgres", 8)])
def test_random_histories(kind: str, examples: int, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    async def make() -> Medium:
        if kind == "postgres":
            return Medium(kind, await new_database(request.getfixturevalue("postgres_server")))
        return Medium(kind, Path(tempfile.mkdtemp(dir=tmp_path)) / "muster.db" if kind == "sqlite" else None)

    class OfThisKind(Histories):
        def __init__(self) -> None:
            super().__init__(make)

    run_state_machine_as_test(
        OfThisKind,
        settings=settings(
            max_examples=examples, stateful_step_count=40, deadline=None, suppress_health_check=[*HealthCheck], print_blob=True
        ),
    )
