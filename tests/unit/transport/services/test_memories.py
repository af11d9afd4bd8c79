"""What services remember is bounded, in number and in time, and is never more than what is worth keeping."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.machinery.objects import Object
from muster.runtime.cache import Snapshot
from muster.runtime.cache.store import Cache
from muster.transport.codecs.sequence import REPORTED
from muster.transport.contract.rows import CLUSTERS, SIGNING_REQUEST_ROW, WORKS, Row
from muster.transport.services.objects import KeptObject, KeptObjects
from muster.transport.services.reduction import reduction_of
from muster.transport.services.tombstones import Tombstones
from muster.transport.services.write_cache import KEPT_SECONDS, WriteCache, is_older
from tests.support.fake_clock import FakeClock


def kept(uid: str, cluster: str = "c1", row: Row = WORKS, **metadata: Any) -> KeptObject:
    whole = {"name": f"w-{uid}", "namespace": cluster, "uid": uid, "resourceVersion": "5", "generation": 2, **metadata}
    reader: Cache[Snapshot] = Cache(row.resource)
    return KeptObject(row, reader.read(orjson.dumps({"metadata": whole})))


class TestTombstones:
    async def test_the_oldest_go_first_when_there_are_too_many(self) -> None:
        tombstones = Tombstones(WORKS, most=2, clock=FakeClock())
        for uid in ("a", "b", "a", "c"):
            tombstones.add(kept(uid))
        assert len(tombstones) == 2
        assert tombstones.get("c1", "b") is None
        found = tombstones.get("c1", "a")
        assert found is not None
        assert (found.name, found.namespace, found.version, found.cluster) == ("w-a", "c1", 2, "c1")

    async def test_they_last_for_a_time(self) -> None:
        clock = FakeClock()
        tombstones = Tombstones(WORKS, seconds=10, clock=clock)
        tombstones.add(kept("a"))
        await clock.advance(9)
        assert tombstones.get("c1", "a") is not None
        await clock.advance(1)
        assert tombstones.get("c1", "a") is None
        tombstones.add(kept("b"))
        assert len(tombstones) == 1

    async def test_they_are_of_one_cluster_and_can_be_taken_back(self) -> None:
        tombstones = Tombstones(WORKS, clock=FakeClock())
        tombstones.add(kept("a"))
        assert tombstones.get("c2", "a") is None
        tombstones.forget("a")
        tombstones.forget("never")
        assert tombstones.get("c1", "a") is None

    async def test_other_rows_count_by_resource_version(self) -> None:
        tombstones = Tombstones(CLUSTERS, clock=FakeClock())
        tombstones.add(kept("a", row=CLUSTERS))
        found = tombstones.get("w-a", "a")
        assert found is not None
        assert found.version == 5


class TestAnswers:
    def answer(self, uid: str, version: str, **metadata: Any) -> Object:
        return {"metadata": {"name": "w", "uid": uid, "resourceVersion": version, **metadata}, "spec": {"large": "x"}}

    async def test_an_answer_counts_until_the_source_has_seen_it(self) -> None:
        answers = WriteCache(clock=FakeClock())
        answers.record(self.answer("a", "6", annotations={"large": "x"}), conditions=[])
        head = answers.latest(kept("a", resourceVersion="5"))
        assert head == {"metadata": {"name": "w", "uid": "a", "resourceVersion": "6"}, "status": {"conditions": []}}
        assert answers.latest(kept("a", resourceVersion="6"))["metadata"]["name"] == "w-a"
        assert len(answers) == 0

    async def test_an_answer_that_the_source_never_tells_of_is_forgotten(self) -> None:
        clock = FakeClock()
        answers = WriteCache(most=2, clock=clock)
        for uid in ("a", "b", "c"):
            answers.record(self.answer(uid, "6"))
        assert len(answers) == 2
        await clock.advance(KEPT_SECONDS)
        assert answers.latest(kept("c"))["metadata"]["resourceVersion"] == "5"
        answers.record(self.answer("d", "6"))
        assert len(answers) == 1

    @given(st.text(max_size=5), st.text(max_size=5))
    def test_versions_that_are_no_numbers_are_never_older(self, one: str, other: str) -> None:
        older = is_older(one, other)
        assert not (older and is_older(other, one))
        if not (one.isascii() and one.isdecimal() and other.isascii() and other.isdecimal()):
            assert not older or (one.isdecimal() and other.isdecimal())


_json = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)
_objects = st.dictionaries(st.sampled_from(("spec", "status", "data", "kind", "x")), _json).flatmap(
    lambda whole: st.dictionaries(st.sampled_from(("name", "labels", "managedFields", "y")), _json).map(
        lambda metadata: {**whole, "metadata": metadata}
    )
)


class TestReduction:
    @given(_objects)
    def test_only_managed_fields_and_what_agents_report_are_cut_off(self, obj: Object) -> None:
        left = {**obj, "metadata": {name: value for name, value in obj["metadata"].items() if name != "managedFields"}}
        assert orjson.loads(reduction_of(CLUSTERS)(orjson.dumps(obj))) == left
        work = orjson.loads(reduction_of(WORKS)(orjson.dumps(obj)))
        assert {**work, "status": 0} == {**left, "status": 0} if "status" in left else work == left

    def test_of_a_works_status_the_order_of_reports_stays(self) -> None:
        ours = {"type": REPORTED, "reason": "Sequence:5"}
        work = {"metadata": {}, "status": {"conditions": [{"type": "Applied"}, ours], "resourceStatus": {"manifests": []}}}
        assert orjson.loads(reduction_of(WORKS)(orjson.dumps(work)))["status"] == {"conditions": [ours]}

    @pytest.mark.parametrize("status", [None, 5, {"conditions": 5}, {"conditions": [5]}, {"conditions": None}])
    def test_whatever_a_status_is_the_work_stays(self, status: Any) -> None:
        work = {"metadata": {"name": "w"}, "spec": {}, "status": status}
        assert orjson.loads(reduction_of(WORKS)(orjson.dumps(work))) == {**work, "status": {"conditions": []}}

    def test_what_has_no_metadata_is_left_to_whoever_reads_it(self) -> None:
        for row in (WORKS, CLUSTERS):
            assert reduction_of(row)(b'{"managedFields":1}') == b'{"managedFields":1}'


class TestKeptObjects:
    @given(st.lists(st.tuples(st.booleans(), st.sampled_from("abc"), st.sampled_from(("", "c1", "c2")))))
    def test_the_two_indexes_agree_whatever_comes_and_goes(self, steps: list[tuple[bool, str, str]]) -> None:
        objects = KeptObjects()
        model: dict[str, str] = {}
        for comes, uid, cluster in steps:
            objects.remove(uid)
            model.pop(uid, None)
            if comes:
                objects.put(kept(uid, cluster))
                if cluster:
                    model[uid] = cluster
            assert len(objects) == len(model)
            for cluster_name in ("c1", "c2", ""):
                expected = {one for one, owner in model.items() if owner == cluster_name}
                assert {one.uid for one in objects.of_cluster(cluster_name)} == expected
            for one in "abc":
                found = objects.get(one)
                assert (found.cluster if found else None) == model.get(one)
        assert not model or objects._by_cluster.keys() == set(model.values())

    def test_an_object_without_the_label_is_no_clusters(self) -> None:
        assert kept("a", row=SIGNING_REQUEST_ROW).cluster == ""
