"""Rows and versions made from definitions: what is shared, what is pruned, defaulted, validated and shown."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from muster.apiserver.crd.compiled import CustomStrategy, compile_definition, compiled_schema
from muster.apiserver.decode.errors import DecodeError
from muster.apiserver.registry.resource import Scale, ServedResource

STRING = {"type": "string"}


def schema(spec: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, **more}}}


def version(name: str = "v1", spec: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    spec = spec or {"type": "object", "properties": {"a": STRING}}
    return {"name": name, "served": True, "storage": name == "v1", "schema": schema(spec), **more}


def definition(*versions: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "things.x.io"},
        "spec": {
            "group": "x.io",
            "scope": "Namespaced",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList", "shortNames": ["t"]},
            "versions": list(versions) or [version()],
            "conversion": {"strategy": "None"},
            **spec,
        },
    }


def only(body: dict[str, Any]) -> tuple[ServedResource, CustomStrategy]:
    (row,) = compile_definition(body)
    assert isinstance(row.strategy, CustomStrategy)
    return row, row.strategy


def thing(spec: Any, **more: Any) -> dict[str, Any]:
    return {"apiVersion": "x.io/v1", "kind": "Thing", "metadata": {"name": "a"}, "spec": spec, **more}


def test_a_row_says_what_the_definition_says() -> None:
    row, _ = only(
        definition(
            version(
                subresources={"status": {}, "scale": {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"}},
                selectableFields=[{"jsonPath": ".spec.a"}],
            )
        )
    )
    assert (row.api_version, row.plural, row.kind, row.list_kind, row.short_names) == (
        "x.io/v1",
        "things",
        "Thing",
        "ThingList",
        ("t",),
    )
    assert row.needs_resource_version
    assert row.tracks_generation
    assert set(row.subresources) == {"status", "scale"}
    assert row.scale == Scale(".spec.n", ".status.n", "")
    assert row.selectable["spec.a"](thing({"a": "x"})) == "x"
    assert row.selectable["spec.a"](thing({})) == ""


def test_only_served_versions_get_a_row_and_all_share_the_storage_version() -> None:
    rows = compile_definition(definition(version(), version("v2"), version("v3", served=False)))
    assert [row.version for row in rows] == ["v1", "v2"]
    assert {row.storage_version for row in rows} == {"x.io/v1"}


def test_equal_schemas_are_compiled_once() -> None:
    assert compiled_schema(version()["schema"]["openAPIV3Schema"]) is compiled_schema(version("v2")["schema"]["openAPIV3Schema"])


def test_equal_definitions_share_their_rows_whatever_cluster_they_are_in() -> None:
    mine, yours = {**definition(), "metadata": {"uid": "1"}}, {**definition(), "metadata": {"uid": "2"}}
    assert compile_definition(mine)[0] is compile_definition(yours)[0]
    assert compile_definition(mine)[0] is not compile_definition(definition(scope="Cluster"))[0]


def test_metadata_is_typed_for_patches_and_apply() -> None:
    row, _ = only(definition())
    assert row.schema.properties["metadata"].properties["ownerReferences"].list_map_keys == ("uid",)


def test_pruning_names_metadata_first_then_fields_then_embedded_metadata() -> None:
    embedded = {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True}
    _, custom = only(definition(version(spec={"type": "object", "properties": {"t": embedded}})))
    obj = thing({"t": {"apiVersion": "v1", "kind": "Pod", "metadata": {"odd": 1}}, "b": 1})
    obj["metadata"]["strange"] = 1
    assert custom.prune(obj) == ["metadata.strange", "spec.b", "spec.t.metadata.odd"]


@pytest.mark.parametrize(
    ("metadata", "text"),
    [
        ({"labels": "x"}, "json: cannot unmarshal string into Go struct field ObjectMeta.labels of type map[string]string"),
        ({"name": 1}, "json: cannot unmarshal number into Go struct field ObjectMeta.name of type string"),
    ],
)
def test_malformed_metadata_cannot_be_decoded(metadata: dict[str, Any], text: str) -> None:
    _, custom = only(definition())
    with pytest.raises(DecodeError) as refusal:
        custom.prune(thing({}, metadata=metadata))
    assert str(refusal.value) == text


def test_rules_wait_until_the_object_has_the_right_shape() -> None:
    spec = {"type": "object", "properties": {"n": {"type": "integer"}}, "x-kubernetes-validations": [{"rule": "self.n > 1"}]}
    _, custom = only(definition(version(spec=spec)))
    assert [str(error) for error in custom.check(thing({"n": 1}), None)] == ["spec: Invalid value: failed rule: self.n > 1"]
    broken = [str(error) for error in custom.check(thing({"n": "x"}), None)]
    assert broken == [
        'spec.n: Invalid value: "string": spec.n in body must be of type integer: "string"',
        "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; "
        "correct the existing errors to complete validation",
    ]


def test_a_status_write_is_judged_by_the_status_alone() -> None:
    body = definition(version(subresources={"status": {}}))
    properties = body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    properties["status"] = {"type": "object", "properties": {"n": {"type": "integer"}}}
    _, custom = only(body)
    bad = thing({"a": 1}, status={"n": "x"})
    errors = custom.check(bad, thing({"a": 1}), "status")
    assert [str(error) for error in errors] == ['status.n: Invalid value: "string": n in body must be of type integer: "string"']


def test_replica_counts_are_checked_where_the_definition_says() -> None:
    scale = {"scale": {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n", "labelSelectorPath": ".status.s"}}
    body = definition(version(spec={"type": "object", "x-kubernetes-preserve-unknown-fields": True}, subresources=scale))
    _, custom = only(body)
    obj = thing({"n": -1}, status={"n": "x", "s": 1})
    assert [str(error) for error in custom.check(obj, None)] == [
        ".spec.n: Invalid value: -1: should be a non-negative integer",
        ".status.n: Invalid value: 0: .status.n accessor error: x is of the type string, expected int64",
        '.status.s: Invalid value: "": .status.s accessor error: 1 is of the type int64, expected string',
    ]


def test_stored_objects_show_todays_defaults_in_the_version_asked_for() -> None:
    first = {"type": "object", "properties": {"a": {"type": "string", "default": "one"}, "b": STRING}}
    second = {"type": "object", "properties": {"a": STRING, "c": {"type": "string", "default": "two"}}}
    rows = compile_definition(definition(version(spec=first), version("v2", spec=second)))
    stored = orjson.dumps(thing({"b": "x", "gone": 1}))
    shown = [orjson.loads(row.strategy.present(stored) or b"") for row in rows]
    assert [(obj["apiVersion"], obj["spec"]) for obj in shown] == [("x.io/v1", {"b": "x", "a": "one"}), ("x.io/v2", {"a": "one"})]


async def test_writing_in_another_version_stores_the_storage_version() -> None:
    _, second = compile_definition(definition(version(), version("v2")))
    stored = await second.strategy.to_storage({**thing({"a": "x"}), "apiVersion": "x.io/v2"})
    assert (stored["apiVersion"], stored["spec"]) == ("x.io/v1", {"a": "x"})


def test_columns_are_name_and_age_unless_declared() -> None:
    row, _ = only(definition())
    assert [(column.name, column.type) for column in row.columns] == [("Name", "string"), ("Age", "date")]
    declared = [{"name": "A", "type": "string", "jsonPath": ".spec.a"}, {"name": "N", "type": "integer", "jsonPath": ".spec.n"}]
    row, _ = only(definition(version(additionalPrinterColumns=declared)))
    cells = [column.render(thing({"a": ["x", {"y": 1}], "n": 2.0})) for column in row.columns if column.render]
    assert cells == ["a", '["x",{"y":1}]', 2]
    assert [column.render(thing({"n": "text"})) for column in row.columns[1:] if column.render] == [None, None]


def test_a_deprecated_version_names_a_better_one() -> None:
    first, second = compile_definition(definition(version("v1beta1", deprecated=True, storage=True), version("v2", storage=False)))
    assert first.deprecation == "x.io/v1beta1 Thing is deprecated; use x.io/v2 Thing"
    assert second.deprecation == ""
    (alone,) = compile_definition(definition(version(deprecated=True, deprecationWarning="soon gone")))
    assert alone.deprecation == "soon gone"


def test_new_finalizers_without_a_domain_are_warned_about() -> None:
    _, custom = only(definition())
    new, old = thing({}), thing({})
    new["metadata"]["finalizers"] = ["plain", "a.b", "x.io/y", "orphan", "old"]
    old["metadata"]["finalizers"] = ["old"]
    warnings: list[str] = []
    assert custom.check(new, old, warn=warnings.append) == []
    assert warnings == [
        'metadata.finalizers: "a.b": prefer a domain-qualified finalizer name including a path (/) to avoid accidental '
        "conflicts with other finalizer writers",
        'metadata.finalizers: "plain": prefer a domain-qualified finalizer name to avoid accidental conflicts with other '
        "finalizer writers",
    ]
