"""The same random writes sent to the embedded server and to the real one: the same answers, step by step.

`test_patch_properties` compares the functions; this compares the whole way of a write through the server: decoding, defaults,
endpoints, validation, ownership. A sequence ends at its first difference, because from there on the two objects are not the same.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

import orjson
import pytest

from tests.conftest import BothPlanes
from tests.differential.random_kinds import KINDS, Kind, Object, merged
from tests.differential.random_writes import Write, random_write
from tests.differential.test_patch_properties import content, lines, prepare, send, timeless
from tests.support.client import APPLY_PATCH, MERGE_PATCH, Client, Reply

pytestmark = pytest.mark.kube

NAMESPACE = "patches-both"
OBJECTS = 10
WRITES = 20
_OWN = ("uid", "creationTimestamp", "resourceVersion", "generation")
_NULLED = re.compile(r'must be of type \w+: \\*"null')
_VOLATILE = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}|\d{4}-\d\d-\d\dT[\d:]+Z|resourceVersion:\d+")


def answer(reply: Reply) -> dict[str, Any]:
    """What of an answer must be the same on both."""
    body = reply.json
    if body.get("kind") == "Status":
        answered = {"code": reply.status, "reason": body.get("reason")}
        if body.get("reason") == "Invalid":
            return answered  # What validation says is compared where validation is tested.
        causes = (body.get("details") or {}).get("causes", [])
        return {
            **answered,
            "message": lines(_stable(body.get("message", ""))),
            "causes": sorted((cause.get("reason", ""), cause.get("field", ""), cause.get("message", "")) for cause in causes),
        }
    metadata = {key: value for key, value in content(body)["metadata"].items() if key not in _OWN}
    owned = timeless(body["metadata"].get("managedFields"))
    return {"code": reply.status, "object": {**content(body), "metadata": metadata}, "managedFields": owned}


def _stable(message: str) -> str:
    return _VOLATILE.sub("#", message)


def translated(write: Write, live: Object) -> Write:
    """A PUT for the other server: its own identity of the object."""
    if write.content_type:
        return write
    own = {key: live["metadata"][key] for key in _OWN if key in live["metadata"]}
    return Write("", {**write.body, "metadata": {**write.body["metadata"], **own}}, write.manager, version=write.version)


def first_difference(kube: Client, ours: Client, kind: Kind, seed: str, namespace: str, writes: int) -> str | None:
    rng = Random(seed)
    collection = kind.collection.format(namespace=namespace)
    name = f"b-{seed}".lower()
    path = f"{collection}/{name}"
    first = merged(merged(kind.identity(name), kind.base(rng)), kind.config(rng))
    write = Write(APPLY_PATCH, first, "m1", force=True) if rng.random() < 0.5 else None
    replies = [
        send(client, path, write) if write else client.post(collection, first, query={"fieldManager": "m1"})
        for client in (kube, ours)
    ]
    step = -1
    try:
        while True:
            theirs, mine = map(answer, replies)
            if theirs != mine:
                if theirs["code"] == 422 and mine["code"] == 200 and _NULLED.search(replies[0].text):
                    return None  # An emptied container of a custom resource becomes null there, and so invalid; ours drops it.
                return _report(seed, step, write, theirs, mine)
            if replies[0].status < 300:
                live, own = replies[0].json, replies[1].json
            elif step < 0:
                return None
            step += 1
            if step == writes:
                return None
            write = random_write(rng, kind, live)
            if write.subresource:
                write.body["metadata"].pop("labels", None)
                write = replace(write, manager="m1")
            replies = [send(kube, path, write), send(ours, path, translated(write, own))]
    finally:
        for client in (kube, ours):
            client.request("PATCH", path, {"metadata": {"finalizers": None}}, content_type=MERGE_PATCH)
            client.delete(path)


def _report(seed: str, step: int, write: Write | None, theirs: Object, ours: Object) -> str:
    parts = [f"{seed} step {step}: {write}"]
    for key in theirs | ours:
        if theirs.get(key) != ours.get(key):
            parts += [f" {key}", *_narrowed(theirs.get(key), ours.get(key))]
    return "\n".join(parts)


def _narrowed(theirs: Any, ours: Any, path: str = "") -> Iterator[str]:
    if isinstance(theirs, dict) and isinstance(ours, dict):
        for key in theirs | ours:
            if theirs.get(key) != ours.get(key):
                yield from _narrowed(theirs.get(key), ours.get(key), f"{path}.{key}")
    elif isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
        for index, (one, other) in enumerate(zip(theirs, ours, strict=True)):
            if one != other:
                yield from _narrowed(one, other, f"{path}[{index}]")
    else:
        for who, value in (("theirs", theirs), ("ours", ours)):
            yield f"  {path} {who} {orjson.dumps(value, default=str).decode()}"


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_the_embedded_server_answers_random_writes_like_the_real_one(both_planes: BothPlanes, kind: Kind) -> None:
    kube, ours = both_planes.kube.cluster.client(), both_planes.embedded.cluster.client()
    for client in (kube, ours):
        prepare(client, NAMESPACE)
    found = [first_difference(kube, ours, kind, f"{kind.name}-{number}", NAMESPACE, WRITES) for number in range(OBJECTS)]
    differences = [text for text in found if text is not None]
    assert not differences, f"{len(differences)} of {OBJECTS} histories differ, the first:\n" + "\n\n".join(differences[:3])
