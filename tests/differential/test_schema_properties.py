"""The schema engine against a real kube-apiserver on random schemas and values: same verdict, same words, same stored object.

One definition carries sixty random schemas as fields of `spec`, so that a run costs one definition and some hundred dry runs.
Set MUSTER_SCHEMA_SEEDS to try more seeds.
"""

import copy
import os
import time
from collections.abc import Iterator
from typing import Any

import pytest

from muster.kube.fielderrors import FieldError
from muster.kube.schema_node import Schema
from muster.kube.structural_schema.defaulting import default
from muster.kube.structural_schema.embedded import check_embedded, coerce
from muster.kube.structural_schema.listtypes import duplicates
from muster.kube.structural_schema.prune import prune
from muster.kube.structural_schema.validation import validate
from tests.differential.random_schemas import Generator
from tests.support.client import Client, Reply
from tests.support.planes import ControlPlane

pytestmark = pytest.mark.kube

SEEDS = range(int(os.environ.get("MUSTER_SCHEMA_SEEDS", "2")))
GROUP = "random-schemas.example.com"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
THINGS = f"/apis/{GROUP}/v1/things"
ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def definition(spec: dict[str, Any]) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"spec": spec}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"things.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Cluster",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }


def thing(name: str, spec: Any) -> dict[str, Any]:
    return {"apiVersion": f"{GROUP}/v1", "kind": "Thing", "metadata": {"name": name}, "spec": spec}


def until(client: Client, path: str, status: int) -> None:
    deadline = time.monotonic() + 30
    while client.get(path).status != status:
        assert time.monotonic() < deadline, f"{path} never answered {status}"
        time.sleep(0.05)


@pytest.fixture
def client(kube_plane: ControlPlane) -> Iterator[Client]:
    client = kube_plane.client("admin")
    yield client
    client.delete(f"{CRDS}/things.{GROUP}")
    until(client, f"{CRDS}/things.{GROUP}", 404)


def said(reply: Reply) -> list[tuple[str, str, str]]:
    causes = reply.json["details"]["causes"] if reply.status == 422 else []
    return sorted((cause["reason"], cause["field"], cause["message"]) for cause in causes)


def ours(errors: list[FieldError]) -> list[tuple[str, str, str]]:
    return sorted((error.reason, error.field, error.body) for error in errors)


def received(obj: dict[str, Any], schema: Schema) -> dict[str, Any]:
    seen = copy.deepcopy(obj)
    prune(seen, schema)
    coerce(seen, schema)
    default(seen, schema)
    return seen


@pytest.mark.parametrize("seed", SEEDS)
def test_new_objects_get_the_same_verdict(client: Client, seed: int) -> None:
    draw = Generator(seed)
    fields = draw.fields(60)
    spec = {"type": "object", "properties": fields}
    client.post(CRDS, definition(spec)).expect(201)
    until(client, THINGS, 200)
    schema = Schema({"type": "object", "properties": {"spec": spec}})
    for name, node in fields.items():
        for _ in range(8):
            obj = thing("a", {name: draw.fitting(node)})
            reply = client.post(THINGS, obj, query={"dryRun": "All"})
            seen = received(obj, schema)
            verdict = ours(validate(seen, schema) + check_embedded(seen, schema) + duplicates(seen, schema))
            assert said(reply) == verdict, (node, obj["spec"])
            if reply.status == 201:
                assert reply.json["spec"] == seen["spec"], (node, obj["spec"])


@pytest.mark.parametrize("seed", SEEDS)
def test_updates_are_spared_the_same_way(client: Client, seed: int) -> None:
    draw = Generator(1000 + seed)
    fields = draw.fields(60, defaults=False)
    client.post(CRDS, definition(ANYTHING)).expect(201)
    until(client, THINGS, 200)
    for name, node in fields.items():
        client.post(THINGS, thing(name, {name: draw.fitting(node)})).expect(201)
    spec = {"type": "object", "properties": fields}
    current = client.get(f"{CRDS}/things.{GROUP}").json
    client.put(f"{CRDS}/things.{GROUP}", {**current, "spec": definition(spec)["spec"]}).expect(200)
    time.sleep(3)
    schema = Schema({"type": "object", "properties": {"spec": spec}})
    for name, node in fields.items():
        old = client.get(f"{THINGS}/{name}").json
        for _ in range(6):
            new = copy.deepcopy(old)
            if name in new["spec"] and draw.random.random() < 0.7:
                new["spec"][name] = draw.changed(new["spec"][name], node)
            if draw.random.random() < 0.5:
                other = draw.random.choice(list(fields))
                new["spec"][other] = draw.fitting(fields[other])
            reply = client.put(f"{THINGS}/{name}", new, query={"dryRun": "All"})
            seen = received(new, schema)
            errors = validate(seen, schema, old)
            if not duplicates(old, schema):
                errors += duplicates(seen, schema)
            assert said(reply) == ours(errors), (node, old["spec"], new["spec"])
