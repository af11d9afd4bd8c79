"""Indexes agree with what is in the cache, and the cache costs about its bytes."""

import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterable

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.kube.selectors import parse_label_selector
from muster.runtime.cache import Cache, Entry, Snapshot, Trees, label_index
from muster.runtime.resource import Key, Resource

WORKS = Resource("work.example.io/v1", "works", "Work")


def entry(trees: Trees, name: str, namespace: str, colour: str, version: int = 1) -> Entry[Snapshot]:
    metadata = {"name": name, "namespace": namespace, "resourceVersion": str(version), "labels": {"colour": colour}}
    snapshot = Snapshot(orjson.dumps({"metadata": metadata}), WORKS, trees)
    return Entry(snapshot, snapshot)


changes = st.lists(
    st.tuples(st.booleans(), st.sampled_from("abc"), st.sampled_from(["n1", "n2"]), st.sampled_from(["red", "blue"])), max_size=40
)


@given(changes)
def test_indexes_never_disagree_with_the_objects(steps: list[tuple[bool, str, str, str]]) -> None:
    cache: Cache[Snapshot] = Cache({"colour": label_index("colour")})
    model: dict[Key, str] = {}
    for put, name, namespace, colour in steps:
        if put:
            cache.put(entry(Trees(), name, namespace, colour))
            model[Key(namespace, name)] = colour
        else:
            cache.remove(Key(namespace, name))
            model.pop(Key(namespace, name), None)

    def keys(found: Iterable[Snapshot]) -> set[Key]:
        return {snapshot.key for snapshot in found}

    def those(wanted: Callable[[Key], bool]) -> set[Key]:
        return {key for key in model if wanted(key)}

    for colour in ("red", "blue"):
        assert keys(cache.by_index("colour", colour)) == those(lambda key, colour=colour: model[key] == colour)  # type: ignore[misc]
        selector = parse_label_selector(f"colour={colour}")
        assert keys(cache.select(selector, "n1")) == those(
            lambda key, colour=colour: model[key] == colour and key.namespace == "n1"  # type: ignore[misc]
        )
    assert keys(cache.in_namespace("n2")) == those(lambda key: key.namespace == "n2")
    assert set(cache.index_values("colour")) == set(model.values())
    assert set(cache.all_keys()) == set(model)


def test_an_index_function_that_fails_leaves_the_cache_as_it_was() -> None:
    def picky(snapshot: Snapshot) -> list[str]:
        if snapshot.labels["colour"] == "bad":
            raise ValueError("bad")
        return [snapshot.labels["colour"]]

    cache: Cache[Snapshot] = Cache({"colour": picky})
    cache.put(entry(Trees(), "a", "n", "red"))
    with pytest.raises(ValueError, match="bad"):
        cache.put(entry(Trees(), "a", "n", "bad"))
    assert [snapshot.labels["colour"] for snapshot in cache.by_index("colour", "red")] == ["red"]


def test_a_cached_object_costs_its_bytes_and_less_than_a_quarter_more_even_when_all_are_read() -> None:
    def raw(number: int) -> bytes:
        metadata = {
            "name": f"work-{number}",
            "namespace": f"cluster-{number % 100}",
            "resourceVersion": str(number),
            "uid": f"7f3c9d1e-0000-4000-8000-{number:012d}",
            "labels": {"team": "platform", "app": "demo"},
        }
        data = {f"k{part}": "v" * 45 for part in range(6)}
        manifests = [{"kind": "ConfigMap", "metadata": {"name": f"c{part}"}, "data": data} for part in range(10)]
        return orjson.dumps({"metadata": metadata, "spec": {"workload": {"manifests": manifests}}})

    trees, cache = Trees(limit=32), Cache[Snapshot]()
    tracemalloc.start()
    try:
        size = 0
        for number in range(2000):
            # As from a list or a watch: a copy of exactly that length (orjson's own results keep room to grow).
            content = bytes(memoryview(raw(number)))
            size += len(content)
            snapshot = Snapshot(content, WORKS, trees)
            cache.put(Entry(snapshot, snapshot))
        assert all(snapshot.data["spec"] for snapshot in cache)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 3500 < size / 2000 < 4500
    assert held < size * 1.25


def test_nothing_heavy_is_imported_before_it_is_needed() -> None:
    program = (
        "import sys, muster.runtime.client, muster.runtime.controller, muster.runtime.leader\n"
        "heavy = {'aiohttp', 'structlog', 'muster.apiserver.server', 'cryptography'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
