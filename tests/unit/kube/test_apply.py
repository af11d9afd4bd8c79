from copy import deepcopy
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.kube.fieldmanager.apply import LAST_APPLIED, ApplyConflict, ApplyFailed, InvalidApply, apply
from muster.kube.fieldmanager.atoms import atom_of
from muster.kube.fieldmanager.fieldset import FieldSet, paths
from muster.kube.fieldmanager.managedfields import decode, only_times_differ, track
from muster.kube.fieldmanager.typed import compare
from muster.kube.schema_node import Schema
from tests.unit.kube.strategies import SCHEMA, gadget, gadgets, specs

VERSION = "example.com/v1"


class Store:
    """One object and its writers: what a server would keep."""

    def __init__(self, schema: Schema = SCHEMA) -> None:
        self.schema = schema
        self.live: dict[str, Any] | None = None
        self.second = 0

    def _now(self) -> str:
        self.second += 1
        return f"2024-01-01T00:{self.second // 60:02}:{self.second % 60:02}Z"

    def _keep(self, obj: dict[str, Any], managed: list[dict[str, Any]]) -> None:
        metadata = {key: value for key, value in obj["metadata"].items() if key != "managedFields"}
        self.live = {**obj, "metadata": {**metadata, "uid": "u", **({"managedFields": managed} if managed else {})}}

    def apply(self, manager: str, spec: Any, *, force: bool = False, metadata: Any = None, **options: Any) -> dict[str, Any]:
        config = gadget(spec)
        config["metadata"] |= metadata or {}
        made, managed = apply(
            self.live,
            config,
            self.schema,
            **{"manager": manager, "api_version": VERSION, "now": self._now(), "force": force, **options},
        )
        self._keep(made, managed)
        return self.spec

    def update(self, manager: str, spec: Any, *, metadata: Any = None, **options: Any) -> dict[str, Any]:
        new = deepcopy(self.live) if self.live else gadget({})
        new["spec"] = spec
        new["metadata"] |= metadata or {}
        managed = track(self.live, new, self.schema, **{"manager": manager, "api_version": VERSION, "now": self._now(), **options})
        self._keep(new, managed)
        return self.spec

    @property
    def spec(self) -> dict[str, Any]:
        assert self.live is not None
        found: dict[str, Any] = self.live.get("spec") or {}
        return found

    @property
    def entries(self) -> list[dict[str, Any]]:
        assert self.live is not None
        found: list[dict[str, Any]] = self.live["metadata"].get("managedFields", [])
        return found

    def owned(self, manager: str, operation: str) -> FieldSet:
        return next((e["fieldsV1"] for e in self.entries if (e["manager"], e["operation"]) == (manager, operation)), {})


def test_an_applier_owns_what_it_mentions_and_an_updater_what_it_changed() -> None:
    store = Store()
    store.apply("a", {"text": "1", "parts": {"a": "1"}})
    store.update("u", {"text": "1", "parts": {"a": "1", "b": "2"}, "labels": {"l": "1"}})
    assert store.owned("a", "Apply") == {"f:spec": {"f:parts": {"f:a": {}}, "f:text": {}}}
    assert store.owned("u", "Update") == {"f:spec": {"f:labels": {".": {}, "f:l": {}}, "f:parts": {"f:b": {}}}}


def test_entries_are_written_like_the_api_writes_them() -> None:
    store = Store()
    store.update("u", {"text": "1"})
    store.apply("b", {"parts": {"a": "1"}})
    store.apply("a", {"parts": {"a": "1"}}, subresource="status")
    assert orjson.dumps(store.entries).decode() == (
        '[{"manager":"a","operation":"Apply","apiVersion":"example.com/v1","fieldsType":"FieldsV1",'
        '"fieldsV1":{"f:spec":{"f:parts":{"f:a":{}}}},"subresource":"status"},'
        '{"manager":"b","operation":"Apply","apiVersion":"example.com/v1","time":"2024-01-01T00:00:02Z","fieldsType":"FieldsV1",'
        '"fieldsV1":{"f:spec":{"f:parts":{"f:a":{}}}}},'
        '{"manager":"u","operation":"Update","apiVersion":"example.com/v1","time":"2024-01-01T00:00:01Z","fieldsType":"FieldsV1",'
        '"fieldsV1":{"f:spec":{".":{},"f:text":{}}}}]'
    )


def test_taking_a_value_from_another_owner_is_a_conflict() -> None:
    store = Store()
    store.apply("a", {"text": "1"})
    before = deepcopy(store.live)
    with pytest.raises(ApplyConflict) as caught:
        store.apply("b", {"text": "2"})
    assert str(caught.value) == 'Apply failed with 1 conflict: conflict with "a": .spec.text'
    assert caught.value.causes == [('conflict with "a"', ".spec.text")]
    assert store.live == before


def test_several_conflicts_are_listed_by_manager() -> None:
    store = Store()
    store.apply("z", {"text": "1"})
    store.update("u", {"text": "1", "tags": ["w"], "parts": {"a": "1"}})
    store.update("u", {"text": "1", "tags": ["w"], "parts": {"a": "1"}, "labels": {"l": "1"}}, subresource="status")
    with pytest.raises(ApplyConflict) as caught:
        store.apply("b", {"text": "2", "parts": {"a": "2"}, "labels": {"l": "2"}})
    assert str(caught.value) == (
        'Apply failed with 3 conflicts: conflicts with "u" with subresource "status" using example.com/v1:\n- .spec.labels.l\n'
        'conflicts with "u" using example.com/v1:\n- .spec.parts.a\nconflicts with "z":\n- .spec.text'
    )


def test_force_takes_the_field_and_an_owner_of_nothing_vanishes() -> None:
    store = Store()
    store.apply("a", {"text": "1"})
    assert store.apply("b", {"text": "2"}, force=True) == {"text": "2"}
    assert store.owned("b", "Apply") == {"f:spec": {"f:text": {}}}
    assert [entry["manager"] for entry in store.entries] == ["b"]


def test_applying_the_same_value_shares_the_field_and_leaves_no_time() -> None:
    store = Store()
    store.apply("a", {"text": "1"})
    store.apply("b", {"text": "1"})
    assert store.owned("a", "Apply") == store.owned("b", "Apply") == {"f:spec": {"f:text": {}}}
    assert "time" not in next(entry for entry in store.entries if entry["manager"] == "b")


def test_an_applier_that_drops_a_field_removes_it_unless_someone_else_has_it() -> None:
    store = Store()
    store.apply("a", {"text": "1", "parts": {"a": "1", "b": "1"}, "tags": ["w", "x"]})
    store.apply("b", {"parts": {"b": "1"}, "tags": ["x"]})
    assert store.apply("a", {}) == {"parts": {"b": "1"}, "tags": ["x"]}
    assert store.owned("a", "Apply") == {"f:spec": {}}


def test_a_dropped_field_that_an_updater_changed_stays() -> None:
    store = Store()
    store.apply("a", {"text": "1", "labels": {"l": "1"}})
    store.update("u", {"text": "2", "labels": {"l": "1"}})
    assert store.apply("a", {"labels": {"l": "1"}}) == {"text": "2", "labels": {"l": "1"}}


def test_items_of_keyed_lists_merge_by_key_with_defaults_for_missing_ones() -> None:
    store = Store()
    store.update("u", {"items": [{"name": "p", "protocol": "TCP", "value": "1"}, {"name": "p", "protocol": "UDP"}]})
    assert store.apply("a", {"items": [{"name": "p", "parts": {"a": "1"}}]})["items"] == [
        {"name": "p", "protocol": "TCP", "value": "1", "parts": {"a": "1"}},
        {"name": "p", "protocol": "UDP"},
    ]


def test_an_object_nobody_tracked_belongs_to_before_first_apply() -> None:
    store = Store()
    store.live = gadget({"text": "1", "labels": {"l": "1"}})
    with pytest.raises(ApplyConflict) as caught:
        store.apply("a", {"text": "2"})
    assert str(caught.value).endswith('conflict with "before-first-apply" using example.com/v1: .spec.text')
    store.apply("a", {"text": "2"}, force=True)
    assert store.owned("before-first-apply", "Update") == {"f:spec": {".": {}, "f:labels": {".": {}, "f:l": {}}}}


def test_an_update_takes_changed_fields_from_everybody() -> None:
    store = Store()
    store.apply("a", {"text": "1", "tags": ["w"]})
    store.apply("b", {"text": "1"})
    store.update("u", {"text": "2", "tags": []})
    assert store.owned("b", "Apply") == {}
    assert store.owned("a", "Apply") == {}
    assert store.owned("u", "Update") == {"f:spec": {"f:text": {}}}


def test_an_update_that_changes_nothing_leaves_no_trace() -> None:
    store = Store()
    store.apply("a", {"text": "1"})
    before = deepcopy(store.entries)
    store.update("u", {"text": "1"})
    assert store.entries == before


def test_a_second_update_of_a_manager_adds_to_its_first() -> None:
    store = Store()
    store.update("u", {"text": "1"})
    store.update("u", {"text": "1", "labels": {"l": "1"}})
    assert store.owned("u", "Update") == {"f:spec": {".": {}, "f:labels": {".": {}, "f:l": {}}, "f:text": {}}}
    assert [entry["time"] for entry in store.entries] == ["2024-01-01T00:00:02Z"]


def test_updates_in_different_versions_are_different_entries_applies_are_not() -> None:
    store = Store()
    store.update("u", {"text": "1"})
    store.update("u", {"text": "1", "tags": ["w"]}, api_version="example.com/v2")
    store.apply("a", {"labels": {"l": "1"}})
    store.apply("a", {"labels": {"l": "1"}}, api_version="example.com/v2")
    assert [(entry["manager"], entry["apiVersion"]) for entry in store.entries] == [
        ("a", "example.com/v2"),
        ("u", "example.com/v1"),
        ("u", "example.com/v2"),
    ]


def test_an_owner_whose_version_is_gone_falls_out() -> None:
    store = Store()
    store.update("u", {"text": "1"}, api_version="example.com/v0")
    store.update("w", {"text": "2"}, convert=lambda obj, version: None if version.endswith("v0") else (obj, SCHEMA))
    assert [entry["manager"] for entry in store.entries] == ["w"]


def test_owners_of_another_version_see_the_change_through_conversion() -> None:
    renamed = Schema({"type": "object", "properties": {"spec": {"type": "object", "properties": {"word": {"type": "string"}}}}})

    def convert(obj: dict[str, Any], version: str) -> tuple[dict[str, Any], Schema]:
        spec = obj.get("spec", {})
        value = spec.get("text", spec.get("word"))
        old = version.endswith("v0")
        return {**obj, "apiVersion": version, "spec": {"word" if old else "text": value}}, renamed if old else SCHEMA

    store = Store()
    store.update("w", {"text": "1"})
    assert store.live is not None
    entry = store.entries[0]
    store.live["metadata"]["managedFields"] = [{**entry, "apiVersion": "example.com/v0", "fieldsV1": {"f:spec": {"f:word": {}}}}]
    with pytest.raises(ApplyConflict) as caught:
        store.apply("a", {"text": "2"}, convert=convert)
    assert caught.value.causes == [('conflict with "w" using example.com/v0', ".spec.word")]


def test_the_eleventh_updater_folds_the_oldest_into_ancient_changes() -> None:
    store = Store()
    names = [f"u{number:02}" for number in range(12)]
    for count in range(1, len(names) + 1):
        store.update(names[count - 1], {"labels": dict.fromkeys(names[:count], "1")})
    managers = [entry["manager"] for entry in store.entries]
    assert len(managers) == 10
    assert managers[0] == "ancient-changes"
    assert store.owned("ancient-changes", "Update")["f:spec"]["f:labels"] == {".": {}, "f:u00": {}, "f:u01": {}, "f:u02": {}}
    assert store.entries[0]["time"] == "2024-01-01T00:00:03Z"


@pytest.mark.parametrize("reset", [[], [{}]])
def test_an_empty_list_or_entry_resets_tracking(reset: list[Any]) -> None:
    store = Store()
    store.apply("a", {"text": "1"})
    store.update("u", {"text": "2"}, metadata={"managedFields": reset})
    assert store.entries == []
    store.update("u", {"text": "3"})
    assert store.entries == []


def test_explicit_entries_replace_the_stored_ones_except_through_a_subresource() -> None:
    store = Store()
    store.apply("a", {"text": "1"})
    mine = [{**store.entries[0], "manager": "b", "fieldsV1": {"f:spec": {"f:text": {}, "x:?": {}}}}]
    store.update("u", {"text": "1"}, metadata={"managedFields": mine}, subresource="status")
    assert store.owned("a", "Apply")
    store.update("u", {"text": "1"}, metadata={"managedFields": mine})
    assert [entry["manager"] for entry in store.entries] == ["b"]
    assert store.owned("b", "Apply") == {"f:spec": {"f:text": {}}}


@pytest.mark.parametrize("broken", [[{"manager": "x"}], [{"operation": "Apply", "apiVersion": "v1", "fieldsType": "V0"}], ["x"]])
def test_entries_that_make_no_sense_are_ignored(broken: list[Any]) -> None:
    store = Store()
    store.apply("a", {"text": "1"})
    store.update("u", {"text": "1"}, metadata={"managedFields": broken})
    assert store.owned("a", "Apply")


def test_reset_fields_are_never_owned() -> None:
    reset: FieldSet = {"f:spec": {"f:text": {}}}
    store = Store()
    store.update("u", {"text": "1", "tags": ["w"]}, reset=reset)
    store.apply("a", {"text": "1", "tags": ["w"]}, reset=reset)
    assert "f:text" not in store.owned("u", "Update")["f:spec"]
    assert store.owned("a", "Apply") == {"f:spec": {"f:tags": {'v:"w"': {}}}}


def test_creating_does_not_own_what_an_empty_object_has_already() -> None:
    new = gadget({"parts": {"a": "1"}, "labels": {"l": "1"}})
    (entry,) = track(
        None,
        new,
        SCHEMA,
        manager="u",
        api_version=VERSION,
        now="2024-01-01T00:00:00Z",
        empty={"metadata": {}, "spec": {"parts": {}}},
    )
    assert entry["fieldsV1"] == {"f:spec": {"f:labels": {".": {}, "f:l": {}}, "f:parts": {"f:a": {}}}}


def test_a_configuration_that_does_not_fit_is_refused_with_the_objects_name() -> None:
    store = Store()
    with pytest.raises(ApplyFailed) as caught:
        store.apply("a", {"nope": 1}, metadata={"namespace": "n"})
    assert str(caught.value) == (
        "failed to create typed patch object (n/g; example.com/v1, Kind=Gadget): .spec.nope: field not declared in schema"
    )


def test_a_configuration_must_not_bring_its_own_entries() -> None:
    with pytest.raises(InvalidApply, match=r"metadata\.managedFields must be nil"):
        Store().apply("a", {}, metadata={"managedFields": []})


def client_side_applied(spec: Any) -> Store:
    """A store whose object came from a client-side kubectl apply."""
    store = Store()
    recorded = orjson.dumps(gadget(spec)).decode()
    store.update("kubectl-client-side-apply", spec, metadata={"annotations": {LAST_APPLIED: recorded}})
    return store


def test_kubectl_may_take_what_it_applied_on_the_client_side() -> None:
    store = client_side_applied({"text": "1", "labels": {"l": "1"}})
    store.apply("kubectl", {"text": "2"})
    assert store.spec == {"text": "2", "labels": {"l": "1"}}
    with pytest.raises(ApplyConflict):
        client_side_applied({"text": "1"}).apply("other", {"text": "2"})


def test_kubectl_may_not_take_what_someone_changed_since() -> None:
    store = client_side_applied({"text": "1", "tags": ["w"], "parts": {"a": "1"}})
    store.update("u", {"text": "9", "tags": ["w"], "parts": {"a": "1"}})
    with pytest.raises(ApplyConflict) as caught:
        store.apply("kubectl", {"text": "2", "parts": {"a": "2"}})
    assert [path for _, path in caught.value.causes] == [".spec.text"]


def test_kubectl_keeps_the_annotation_up_to_date() -> None:
    store = client_side_applied({"text": "1"})
    store.apply("kubectl", {"text": "<2>"})
    assert store.live is not None
    assert store.live["metadata"]["annotations"][LAST_APPLIED] == (
        '{"apiVersion":"example.com/v1","kind":"Gadget","metadata":{"name":"g"},"spec":{"text":"\\u003c2\\u003e"}}\n'
    )


def test_a_write_that_only_moves_times_is_recognised() -> None:
    store = Store()
    store.apply("a", {"text": "1"})
    assert store.live is not None
    later = deepcopy(store.live)
    later["metadata"]["managedFields"][0]["time"] = "2025-01-01T00:00:00Z"
    assert only_times_differ(store.live, later)
    assert not only_times_differ(store.live, {**later, "spec": {}})


# Invariants under random histories -------------------------------------------------------------------------------------------

ATOM = atom_of(SCHEMA, root=True)
# Empty lists are left out: a map that holds nothing else goes when its applier leaves it, though the new configuration owns it (the
# real server does the same).
full_specs = specs.filter(lambda spec: [] not in spec.values())
writes = st.lists(st.tuples(st.sampled_from(["a", "b", "u", "v"]), full_specs, st.booleans()), max_size=8)


def existing(obj: dict[str, Any]) -> set[tuple[str, ...]]:
    """Every path there is in an object."""
    return set(paths(compare(ATOM, {}, obj).changed))


@settings(max_examples=60, deadline=None)
@given(writes)
def test_nobody_owns_what_is_not_there(history: list[tuple[str, dict[str, Any], bool]]) -> None:
    store = Store()
    for manager, spec, force in history:
        if manager in "ab":
            try:
                store.apply(manager, spec, force=force)
            except ApplyConflict:
                continue
        else:
            store.update(manager, spec)
        assert store.live is not None
        there = existing(store.live)
        for owner in decode(store.entries).values():
            assert owner.fields
            assert set(paths(owner.fields)) <= there


@settings(max_examples=60, deadline=None)
@given(gadgets, gadgets)
def test_applying_again_changes_nothing(first: dict[str, Any], second: dict[str, Any]) -> None:
    store = Store()
    store.update("u", first["spec"])
    store.apply("a", second["spec"], force=True)
    before = deepcopy(store.live)
    store.apply("a", second["spec"])
    assert store.live == before


@settings(max_examples=60, deadline=None)
@given(gadgets)
def test_applying_nothing_takes_back_all_that_was_applied(config: dict[str, Any]) -> None:
    store = Store()
    store.apply("a", config["spec"])
    store.apply("a", {})
    assert not any(store.spec.values())
