"""Makes hostile requests: every built-in kind and a custom one, in JSON, YAML and protobuf, patched, selected, damaged.

Objects go to a handful of names in one namespace, so that requests meet what earlier ones left behind and the store stays small.
Configuration that would make the server call others (webhooks, API services, policies, definitions) is only ever dry-run.
"""

from __future__ import annotations

import base64
import gzip
import json
import random
import urllib.parse
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from muster.apiserver.builtin.resources import builtin_resources
from tests.fuzz.seeds import SEEDS
from tests.fuzz.values import KEYS, ODD_STRINGS, damaged, damaged_bytes, odd_value

NAMESPACE = "fuzz"
NAMES = [f"f{number}" for number in range(6)]
CORPUS = Path(__file__).parents[1] / "unit/decode/data/corpus.jsonl.gz"
CALLS_OTHERS = {
    "mutatingwebhookconfigurations",
    "validatingwebhookconfigurations",
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
    "mutatingadmissionpolicies",
    "mutatingadmissionpolicybindings",
    "apiservices",
    "customresourcedefinitions",
    "namespaces",
}
DEFINITION: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "things.fuzz.example.com"},
    "spec": {
        "group": "fuzz.example.com",
        "scope": "Namespaced",
        "names": {"plural": "things", "kind": "Thing", "categories": ["all"]},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.n"}},
                "additionalPrinterColumns": [{"name": "Size", "type": "string", "jsonPath": ".spec.list[*].name"}],
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "x-kubernetes-validations": [
                                    {"rule": "!has(self.a) || !has(self.b) || self.a.size() < self.b"},
                                    {"rule": "!has(oldSelf.a) || has(self.a)", "message": "a stays"},
                                ],
                                "properties": {
                                    "a": {"type": "string", "pattern": "^(a+)+$", "maxLength": 100},
                                    "b": {"type": "integer", "minimum": 0, "maximum": 10**6, "default": 3},
                                    "replicas": {"type": "integer", "format": "int32"},
                                    "port": {"x-kubernetes-int-or-string": True},
                                    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                                    "when": {"type": "string", "format": "date-time"},
                                    "map": {"type": "object", "maxProperties": 9, "additionalProperties": {"type": "string"}},
                                    "list": {
                                        "type": "array",
                                        "maxItems": 50,
                                        "x-kubernetes-list-type": "map",
                                        "x-kubernetes-list-map-keys": ["name"],
                                        "items": {
                                            "type": "object",
                                            "required": ["name"],
                                            "properties": {
                                                "name": {"type": "string", "maxLength": 20},
                                                "v": {"type": "number", "nullable": True},
                                            },
                                        },
                                    },
                                    "template": {
                                        "type": "object",
                                        "x-kubernetes-embedded-resource": True,
                                        "x-kubernetes-preserve-unknown-fields": True,
                                    },
                                },
                            },
                            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                        },
                    }
                },
            }
        ],
    },
}
THING: dict[str, Any] = {
    "apiVersion": "fuzz.example.com/v1",
    "kind": "Thing",
    "metadata": {"name": "f0", "labels": {"a": "b"}, "finalizers": []},
    "spec": {
        "a": "aaa",
        "b": 9,
        "replicas": 2,
        "port": "http",
        "free": {"x": [1, {"y": None}]},
        "when": "2026-11-15T10:00:00Z",
        "map": {"k": "v"},
        "list": [{"name": "one", "v": 1.5}, {"name": "two"}],
        "template": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}},
    },
    "status": {"n": 1},
}
PATCHES = {
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "json": "application/json-patch+json",
    "apply": "application/apply-patch+yaml",
    "apply-cbor": "application/apply-patch+cbor",
}
ACCEPTS = [
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf, application/json",
    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
    "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    "application/json;as=APIGroupDiscoveryList;v=v2;g=apidiscovery.k8s.io,application/json",
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
    "*/*",
    "text/*;q=0.1",
    ";;;,,=",
    "application/json;as=Table;v=v9;g=nope",
    "",
]
PATHS = [
    "/api",
    "/apis",
    "/api/v1",
    "/apis/apps/v1",
    "/apis/nope/v1",
    "/openapi/v2",
    "/openapi/v3",
    "/openapi/v3/apis/apps/v1",
    "/version",
    "/healthz",
    "/readyz/nope",
    "/livez",
    "/metrics",
    "/",
    "/.well-known/openid-configuration",
    "/openid/v1/jwks",
    "/clusters/nope/api",
    "/clusters/",
    "/api/v1/namespaces/fuzz/pods/f0/log",
    "/api/v1/namespaces/fuzz/pods/f0/exec",
    "/api/v1/namespaces/fuzz/services/f0:http/proxy/x/y",
    "/api/v1/nodes/f0/proxy/metrics",
    "/api/v1/watch/pods",
    "/api/v1//pods",
    "/api/v1/namespaces//pods",
    "/api/v1/namespaces/fuzz/pods/%2e%2e",
    "/api/v1/namespaces/fuzz/configmaps/%00",
    "/apis/fuzz.example.com/v1/namespaces/fuzz/things/f0/scale",
    "*",
    "http://example.com/api",
    "//api/v1",
    "/api/v1/../v1/pods",
    "/logs",
    "/debug/pprof",
]
HEADERS: list[tuple[str, list[str]]] = [
    ("Impersonate-User", ["alice", "system:anonymous", "", "system:serviceaccount:fuzz:default", "ü"]),
    ("Impersonate-Group", ["system:masters", ""]),
    ("Impersonate-Uid", ["1"]),
    ("Impersonate-Extra-scopes", ["a", "%41"]),
    ("Impersonate-Extra-%zz", ["a"]),
    ("X-Remote-User", ["admin"]),
    ("X-Remote-Group", ["system:masters"]),
    ("If-Match", ["*", '"1"']),
    ("If-None-Match", ["*", '"x"', "W/"]),
    ("Accept-Encoding", ["gzip", "br", "identity;q=0", "gzip;q=nope"]),
    ("Content-Encoding", ["gzip", "deflate"]),
    ("Expect", ["100-continue", "nope"]),
    ("Range", ["bytes=0-1", "bytes=9-"]),
    ("User-Agent", ["", "x" * 2000, "kubectl/v9"]),
    ("Cookie", ["a=b"]),
    ("Origin", ["http://evil.example"]),
    ("Upgrade", ["websocket", "SPDY/3.1", "h2c"]),
    ("X-Forwarded-For", ["1.2.3.4", "nope"]),
    ("Connection", ["upgrade", "keep-alive, x"]),
    ("Audit-ID", ["a", "x" * 300]),
]
TOKENS = ["alice-static-token", "nope", "", "eyJhbGciOiJub25lIn0.e30.", "a.b.c", "abcdef.0123456789abcdef", "\xff\xfe", "x" * 5000]
BOOLEANS = ["true", "false", "1", "0", "", "maybe"]
INTEGERS = ["0", "1", "2", "-1", "500", "", "x", "9" * 30, "1e3", "٣", "9" * 5000]
VERSIONS = ["0", "1", "2", "", "-1", "x", "3", "٣", "9" * 5000]
CONTINUES = [
    "x",
    "e30",
    base64.urlsafe_b64encode(b'{"v":"meta.k8s.io/v1","rv":1,"start":"f\\u0000"}').decode(),
    base64.urlsafe_b64encode(b'{"v":"meta.k8s.io/v1","rv":-1,"start":"../x"}').decode(),
    base64.urlsafe_b64encode(b'{"v":"meta.k8s.io/v1","rv":"x","start":[]}').decode(),
    base64.urlsafe_b64encode(b"[" * 9000).decode(),
]
QUERIES: list[tuple[str, list[str]]] = [
    (
        "labelSelector",
        ["a=b", "a in (b,c),!d", "a>1", "a<x", "a notin", "(", "a=" + "b" * 300, ",".join(f"k{i}=v" for i in range(300))],
    ),
    (
        "fieldSelector",
        ["metadata.name=f0", "spec.x=1", "metadata.name!=f0,metadata.namespace=fuzz", "=", "status.phase=Running", "a\\"],
    ),
    ("limit", INTEGERS),
    ("continue", CONTINUES),
    ("resourceVersion", VERSIONS),
    ("resourceVersionMatch", ["Exact", "NotOlderThan", "nope", ""]),
    ("sendInitialEvents", BOOLEANS),
    ("allowWatchBookmarks", BOOLEANS),
    ("timeoutSeconds", ["1", "x", "-1"]),
    ("timeout", ["1s", "x", "-1s", "1h"]),
    ("pretty", BOOLEANS),
    ("dryRun", ["All", "all", ""]),
    ("fieldManager", ["a", "", "b" * 200, "\x07", "ü"]),
    ("fieldValidation", ["Strict", "Warn", "Ignore", "nope", ""]),
    ("force", BOOLEANS),
    ("gracePeriodSeconds", INTEGERS),
    ("propagationPolicy", ["Orphan", "Foreground", "Background", "nope", ""]),
    ("orphanDependents", BOOLEANS),
    ("includeObject", ["None", "Metadata", "Object", "nope"]),
    ("exclude", ["ping", "nope"]),
    ("verbose", [""]),
    ("command", ["sh"]),
    ("container", ["c"]),
]


@dataclass
class Shot:
    """One hostile request. `raw`, where set, is sent as it stands instead of a well-formed head."""

    method: str = "GET"
    target: str = "/"
    headers: list[tuple[str, str]] = field(default_factory=list)
    body: bytes = b""
    raw: bytes = b""

    @property
    def is_watch(self) -> bool:
        return "watch=" in self.target

    def wire(self) -> bytes:
        if self.raw:
            return self.raw
        lines = [f"{self.method} {self.target} HTTP/1.1", "Host: 127.0.0.1"]
        lines += [f"{name}: {value}" for name, value in self.headers]
        if self.body or self.method in ("POST", "PUT", "PATCH"):
            lines.append(f"Content-Length: {len(self.body)}")
        return ("\r\n".join(lines) + "\r\n\r\n").encode("utf-8", "surrogateescape") + self.body

    def describe(self) -> str:
        return self.wire()[:3000].decode("utf-8", "backslashreplace")


@dataclass(frozen=True)
class Place:
    """Where a kind lives, with samples of it."""

    prefix: str
    plural: str
    namespaced: bool
    subresources: tuple[str, ...]
    samples: list[tuple[dict[str, Any], bytes]]

    def collection(self, namespace: str = NAMESPACE) -> str:
        return f"{self.prefix}/namespaces/{namespace}/{self.plural}" if self.namespaced else f"{self.prefix}/{self.plural}"


def places() -> list[Place]:
    samples: dict[str, list[tuple[dict[str, Any], bytes]]] = {}
    with gzip.open(CORPUS, "rt", encoding="utf-8") as lines:
        for line in lines:
            sample = json.loads(line)
            samples.setdefault(sample["gvk"], []).append((sample["json"], base64.b64decode(sample["pb"])))
    found = []
    for row in builtin_resources():
        prefix = f"/apis/{row.group}/{row.version}" if row.group else f"/api/{row.version}"
        kind = samples.get(f"{row.group}/{row.version}/{row.kind}", [])
        found.append(Place(prefix, row.plural, row.namespaced, tuple(row.subresources), kind))
    thing = Place("/apis/fuzz.example.com/v1", "things", True, ("status", "scale"), [(THING, b"k8s\x00")])
    return found + [thing] * 8


def deep_json(rng: random.Random) -> bytes:
    """Nesting beyond what recursive readers bear."""
    depth = rng.choice((600, 1100, 5000, 50_000))
    inner = b"[" * depth + b"]" * depth if rng.random() < 0.5 else b'{"a":' * depth + b"1" + b"}" * depth
    return b'{"metadata":{"name":"f0"},"data":%b}' % inner


class Generator:
    def __init__(self, seed: int, prefix: str = "") -> None:
        self.rng = random.Random(seed)
        self.prefix = prefix
        self.places = places()
        self._makers: list[tuple[int, Callable[[], Shot]]] = [
            (28, self._write),
            (28, self._patch),
            (12, self._read),
            (8, self._delete),
            (6, self._other_path),
            (4, self._raw),
        ]
        self._weights = [weight for weight, _ in self._makers]

    def shot(self) -> Shot:
        (maker,) = self.rng.choices([make for _, make in self._makers], self._weights)
        shot = maker()
        shot.target = self.prefix + shot.target if shot.target.startswith("/") else shot.target
        return shot

    def _headers(self, content_type: str | None = None) -> list[tuple[str, str]]:
        rng = self.rng
        token = "admin-static-token" if rng.random() < 0.93 else rng.choice(TOKENS)
        headers = [("Authorization", f"Bearer {token}")]
        headers.append(("Accept", rng.choice(ACCEPTS) if rng.random() < 0.15 else "application/json"))
        if content_type is not None:
            if rng.random() < 0.03:
                content_type = rng.choice(["", "text/plain", "application/x", content_type + ";charset=utf-7", "application/cbor"])
            headers.append(("Content-Type", content_type))
        if rng.random() < 0.1:
            name, values = rng.choice(HEADERS)
            headers.append((name, rng.choice(values)))
        return headers

    def _query(self, **fixed: str) -> str:
        rng = self.rng
        pairs = list(fixed.items())
        for _ in range(rng.choice((0, 0, 0, 1, 1, 2, 4))):
            name, values = rng.choice(QUERIES)
            pairs.append((name, rng.choice(values) if rng.random() < 0.85 else rng.choice(ODD_STRINGS)))
        text = urllib.parse.urlencode(pairs, errors="replace")
        if text and rng.random() < 0.02:
            text = damaged_bytes(rng, text.encode()).decode("latin-1")
            text = "".join(char for char in text if "!" <= char <= "~")
        return f"?{text}" if text else ""

    def _dry(self, place: Place) -> dict[str, str]:
        return {"dryRun": "All"} if place.plural in CALLS_OTHERS else {}

    def _name(self) -> str:
        rng = self.rng
        return rng.choice(NAMES) if rng.random() < 0.95 else urllib.parse.quote(rng.choice(ODD_STRINGS), safe="")

    def _object(self, place: Place) -> tuple[dict[str, Any], bytes]:
        rng = self.rng
        if not place.samples:
            return {"metadata": {"name": rng.choice(NAMES)}}, b"k8s\x00"
        obj, packed = rng.choice(place.samples)
        seeds = SEEDS.get(place.plural)
        if seeds and rng.random() < 0.7:
            obj = rng.choice(seeds)
        if place.plural in ("mutatingwebhookconfigurations", "customresourcedefinitions") and rng.random() < 0.5:
            obj = DEFINITION if place.plural == "customresourcedefinitions" else obj
        metadata = {**obj.get("metadata", {}), "name": rng.choice(NAMES)}
        # Random metadata would end most requests before they reach the kind.
        for name in ("namespace", "resourceVersion", "uid", "ownerReferences", "finalizers", "managedFields", "deletionTimestamp"):
            if rng.random() < 0.97:
                metadata.pop(name, None)
        for name in ("labels", "annotations"):
            metadata[name] = {"a": rng.choice(("b", "c"))}
        return {**obj, "metadata": metadata}, packed

    def _body(self, place: Place) -> tuple[str, bytes]:
        rng = self.rng
        obj, packed = self._object(place)
        if rng.random() < 0.2 and len(packed) > 8:
            return "application/vnd.kubernetes.protobuf", damaged_bytes(rng, packed) if rng.random() < 0.85 else packed
        if rng.random() < 0.01:
            return "application/json", deep_json(rng)
        if rng.random() < 0.8:
            obj = damaged(rng, obj, rng.choice((1, 1, 1, 2, 3)))
        if rng.random() < 0.15:
            text = yaml.safe_dump(obj, allow_unicode=True).encode("utf-8", "replace")
            return "application/yaml", damaged_bytes(rng, text) if rng.random() < 0.5 else text
        text = json.dumps(obj, ensure_ascii=rng.random() < 0.5, allow_nan=True).encode("utf-8", "replace")
        return "application/json", damaged_bytes(rng, text) if rng.random() < 0.2 else text

    def _write(self) -> Shot:
        rng = self.rng
        place = rng.choice(self.places)
        content_type, body = self._body(place)
        path, method = place.collection(), "POST"
        if rng.random() < 0.4:
            method, path = "PUT", f"{path}/{self._name()}"
            if place.subresources and rng.random() < 0.3:
                path += "/" + rng.choice(place.subresources)
        elif place.subresources and rng.random() < 0.1:
            path += f"/{self._name()}/{rng.choice(place.subresources)}"
        return Shot(method, path + self._query(**self._dry(place)), self._headers(content_type), body)

    def _patch(self) -> Shot:
        rng = self.rng
        place = rng.choice(self.places)
        kind = rng.choice(list(PATCHES))
        obj, _ = self._object(place)
        path = f"{place.collection()}/{self._name()}"
        if place.subresources and rng.random() < 0.2:
            path += "/" + rng.choice(place.subresources)
        options = self._dry(place)
        body: Any
        if kind == "json":
            body = [self._operation(obj) for _ in range(rng.randrange(5))]
            if rng.random() < 0.1:
                body = odd_value(rng)
        elif kind.startswith("apply"):
            options["fieldManager"] = rng.choice(("fuzz", "other"))
            if rng.random() < 0.5:
                options["force"] = "true"
            body = damaged(rng, obj, rng.choice((0, 1, 2))) if rng.random() < 0.8 else obj
        else:
            chosen = {key: obj[key] for key in obj if rng.random() < 0.6}
            body = damaged(rng, chosen, rng.choice((1, 2, 4)))
            if kind == "strategic" and isinstance(body, dict):
                body = self._directed(body)
        text = json.dumps(body).encode("utf-8", "replace")
        if kind == "apply" and rng.random() < 0.3:
            text = yaml.safe_dump(body, allow_unicode=True).encode("utf-8", "replace")
        if rng.random() < 0.1:
            text = damaged_bytes(rng, text)
        return Shot("PATCH", path + self._query(**options), self._headers(PATCHES[kind]), text)

    def _operation(self, obj: dict[str, Any]) -> Any:
        rng = self.rng
        pointer = self._pointer(obj)
        operation: dict[str, Any] = {"op": rng.choice(("add", "remove", "replace", "move", "copy", "test", "nope"))}
        operation["path"] = pointer
        if rng.random() < 0.8:
            operation["value"] = odd_value(rng)
        if rng.random() < 0.4:
            operation["from"] = self._pointer(obj)
        if rng.random() < 0.1:
            operation[rng.choice(("op", "path", "from"))] = odd_value(rng)
        return operation

    def _pointer(self, obj: dict[str, Any]) -> str:
        rng = self.rng
        value: Any = obj
        parts: list[str] = []
        while isinstance(value, dict | list) and value and rng.random() < 0.8:
            key = rng.choice(list(value)) if isinstance(value, dict) else rng.randrange(len(value))
            parts.append(str(key).replace("~", "~0").replace("/", "~1"))
            value = value[key]
        if rng.random() < 0.3:
            parts.append(rng.choice(["-", "0", "-1", "99999999999999999999", "~", "~2", "", *KEYS]))
        return "".join(f"/{part}" for part in parts) if rng.random() < 0.95 else "nope"

    def _directed(self, body: dict[str, Any]) -> dict[str, Any]:
        """Strategic directives at random places."""
        rng = self.rng
        directives = {
            "$patch": rng.choice(["delete", "replace", "merge", "nope", 1]),
            "$retainKeys": rng.choice([["a"], [], "x", [1]]),
            f"$setElementOrder/{rng.choice(('containers', 'ports', 'finalizers', 'x'))}": odd_value(rng),
            f"$deleteFromPrimitiveList/{rng.choice(('finalizers', 'x'))}": odd_value(rng),
        }
        node: dict[str, Any] = body
        while rng.random() < 0.7:
            inner = [value for value in node.values() if isinstance(value, dict)]
            inner += [item for value in node.values() if isinstance(value, list) for item in value if isinstance(item, dict)]
            if not inner:
                break
            node = rng.choice(inner)
        if rng.random() < 0.6:
            name = rng.choice(list(directives))
            node[name] = directives[name]
        return body

    def _read(self) -> Shot:
        rng = self.rng
        place = rng.choice(self.places)
        path = place.collection() if rng.random() < 0.8 else f"{place.prefix}/{place.plural}"
        if rng.random() < 0.4:
            path += f"/{self._name()}"
            if place.subresources and rng.random() < 0.3:
                path += "/" + rng.choice(place.subresources)
        fixed = {"watch": "1", "timeoutSeconds": "1"} if rng.random() < 0.15 else {}
        method = "GET" if rng.random() < 0.95 else rng.choice(("HEAD", "OPTIONS", "TRACE", "PROPFIND"))
        return Shot(method, path + self._query(**fixed), self._headers())

    def _delete(self) -> Shot:
        rng = self.rng
        place = rng.choice(self.places)
        path = place.collection()
        if rng.random() < 0.9 or place.plural in CALLS_OTHERS:
            path += f"/{self._name()}"
        body = b""
        if rng.random() < 0.6:
            options = {
                "kind": "DeleteOptions",
                "apiVersion": "v1",
                "propagationPolicy": "Background",
                "preconditions": {"uid": "x"},
            }
            body = json.dumps(damaged(rng, options)).encode("utf-8", "replace")
        return Shot("DELETE", path + self._query(**self._dry(place)), self._headers("application/json" if body else None), body)

    def _other_path(self) -> Shot:
        rng = self.rng
        path = rng.choice(PATHS)
        if rng.random() < 0.3 and path.startswith("/"):
            path = "/" + urllib.parse.quote(damaged_bytes(rng, path.encode()), safe="/%:")
        method = rng.choice(("GET", "GET", "GET", "POST", "PUT", "PATCH", "DELETE", "CONNECT", "HEAD"))
        body = json.dumps(odd_value(rng)).encode("utf-8", "replace") if method in ("POST", "PUT", "PATCH") else b""
        return Shot(method, path + self._query(), self._headers("application/json" if body else None), body)

    def _raw(self) -> Shot:
        """A damaged head, wrong framing, or something that is no HTTP at all."""
        rng = self.rng
        shot = self._write()
        how = rng.randrange(5)
        wire = shot.wire()
        if how == 0:
            head, _, body = wire.partition(b"\r\n\r\n")
            wire = damaged_bytes(rng, head) + b"\r\n\r\n" + body
        elif how == 1:
            length = rng.choice(("-1", "x", "9" * 20, "0x10", "1, 2", ""))
            wire = f"POST {shot.target} HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\nbody".encode()
        elif how == 2:
            chunks = rng.choice(
                (
                    b"5\r\nhello\r\n0\r\n\r\n",
                    b"zz\r\n",
                    b"-1\r\n\r\n",
                    b"FFFFFFFFFFFFFFFF\r\n",
                    b"5;x=y\r\nhel",
                    b"0\r\nA: b\r\n\r\n",
                )
            )
            wire = b"POST /api/v1/namespaces HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks
        elif how == 3:
            wire = bytes(rng.randrange(256) for _ in range(rng.randrange(1, 400)))
        else:
            wire = b"GET /api HTTP/9.9\r\n" + b"A: b\r\n" * rng.choice((1, 500)) + b"\r\n"
        return Shot(raw=wire)
