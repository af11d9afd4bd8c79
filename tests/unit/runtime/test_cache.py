"""Indexes agree with what is in the cache, and the cache costs about its bytes."""

import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterable
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.kube.selectors import parse_label_selector
from muster.machinery.objects import GVR, ObjectKey
from muster.runtime.cache.store import Cache, Snapshot, label_index

WORKS = GVR("work.example.io/v1", "works", "Work")


def put(cache: Cache[Any], name: str, namespace: str, colour: str) -> None:
    metadata = {"name": name, "namespace": namespace, "resourceVersion": "1", "labels": {"colour": colour}}
    cache.put(cache.read(orjson.dumps({"metadata": metadata})))


changes = st.lists(
    st.tuples(st.booleans(), st.sampled_from("abc"), st.sampled_from(["n1", "n2"]), st.sampled_from(["red", "blue"])), max_size=40
)


@given(changes)
def test_indexes_never_disagree_with_the_objects(steps: list[tuple[bool, str, str, str]]) -> None:
    cache: Cache[Snapshot] = Cache(WORKS, indexes={"colour": label_index("colour")})
    model: dict[ObjectKey, str] = {}
    for added, name, namespace, colour in steps:
        if added:
            put(cache, name, namespace, colour)
            model[ObjectKey(namespace, name)] = colour
        else:
            cache.remove(ObjectKey(namespace, name))
            model.pop(ObjectKey(namespace, name), None)

    def keys(found: Iterable[Snapshot]) -> set[ObjectKey]:
        return {snapshot.key for snapshot in found}

    def those(wanted: Callable[[ObjectKey], bool]) -> set[ObjectKey]:
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

    cache: Cache[Snapshot] = Cache(WORKS, indexes={"colour": picky})
    put(cache, "a", "n", "red")
    with pytest.raises(ValueError, match="bad"):
        put(cache, "a", "n", "bad")
    assert [snapshot.labels["colour"] for snapshot in cache.by_index("colour", "red")] == ["red"]


@pytest.mark.parametrize("decode", [None, orjson.loads], ids=["untyped", "decoded"])
def test_a_cached_object_costs_its_bytes_and_less_than_a_quarter_more_even_when_all_are_read(
    decode: Callable[[bytes], Any] | None,
) -> None:
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

    cache: Cache[Any] = Cache(WORKS, decode, kept=20_000)
    tracemalloc.start()
    try:
        size = 0
        for number in range(2000):
            # As from a list or a watch: a copy of exactly that length (orjson's own results keep room to grow).
            content = bytes(memoryview(raw(number)))
            size += len(content)
            cache.put(cache.read(content))
        assert len(list(cache)) == 2000
        assert all(snapshot.data["spec"] for snapshot in map(cache.snapshot, cache.all_keys()) if snapshot)
        snapshot = tracemalloc.take_snapshot()
    finally:
        tracemalloc.stop()
    # What other tests have left running in threads is not the cache's.
    own = snapshot.filter_traces([tracemalloc.Filter(True, "*/muster/runtime/*"), tracemalloc.Filter(True, __file__)])
    held = sum(trace.size for trace in own.traces)
    assert 3500 < size / 2000 < 4500
    assert held < size * 1.25


def test_a_small_collection_is_decoded_once_per_version() -> None:
    decoded: list[bytes] = []

    def decode(raw: bytes) -> dict[str, Any]:
        decoded.append(raw)
        return {"raw": raw}

    cache: Cache[dict[str, Any]] = Cache(WORKS, decode, {"all": lambda value: ["x"]})
    for name in "abc":
        put(cache, name, "n", "red")
    first = cache.named("a", "n")
    for _ in range(5):
        assert len(cache.by_index("all", "x")) == len(list(cache)) == 3
    assert cache.named("a", "n") is first
    assert len(decoded) == 3


def test_nothing_heavy_is_imported_before_it_is_needed() -> None:
    program = (
        "import sys, muster.runtime.client.http, muster.runtime.controller.controller, muster.runtime.controller.leader_election\n"
        "heavy = {'structlog', 'muster.apiserver.server', 'cryptography'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_keys_are_selected_without_decoding_anything() -> None:
    decoded: list[bytes] = []

    def decode(raw: bytes) -> bytes:
        decoded.append(raw)
        return raw

    cache: Cache[bytes] = Cache(WORKS, decode)
    for number in range(3):
        put(cache, f"w{number}", "n1", "red" if number else "blue")
    decoded.clear()
    assert cache.select_keys(parse_label_selector("colour=red")) == [ObjectKey("n1", "w1"), ObjectKey("n1", "w2")]
    assert cache.select_keys(parse_label_selector("colour=red"), "n2") == []
    assert decoded == []
