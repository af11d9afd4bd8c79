"""The other verbs: patches of every kind, apply, delete, and reads of something large in every form."""

from __future__ import annotations

from typing import Any

from tests.fuzz.cost.case import (
    DRY,
    HEAD_LIMIT,
    HOLE,
    Asked,
    Case,
    around,
    filled,
    in_list,
    in_map,
    meta,
    names,
    namespaced,
    posted,
    repeated,
)
from tests.fuzz.cost.things import GROUP, THINGS, thing
from tests.support.client import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, Client

MAPS = namespaced("/api/v1", "configmaps")
PODS = namespaced("/api/v1", "pods")
DEPLOYMENTS = namespaced("/apis/apps/v1", "deployments")
_STORED = 1 << 20
"""What a ConfigMap may hold."""
_TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
_PARTIAL = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"


def pair(number: int) -> bytes:
    return b'"k%d":"v"' % number


def _small(client: Client, size: int) -> None:
    client.post(MAPS, {"metadata": {"name": "small"}, "data": {"k": "v"}}).expect(201, 409)


def _deployed(client: Client, size: int) -> None:
    containers = [{"name": "main", "image": "i", "ports": [{"containerPort": 80}]}]
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": containers}}
    spec = {"replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    client.post(DEPLOYMENTS, {"metadata": {"name": "small"}, "spec": spec}).expect(201, 409)


def _large(client: Client, size: int) -> None:
    """A Thing of the size itself."""
    client.delete(f"{THINGS}/grown")
    body = thing({"texts": HOLE}, in_list(filled(names("t"), min(size, _STORED))))
    client.post(THINGS, body, content_type="application/json").expect(201)


def _gone(client: Client) -> None:
    client.delete(f"{THINGS}/grown")


def _patch(name: str, path: str, media: str, document: Any, grow: Any, before: Any = _small, **query: str) -> Case:
    return Case(name, lambda size: Asked("PATCH", path, around(document, grow(size)), media, {**DRY, **query}), before=before)


def _operations(piece: bytes) -> Any:
    """No more than the ten thousand a JSON patch may have, however large."""
    return lambda size: Asked(
        "PATCH", f"{MAPS}/small", in_list(repeated(piece, min(size, 9_900 * (len(piece) + 1)))), JSON_PATCH, DRY
    )


PATCHES: list[Case] = [
    _patch("merge patch of many keys", f"{MAPS}/small", MERGE_PATCH, {"data": HOLE}, lambda s: in_map(filled(pair, s))),
    _patch(
        "merge patch that removes many keys",
        f"{MAPS}/small",
        MERGE_PATCH,
        {"data": HOLE},
        lambda s: in_map(filled(lambda n: b'"k%d":null' % n, s)),
    ),
    _patch("strategic patch of many keys", f"{MAPS}/small", STRATEGIC_PATCH, {"data": HOLE}, lambda s: in_map(filled(pair, s))),
    _patch("server-side apply of many keys", f"{MAPS}/small", APPLY_PATCH,
           {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "small"}, "data": HOLE},
           lambda s: in_map(filled(pair, s)), fieldManager="m", force="true"),
    _patch("server-side apply of many unknown fields", f"{MAPS}/small", APPLY_PATCH,
           {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "small"}, "unknown": HOLE},
           lambda s: in_map(filled(pair, s)), fieldManager="m"),
    _patch("server-side apply of wrong values", f"{MAPS}/small", APPLY_PATCH,
           {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "small"}, "data": HOLE},
           lambda s: in_map(filled(lambda n: b'"k%d":{}' % n, s)), fieldManager="m"),
    _patch("server-side apply of containers with the same name", f"{DEPLOYMENTS}/small", APPLY_PATCH,
           {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "small"},
            "spec": {"template": {"spec": {"containers": HOLE}}}},
           lambda s: in_list(repeated(b'{"name":"c"}', s)), _deployed, fieldManager="m"),
    _patch("strategic patch of many containers", f"{DEPLOYMENTS}/small", STRATEGIC_PATCH,
           {"spec": {"template": {"spec": {"containers": HOLE}}}},
           lambda s: in_list(filled(lambda n: b'{"name":"c%d","image":"i"}' % n, s)), _deployed),
    _patch("strategic patch that deletes many containers", f"{DEPLOYMENTS}/small", STRATEGIC_PATCH,
           {"spec": {"template": {"spec": {"containers": HOLE}}}},
           lambda s: in_list(filled(lambda n: b'{"name":"c%d","$patch":"delete"}' % n, s)), _deployed),
    _patch("strategic patch with a long order", f"{DEPLOYMENTS}/small", STRATEGIC_PATCH,
           {"spec": {"template": {"spec": {"$setElementOrder/containers": HOLE, "containers": [{"name": "main"}]}}}},
           lambda s: in_list(filled(lambda n: b'{"name":"c%d"}' % n, s)), _deployed),
    _patch("strategic patch with containers in a long order", f"{DEPLOYMENTS}/small", STRATEGIC_PATCH,
           {"spec": {"template": {"spec": HOLE}}},
           lambda s: b'{"$setElementOrder/containers":%b,"containers":%b}'
           % (in_list(filled(lambda n: b'{"name":"c%d"}' % n, s // 2)),
              in_list(filled(lambda n: b'{"name":"c%d"}' % n, s // 2))), _deployed),
    _patch("strategic patch that deletes many finalizers", f"{MAPS}/small", STRATEGIC_PATCH,
           {"metadata": {"$deleteFromPrimitiveList/finalizers": HOLE}}, lambda s: in_list(filled(names("f"), s))),
    _patch("strategic patch of many finalizers", f"{MAPS}/small", STRATEGIC_PATCH,
           {"metadata": {"finalizers": HOLE}}, lambda s: in_list(filled(names("example.com/f"), s))),
    _patch("strategic patch that retains many keys", f"{DEPLOYMENTS}/small", STRATEGIC_PATCH,
           {"spec": {"strategy": {"$retainKeys": HOLE}}}, lambda s: in_list(filled(names("k"), s)), _deployed),
    Case("JSON patch of many additions to a map", lambda s: Asked(
        "PATCH", f"{MAPS}/small",
        in_list(filled(lambda n: b'{"op":"add","path":"/data/k%d","value":"v"}' % n, min(s, 9_900 * 45))), JSON_PATCH, DRY),
        before=_small),
    Case("JSON patch of many tests", _operations(b'{"op":"test","path":"/data/k","value":"v"}'), before=_small),
    Case("JSON patch of many copies", _operations(b'{"op":"copy","from":"/data/k","path":"/data/l"}'), before=_small),
    Case("JSON patch of many moves", _operations(b'{"op":"move","from":"/data","path":"/data"}'), before=_small),
    Case("JSON patch that prepends to a list", _operations(b'{"op":"add","path":"/metadata/finalizers/0","value":"a/b"}'),
         before=lambda client, size: client.post(MAPS, {"metadata": {"name": "small", "finalizers": ["a/b"]}}).expect(201, 409)),
    Case("JSON patch with one long path", lambda s: Asked(
        "PATCH", f"{MAPS}/small", b'[{"op":"add","path":"' + b"/a" * (s // 2 - 100) + b'","value":1}]', JSON_PATCH, DRY),
        before=_small),
    _patch("merge patch of a custom resource", f"{THINGS}/grown", MERGE_PATCH, {"spec": {"free": HOLE}},
           lambda s: in_map(filled(pair, s)), lambda client, size: _large(client, 4096)),
    _patch("server-side apply of a custom resource", f"{THINGS}/applied", APPLY_PATCH,
           {"apiVersion": f"{GROUP}/v1", "kind": "Thing", "metadata": {"name": "applied"}, "spec": {"list": HOLE}},
           lambda s: in_list(filled(lambda n: b'{"name":"n%d","v":"x"}' % n, s)), fieldManager="m", force="true"),
]  # fmt: skip

READS: list[Case] = [
    Case("a large object", lambda s: Asked("GET", f"{THINGS}/grown"), _STORED, before=_large, after=_gone),
    Case("a large object as YAML", lambda s: Asked("GET", f"{THINGS}/grown", accept="application/yaml"), _STORED,
         before=_large, after=_gone),
    Case("a large object as a Table", lambda s: Asked("GET", f"{THINGS}/grown", accept=_TABLE), _STORED,
         before=_large, after=_gone),
    Case("a large object's metadata", lambda s: Asked("GET", f"{THINGS}/grown", accept=_PARTIAL), _STORED,
         before=_large, after=_gone),
    Case("a list of a large object as YAML", lambda s: Asked("GET", THINGS, accept="application/yaml"), _STORED,
         before=_large, after=_gone),
    Case("a list of a large object, pretty", lambda s: Asked("GET", THINGS, query={"pretty": "true"}), _STORED,
         before=_large, after=_gone),
    Case("a small patch of a large object", lambda s: Asked("PATCH", f"{THINGS}/grown", b'{"spec":{"text":"x"}}', MERGE_PATCH),
         _STORED, before=_large, after=_gone),
    Case("a small change of a large object's status", lambda s: Asked(
        "PATCH", f"{THINGS}/grown/status", b'{"status":{"a":"b"}}', MERGE_PATCH), _STORED, before=_large, after=_gone),
    Case("deletion of a large object", lambda s: Asked("DELETE", f"{THINGS}/grown"), _STORED, before=_large),
    Case("deletion with large options", lambda s: Asked(
        "DELETE", f"{MAPS}/nothing", b'{"dryRun":' + in_list(repeated(b'"All"', s)) + b"}")),
    Case("deletion of all with large options", lambda s: Asked(
        "DELETE", MAPS, b'{"dryRun":["All"],"unknown":' + in_list(repeated(b'"All"', s)) + b"}")),
    Case("a list by a selector of many labels", lambda s: Asked(
        "GET", MAPS, query={"labelSelector": ",".join(f"k{n}!=v" for n in range(s // 10))}), HEAD_LIMIT),
    Case("a list by a selector of many values", lambda s: Asked(
        "GET", MAPS, query={"labelSelector": f"a in ({','.join(f'v{n}' for n in range(s // 10))})"}), HEAD_LIMIT),
    Case("a list by a selector of nothing but brackets", lambda s: Asked(
        "GET", MAPS, query={"labelSelector": "(" * (s // 4)}), HEAD_LIMIT),
    Case("a list by many fields", lambda s: Asked(
        "GET", MAPS, query={"fieldSelector": ",".join(f"metadata.name!=v{n}" for n in range(s // 24))}), HEAD_LIMIT),
    Case("a list by a selector of backslashes", lambda s: Asked(
        "GET", MAPS, query={"fieldSelector": "metadata.name=" + "\\" * (s // 4)}), HEAD_LIMIT),
    Case("a list from a long continue token", lambda s: Asked("GET", MAPS, query={"continue": "A" * (s - 400)}), HEAD_LIMIT),
    Case("a write with many dry runs", lambda s: Asked(
        "POST", MAPS, b'{"metadata":{"name":"x"}}', query={"dryRun": ["x"] * (s // 10)}), HEAD_LIMIT),
    Case("a write with many parameters", lambda s: Asked(
        "POST", MAPS, b'{"metadata":{"name":"x"}}', query={**DRY, **{f"k{n}": "v" for n in range(s // 10)}}), HEAD_LIMIT),
    Case("a head that accepts a lot", lambda s: Asked(
        "GET", MAPS, accept=", ".join(f"a/b{n};q=0.{n % 10}" for n in range(s // 16))), HEAD_LIMIT),
    Case("a head that accepts many tables", lambda s: Asked(
        "GET", MAPS, accept=",".join(["application/json;as=Nothing;v=v1;g=x"] * (s // 40))), HEAD_LIMIT),
    Case("a path of many segments", lambda s: Asked("GET", "/api/v1" + "/a" * (s // 2 - 100)), HEAD_LIMIT),
    Case("a path of escapes", lambda s: Asked("GET", f"{MAPS}/" + "%41" * (s // 3 - 100)), HEAD_LIMIT),
    Case("a name of one kind of letter", lambda s: Asked("GET", f"{MAPS}/" + "a-" * (s // 2 - 100)), HEAD_LIMIT),
    Case("a long token", lambda s: Asked("GET", MAPS, headers={"Authorization": "Bearer " + "a." * (s // 2 - 200)}), HEAD_LIMIT),
    Case("impersonation with long extras", lambda s: Asked(
        "GET", MAPS, headers={"Impersonate-User": "x", "Impersonate-Extra-" + "%41" * 1000: "v" * (s - 5000)}), HEAD_LIMIT),
    Case("a long manager", lambda s: Asked("POST", MAPS, b'{"metadata":{"name":"x"}}',
                                           headers={"User-Agent": "\u00e4" * (s // 3)}), HEAD_LIMIT,
         after=lambda client: client.delete(f"{MAPS}/x")),
]  # fmt: skip

_METADATA: dict[str, Any] = {
    "labels": lambda s: in_map(filled(lambda n: b'"k%d":"v"' % n, s)),
    "wrong labels": lambda s: in_map(filled(lambda n: b'"-%d":"-"' % n, s)),
    "annotations": lambda s: in_map(filled(lambda n: b'"k%d":"v"' % n, s)),
    "wrong annotations": lambda s: in_map(filled(lambda n: b'"-%d":"v"' % n, s)),
    "finalizers": lambda s: in_list(filled(names("a/f"), s)),
    "wrong finalizers": lambda s: in_list(repeated(b'""', s)),
    "ownerReferences": lambda s: in_list(repeated(b"{}", s)),
    "managedFields": lambda s: in_list(repeated(b"{}", s)),
    "name": lambda s: b'"' + b"a-" * (s // 2 - 2000) + b'"',
    "odd name": lambda s: b'"' + "\u00e4\\u0001".encode() * (s // 9) + b'"',
    "generateName": lambda s: b'"' + b"a" * (s - 4000) + b'"',
    "unknown": lambda s: in_map(filled(pair, s)),
}
METADATA: list[Case] = [
    Case(
        f"metadata with many or long {field}",
        posted(MAPS, {"metadata": {**({} if "ame" in field else meta()), field.rpartition(" ")[2]: HOLE}}, grow),
    )
    for field, grow in _METADATA.items()
] + [
    Case("data with many keys", posted(MAPS, {"metadata": meta(), "data": HOLE}, lambda s: in_map(filled(pair, s)))),
    Case("data with the same key again and again", posted(
        MAPS, {"metadata": meta(), "data": HOLE}, lambda s: in_map(repeated(b'"k":"v"', s)))),
    Case("unknown fields at the top", posted(MAPS, {"metadata": meta(), "x": HOLE}, lambda s: in_list(repeated(b"{}", s)))),
    Case("many unknown fields, strictly", lambda s: Asked(
        "POST", MAPS, b'{"metadata":{"name":"x"},' + filled(pair, s) + b"}", query={**DRY, "fieldValidation": "Strict"})),
    Case("a body that ends too early", lambda s: Asked("POST", MAPS, b'{"a":' + in_list(repeated(b"1", s))[:-1], query=DRY)),
    Case("a body of escapes", posted(
        MAPS, {"metadata": meta(), "data": {"k": HOLE}}, lambda s: b'"' + b"\\u0041" * (s // 7) + b'"')),
    Case("a body of one long number", posted(MAPS, {"metadata": meta(), "data": HOLE}, lambda s: b"1" * (s - 2000))),
    Case("a body of white space", lambda s: Asked("POST", MAPS, b'{"metadata":{"name":"x"}}' + b" " * (s - 100), query=DRY)),
    Case("quantities", posted(
        namespaced("/api/v1", "resourcequotas"), {"metadata": meta(), "spec": {"hard": HOLE}},
        lambda s: in_map(filled(lambda n: b'"requests.example.com/r%d":"%dMi"' % (n, n), s)))),
    Case("one long quantity", posted(
        namespaced("/api/v1", "resourcequotas"), {"metadata": meta(), "spec": {"hard": {"pods": HOLE}}},
        lambda s: b'"' + b"1" * (s - 2000) + b'"')),
    Case("a quantity with a long exponent", posted(
        namespaced("/api/v1", "resourcequotas"), {"metadata": meta(), "spec": {"hard": {"pods": HOLE}}},
        lambda s: b'"1e' + b"9" * min(9, s // 1000) + b'"')),
    Case("a long time", posted(
        namespaced("/apis/coordination.k8s.io/v1", "leases"), {"metadata": meta(), "spec": {"renewTime": HOLE}},
        lambda s: b'"2026-11-15T10:00:00.' + b"1" * (s - 2000) + b'Z"')),
    Case("a long schedule", posted(
        namespaced("/apis/batch/v1", "cronjobs"),
        {"metadata": meta(), "spec": {"schedule": HOLE, "jobTemplate": {"spec": {"template": {"spec": {
            "restartPolicy": "Never", "containers": [{"name": "m", "image": "i"}]}}}}}},
        lambda s: b'"' + b"1," * (s // 2 - 2000) + b'1 * * * *"')),
]  # fmt: skip
