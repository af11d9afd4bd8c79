"""Patch and apply, computed here and by the real server: the same object, the same ownership, the same refusal.

Sequences of random writes by several managers go to the real server; after each one, our functions are given the object it was
before and must come to what the server answered. Each step starts from the server's own state, so one difference is one failure.
"""

import time
from collections.abc import Iterator
from copy import deepcopy
from random import Random
from typing import Any

import orjson
import pytest

from muster.apiserver.builtin.resources import builtin_resources
from muster.apiserver.decode import strict
from muster.apiserver.registry.resource import ServedResource
from muster.kube.fieldmanager.apply import ApplyConflict, ApplyFailed, apply
from muster.kube.fieldmanager.fieldset import FieldSet
from muster.kube.fieldmanager.managedfields import track
from muster.kube.patching.jsonpatch import PatchError, apply_json_patch
from muster.kube.patching.mergepatch import apply_merge_patch
from muster.kube.patching.strategic import StrategicPatchError, apply_strategic_merge
from muster.kube.schema_node import Schema
from muster.kube.structural_schema.defaulting import default as default_by_schema
from muster.kube.structural_schema.prune import prune
from tests.differential.random_kinds import CRD_SCHEMA, KINDS, Kind, Object, crd, merged
from tests.differential.random_writes import Write, random_write
from tests.support.client import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, Client, Reply
from tests.support.planes import ControlPlane

pytestmark = pytest.mark.kube

NAMESPACE = "patches-random"
OBJECTS = 12
WRITES = 25
_RESET: FieldSet = {"f:status": {}}
_STATUS_RESET: dict[str, FieldSet] = {"Deployment": {"f:spec": {}, "f:metadata": {"f:labels": {}}}}
_CUSTOM = Schema(CRD_SCHEMA)


class Disagreement(Exception):
    """Ours and the server's answer differ."""


class Model:
    """What our functions make of a write to one kind."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.resource: ServedResource | None = None
        if not kind.custom:
            group, _, version = kind.api_version.rpartition("/")
            self.resource = next(r for r in builtin_resources() if (r.group, r.version, r.kind) == (group, version, kind.name))
        self.schema = self.resource.schema if self.resource else _CUSTOM
        self.reset = _RESET if kind.custom or kind.name in ("Deployment", "Service") else None
        self.empty = self.finish({}, defaults=False) if self.resource else None

    def finish(self, obj: Object, defaults: bool = True) -> Object:
        """The way of every object after patching: normal form and defaults."""
        obj = deepcopy(obj)
        if self.resource is None:
            prune(obj, self.schema)
            default_by_schema(obj, self.schema)
            obj["metadata"] = {key: value for key, value in obj["metadata"].items() if value not in ({}, [], None)}
            return obj
        obj, _ = strict.decode_typed(obj, self.schema)
        if defaults:
            self.resource.strategy.default(obj)
        return obj

    def convert(self, obj: Object, version: str) -> tuple[Object, Schema] | None:
        if version != self.kind.api_version and version not in self.kind.versions:
            return None
        return {**obj, "apiVersion": version}, self.schema

    def reset_fields(self, subresource: str) -> FieldSet | None:
        if subresource == "status":
            return {"f:spec": {}} if self.kind.custom else _STATUS_RESET[self.kind.name]
        return self.reset

    def ownership(self, live: Object | None, new: Object, write: Write, now: str) -> list[Object]:
        return track(
            live,
            new,
            self.schema,
            manager=write.manager,
            api_version=write.version or self.kind.api_version,
            now=now,
            subresource=write.subresource,
            reset=self.reset_fields(write.subresource),
            empty=self.empty,
            convert=self.convert,
        )

    def apply(self, live: Object | None, write: Write, now: str) -> tuple[Object, list[Object]]:
        return apply(
            live,
            write.body,
            self.schema,
            manager=write.manager,
            api_version=write.version or self.kind.api_version,
            now=now,
            force=write.force,
            subresource=write.subresource,
            reset=self.reset_fields(write.subresource),
            empty=self.empty,
            convert=self.convert,
        )

    def patched(self, live: Object, write: Write) -> Object:
        if write.content_type == JSON_PATCH:
            return apply_json_patch(live, write.body)
        if write.content_type == MERGE_PATCH:
            return apply_merge_patch(live, write.body)
        if write.content_type:
            return apply_strategic_merge(live, write.body, self.schema)
        return write.body


def content(obj: Object) -> Object:
    """An object without what only the server writes."""
    metadata = {k: v for k, v in obj["metadata"].items() if k not in ("managedFields", "resourceVersion", "generation")}
    return {**obj, "metadata": {key: value for key, value in metadata.items() if value}}


def timeless(entries: list[Object] | None) -> list[Object]:
    without = [{key: value for key, value in entry.items() if key != "time"} for entry in entries or []]
    return sorted(without, key=lambda entry: [entry.get(key, "") for key in ("operation", "manager", "apiVersion", "subresource")])


def same(ours: Any, theirs: Any, what: str) -> None:
    if ours != theirs:
        if isinstance(ours, list) and isinstance(theirs, list):
            ours, theirs = [item for item in ours if item not in theirs], [item for item in theirs if item not in ours]
        raise Disagreement(f"{what}\n ours   {_shown(ours)}\n theirs {_shown(theirs)}")


def latest(reply: Reply) -> str:
    """The server's time of the write; ten managers are told apart by it, to the second."""
    entries = (reply.json.get("metadata") or {}).get("managedFields") or []
    return max((entry["time"] for entry in entries if "time" in entry), default="2030-01-01T00:00:00Z")


def lines(message: str) -> list[str]:
    """Several problems are listed in the order of a Go map, which has none."""
    return sorted(message.splitlines())


def _shown(value: Any) -> str:
    return (value if isinstance(value, bytes) else orjson.dumps(value)).decode()


def _has_duplicates(obj: Object) -> bool:
    lists = (obj["metadata"].get("finalizers", []), (obj.get("spec") or {}).get("tags") or [])
    return any(len(set(items)) < len(items) for items in lists)


def endpoint_view(live: Object, new: Object, write: Write, kind: Kind) -> Object:
    """What an endpoint lets through: the status endpoint the status (and some metadata), the main one everything else."""
    if kind.status is None:
        return new
    if write.subresource == "status":
        kept = {key: value for key, value in live.items() if key != "status"}
        if not kind.custom:
            kept["metadata"] = {**new["metadata"], "labels": live["metadata"].get("labels")}
        return {**kept, "apiVersion": new["apiVersion"], **({"status": new["status"]} if "status" in new else {})}
    return {**{k: v for k, v in new.items() if k != "status"}, **({"status": live["status"]} if "status" in live else {})}


def check_write(model: Model, live: Object, write: Write, reply: Reply) -> None:
    """Compares our answer to a write with the server's."""
    before = deepcopy(live)
    try:
        if write.content_type == APPLY_PATCH:
            new, managed = model.apply(live, write, latest(reply))
        else:
            new = model.patched(live, write)
    except ApplyConflict as conflict:
        same({"code": 409, "message": str(conflict), "causes": sorted(conflict.causes)}, _conflict(reply), "conflict")
        return
    except ApplyFailed as problem:
        same([500, *lines(str(problem))], [reply.status, *lines(reply.json.get("message", ""))], "refusal")
        return
    except PatchError:
        same(422, reply.status, "refused JSON patch")
        return
    except StrategicPatchError as problem:
        same(problem.code, reply.status, f"refused strategic patch: {problem}: {reply.text}")
        if problem.code == 500:
            same(str(problem), reply.json["message"], "refusal")
        return
    finally:
        same(live, before, "the live object was changed")
    if reply.status == 422 or (reply.status == 400 and write.content_type != APPLY_PATCH):
        return  # The result is not a valid object; that is not for patching to decide.
    if reply.status != 200:
        raise Disagreement(f"ours applies, theirs answers {reply.status}: {reply.text}")
    theirs, finished = reply.json, model.finish(new)
    same(content(endpoint_view(live, finished, write, model.kind)), content(theirs), "object")
    if write.content_type != APPLY_PATCH:
        # Ownership is booked before the endpoint restores what it does not let through.
        seen = {**finished, "metadata": {key: value for key, value in finished["metadata"].items() if key != "managedFields"}}
        sent = new["metadata"].get("managedFields")
        if sent is not None and not (model.kind.custom and sent == []):  # Custom resources drop an empty list on decoding.
            seen["metadata"]["managedFields"] = sent
        managed = model.ownership(live, seen, write, latest(reply))
    ours, owned = timeless(managed), timeless(theirs["metadata"].get("managedFields"))
    if model.kind.custom and not owned and _has_duplicates(finished):
        return  # Converting such an object for owners of another version fails there, and tracking is given up; ours goes on.
    same(ours, owned, "managedFields")
    if not model.kind.custom:
        same(orjson.dumps(ours), orjson.dumps(owned), "order within managedFields")


def _conflict(reply: Reply) -> Object:
    body = reply.json
    causes = sorted((cause["message"], cause["field"]) for cause in body.get("details", {}).get("causes", []))
    return {"code": reply.status, "message": body.get("message"), "causes": causes}


def send(client: Client, path: str, write: Write) -> Reply:
    query = {"fieldManager": write.manager}
    if write.version:
        path = path.replace("/v1/", f"/{write.version.rpartition('/')[2]}/")
    if write.subresource:
        path += f"/{write.subresource}"
    if write.content_type == APPLY_PATCH:
        query["force"] = str(write.force).lower()
    if write.content_type:
        return client.request("PATCH", path, write.body, query=query, content_type=write.content_type)
    return client.put(path, write.body, query=query)


def sequence(client: Client, kind: Kind, seed: str, namespace: str, writes: int) -> Iterator[str]:
    """Runs one object's life; yields a description of every disagreement."""
    rng = Random(seed)
    model = Model(kind)
    collection = kind.collection.format(namespace=namespace)
    name = f"o-{seed}".lower()
    first = merged(merged(kind.identity(name), kind.base(rng)), kind.config(rng))
    if rng.random() < 0.5:
        write = Write(APPLY_PATCH, first, "m1", force=True)
        reply = send(client, f"{collection}/{name}", write)
        ours = model.apply(None, write, latest(reply))[1] if reply.status == 201 else []
    else:
        reply = client.post(collection, first, query={"fieldManager": "m1"})
        ours = model.ownership(None, _untracked(reply.json), Write("", first, "m1"), latest(reply)) if reply.status == 201 else []
    if reply.status != 201:
        return
    live = reply.json
    if timeless(ours) != timeless(live["metadata"].get("managedFields")):
        yield f"{seed} create: {orjson.dumps(first).decode()}\n ours   {ours}\n theirs {live['metadata'].get('managedFields')}"
    for step in range(writes):
        write = random_write(rng, kind, live)
        live = {**live, "apiVersion": write.version or kind.api_version}
        reply = send(client, f"{collection}/{name}", write)
        try:
            check_write(model, live, write, reply)
        except Disagreement as difference:
            yield f"{seed} step {step}: {write}\n live   {orjson.dumps(live).decode()}\n {difference}"
        if reply.status == 200:
            live = reply.json
    client.request("PATCH", f"{collection}/{name}", {"metadata": {"finalizers": None}}, content_type=MERGE_PATCH)
    client.delete(f"{collection}/{name}")


def _untracked(obj: Object) -> Object:
    return {**obj, "metadata": {key: value for key, value in obj["metadata"].items() if key != "managedFields"}}


def prepare(client: Client, namespace: str) -> None:
    client.post("/api/v1/namespaces", {"metadata": {"name": namespace}}).expect(201, 409)
    client.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd()).expect(201, 409)
    gadgets = KINDS[-1].collection.format(namespace=namespace)
    deadline = time.monotonic() + 20
    while client.get(gadgets).status != 200:
        assert time.monotonic() < deadline, "the custom resource is not served"
        time.sleep(0.1)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_random_writes_come_to_what_the_real_server_makes_of_them(kube_plane: ControlPlane, kind: Kind) -> None:
    client = kube_plane.cluster.client()
    prepare(client, NAMESPACE)
    differences = [text for number in range(OBJECTS) for text in sequence(client, kind, f"{kind.name}-{number}", NAMESPACE, WRITES)]
    assert not differences, f"{len(differences)} differences, the first:\n" + "\n\n".join(differences[:3])
