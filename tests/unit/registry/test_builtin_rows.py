"""The rows of the built-in resources and the generated data they are made from."""

from __future__ import annotations

import gzip
import hashlib
from pathlib import Path

import pytest
from tools.builtin_data.served import GROUP_VERSIONS, KUBERNETES, STAGING

from muster.apiserver.builtin.resources import builtin_resources
from muster.apiserver.decode.layouts import definition_of, layout
from muster.apiserver.registry import builtin_types
from muster.apiserver.registry.resource import ServedResource
from muster.kube.schema_node import Schema

DATA = Path(builtin_types.__file__).parent / "data"


def row(api_version: str, plural: str) -> ServedResource:
    return next(r for r in builtin_resources() if (r.api_version, r.plural) == (api_version, plural))


def test_the_data_files_are_what_the_generator_wrote() -> None:
    manifest = builtin_types.manifest()
    assert (manifest["kubernetes"], manifest["staging"]) == (KUBERNETES, STAGING)
    found = {path.name: hashlib.sha256(gzip.decompress(path.read_bytes())).hexdigest() for path in DATA.glob("*.gz")}
    assert found == manifest["files"]


def test_every_served_group_version_has_rows() -> None:
    assert {(r.group, r.version) for r in builtin_resources()} == set(GROUP_VERSIONS)


def test_rows_are_made_once() -> None:
    assert builtin_resources() is builtin_resources()


@pytest.mark.parametrize("resource", builtin_resources(), ids=lambda r: f"{r.plural}.{r.version}.{r.group}")
def test_a_row_names_its_type_and_can_be_printed(resource: ServedResource) -> None:
    definition = definition_of(resource.group, resource.version, resource.kind)
    assert resource.schema.name == definition
    assert resource.columns
    assert all(column.render is not None for column in resource.columns)
    assert set(resource.verbs) <= {"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}


def test_struct_layouts_and_openapi_agree_on_every_field() -> None:
    definitions = builtin_types.definitions()
    for name in builtin_types.struct_layouts()["types"]:
        if name in definitions:
            assert set(layout(name).json_fields) == set(definitions[name].properties), name


def test_references_in_the_schemas_resolve() -> None:
    definitions = builtin_types.definitions()
    for name in definitions.raw:
        for child in definitions[name].properties.values():
            assert isinstance(child, Schema)
            if child.items is not None:
                assert isinstance(child.items, Schema)


def test_schemas_carry_what_patches_need() -> None:
    containers = row("v1", "pods").schema.properties["spec"].properties["containers"]
    assert containers.patch_merge_key == "name"
    assert containers.patch_strategies == ("merge",)
    assert containers.list_map_keys == ("name",)


def test_generated_data_holds_facts_and_no_prose() -> None:
    for name in ("schemas", "columns"):
        assert b'"description":"' not in gzip.decompress((DATA / f"{name}.json.gz").read_bytes())


def test_deployments_are_as_discovery_says() -> None:
    deployments = row("apps/v1", "deployments")
    assert deployments.short_names == ("deploy",)
    assert deployments.categories == ("all",)
    assert set(deployments.subresources) == {"scale", "status"}
    assert (deployments.subresources["scale"].group, deployments.subresources["scale"].kind) == ("autoscaling", "Scale")
    assert not deployments.subresources["scale"].storage
    assert deployments.scale is not None
    assert deployments.tracks_generation


def test_pods_have_the_subresources_of_the_real_server_but_its_relay() -> None:
    kubelets = {"attach", "exec", "log", "portforward"}
    assert set(row("v1", "pods").subresources) == {"binding", "ephemeralcontainers", "eviction", "resize", "status"} | kubelets


def test_the_two_event_groups_share_their_storage() -> None:
    core, newer = row("v1", "events"), row("events.k8s.io/v1", "events")
    assert core.storage == newer.storage == "/events"
    assert newer.storage_version == "v1"
    assert not newer.strategy.is_shown_as_stored
    assert core.strategy.is_shown_as_stored


def test_review_kinds_can_only_be_created() -> None:
    assert row("authentication.k8s.io/v1", "tokenreviews").verbs == ("create",)


@pytest.mark.parametrize(
    ("api_version", "plural", "needs", "creates"),
    [("coordination.k8s.io/v1", "leases", True, True), ("v1", "configmaps", False, False), ("v1", "services", False, True)],
)
def test_put_rules_follow_the_real_servers_strategies(api_version: str, plural: str, needs: bool, creates: bool) -> None:
    resource = row(api_version, plural)
    assert (resource.needs_resource_version, resource.create_on_update) == (needs, creates)


def test_field_selectors_read_their_values() -> None:
    pods = row("v1", "pods").selectable
    assert pods["spec.hostNetwork"]({"spec": {}}) == "false"
    assert pods["spec.nodeName"]({"spec": {"nodeName": "n"}}) == "n"
    assert pods["status.podIPs"]({"status": {"podIPs": [{"ip": "a"}, {"ip": "b"}]}}) == "a,b"
    assert row("v1", "nodes").selectable["spec.unschedulable"]({"spec": {}}) == "false"
    assert row("batch/v1", "jobs").selectable["status.successful"]({"status": {"succeeded": 2}}) == "2"
    assert row("v1", "events").selectable["source"]({"reportingComponent": "x"}) == "x"
    assert row("v1", "replicationcontrollers").selectable["status.replicas"]({}) == "0"
