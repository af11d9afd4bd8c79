"""Values, formats and updates that are judged by a real kube-apiserver; its answers are kept in `recorded.json`.

    python -m tests.unit.kube_schema.recorder

starts one, plays everything and writes the file anew. Each pair of schema and value becomes one field of one custom resource, so
that few definitions suffice. For updates the object is stored under a lax definition first, which is tightened afterwards.
"""

import time
from pathlib import Path
from typing import Any

import orjson

from muster.kube.structural_schema.formats import FORMATS
from tests.support.client import Client
from tests.support.planes import make

Schema = dict[str, Any]
RECORDED = Path(__file__).with_name("recorded.json")
GROUP = "recorder.example.com"
S: Schema = {"type": "string"}
N: Schema = {"type": "integer"}
ANYTHING: Schema = {"x-kubernetes-preserve-unknown-fields": True}
ML: Schema = {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}


def obj(properties: Schema, **more: Any) -> Schema:
    return {"type": "object", "properties": properties, **more}


VALUES: list[tuple[Schema, list[Any]]] = [
    ({"type": "integer", "minimum": 1, "maximum": 10}, [0, 11, 5, "x", 1.5, 2.0, None, True, [], {}]),
    ({"type": "integer", "minimum": 1, "exclusiveMinimum": True, "maximum": 10, "exclusiveMaximum": True}, [1, 10, 5]),
    ({"type": "number", "minimum": 1.5, "maximum": 2.5}, [1, 3, 1.4, 2.6, 2, "x"]),
    ({"type": "number", "multipleOf": 0.5}, [1.25, 1.5, 3]),
    ({"type": "integer", "multipleOf": 3}, [4, 6]),
    ({"type": "string", "minLength": 2, "maxLength": 4, "pattern": "^a+$"}, ["a", "aaaaa", "bb", "aa", 5, None, "éé"]),
    ({"type": "string", "maxLength": 1}, ["ab"]),
    ({"type": "string", "enum": ["a", "b"]}, ["c", "a", 1, None]),
    ({"type": "integer", "enum": [1, 2]}, [3, 1, 1.0, "1"]),
    ({"type": "string", "nullable": True, "enum": ["a"]}, [None, "a"]),
    ({"type": "string", "format": "ipv4"}, ["x", "1.2.3.4", 5, True, [], {"a": 1}, None]),
    ({"type": "string", "format": "date-time"}, ["x", "2024-01-01T00:00:00Z", 5, 2.5]),
    ({"type": "array", "items": S, "minItems": 1, "maxItems": 2}, [[], ["a"], ["a", "b", "c"], [1], [None], "x", {}]),
    ({"type": "array", "maxItems": 1, "items": N}, [[1, 2]]),
    (
        {"type": "object", "additionalProperties": S, "minProperties": 1, "maxProperties": 2},
        [{}, {"a": "b"}, {"a": 1}, {"a": "1", "b": "2", "c": "3"}, {"a": None}],
    ),
    ({"type": "object", "additionalProperties": False}, [{}, {"a": 1}]),
    (
        {"type": "object", "required": ["a", "b"], "properties": {"a": S, "b": N}},
        [{}, {"a": "x"}, {"a": 1, "b": "x"}, {"a": None, "b": 2}],
    ),
    ({"x-kubernetes-int-or-string": True}, [1, "a", 1.5, True, None, []]),
    (
        {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}], "pattern": "^a"},
        [1, "a", "b", True],
    ),
    (
        {"type": "object", "properties": {"a": S, "b": S}, "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
        [{}, {"a": "x"}, {"a": "x", "b": "y"}, {"a": 1}],
    ),
    (
        {"type": "object", "properties": {"a": S, "b": S}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
        [{}, {"a": "x", "b": "y"}, {"b": "y"}],
    ),
    (
        {"type": "object", "properties": {"a": S, "b": S}, "allOf": [{"required": ["a"]}, {"required": ["b"]}]},
        [{}, {"a": "x"}, {"a": "x", "b": "y"}],
    ),
    ({"type": "object", "properties": {"a": S}, "not": {"required": ["a"]}}, [{}, {"a": "x"}]),
    ({"type": "string", "anyOf": [{"pattern": "^a"}, {"minLength": 5}, {"enum": ["x"]}]}, ["bb", "x", "a"]),
    ({"type": "integer", "oneOf": [{"minimum": 5}, {"maximum": 3}, {"multipleOf": 2}]}, [4, 6, 3, 7]),
    ({"type": "array", "x-kubernetes-list-type": "set", "items": S}, [["a", "a"], ["a", "b"], ["a", "a", "a", "b", "b"]]),
    (
        {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["k"],
            "items": {"type": "object", "required": ["k"], "properties": {"k": S, "v": N}},
        },
        [[{"k": "a"}, {"k": "a"}], [{"k": "a"}, {"k": "b"}], [{"v": 1}, {"v": 2}], [{"k": "a"}, "x"]],
    ),
    (
        {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["k", "l"],
            "items": {
                "type": "object",
                "properties": {"k": {"type": "string", "default": "d"}, "l": {"type": "integer", "default": 1}, "v": N},
            },
        },
        [[{"k": "a"}, {"k": "a"}], [{}, {}], [{"l": 2}, {}]],
    ),
    (
        {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True},
        [
            {},
            {"apiVersion": "v1", "kind": "Pod"},
            {"apiVersion": "a/b/c", "kind": "po d"},
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {
                    "name": "a/b",
                    "labels": {"-": "x", "k": "$$"},
                    "namespace": "A",
                    "finalizers": ["x y"],
                    "ownerReferences": [{"apiVersion": "v1"}],
                },
            },
            {"apiVersion": "", "kind": ""},
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"foo": 1, "name": "x"}},
            {"apiVersion": 1, "kind": "Pod"},
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": "x"}},
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": 1}},
            {"apiVersion": "v1", "kind": "Pod", "metadata": "x"},
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {"a": 1}}},
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"finalizers": "x", "generation": -1}},
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"generation": -1}},
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"creationTimestamp": "yesterday"}},
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"ownerReferences": ["x"]}},
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"managedFields": [{"x": 1}]}},
        ],
    ),
    ({"type": "object", "properties": {"a": {"type": "object", "properties": {"b": S}}}}, [{"a": {"c": 1}}, {"z": 1}]),
    ({"type": "boolean"}, ["true", 1, True]),
    ({"type": "string", "default": "dd"}, [None]),
    (
        {"type": "array", "items": {"type": "array", "items": {"type": "object", "properties": {"x": N}}}},
        [[[{"x": "a"}], [{"x": 1}, {"y": 1}]]],
    ),
    ({"type": "object", "additionalProperties": {"type": "object", "properties": {"x": N}}}, [{"k.l": {"x": "a"}, "m": {"q": 1}}]),
    (
        {"type": "object", "additionalProperties": {"type": "array", "x-kubernetes-list-type": "set", "items": S}},
        [{"k": ["a", "a"]}],
    ),
    ({"type": "string", "pattern": "^[a-z\\d]+(\\.[a-z]{2,3})?$"}, ["a.bcde", "a1.bc"]),
    ({"type": "object", "properties": {"a": S}, "required": ["zz"]}, [{}]),
    ({"type": "number"}, [1e30, 1e21, 1.5, 12345678901234567890]),
    ({"type": "integer"}, [12345678901234567890, 9007199254740993, 1e300, 1e10]),
    ({"type": "integer", "maximum": 1e21}, [3]),
    ({"type": "number", "maximum": 1e-7}, [3, 3.5]),
    ({"type": "string", "minLength": 3}, ['\u0001"', "\u2028", "<>&"]),
]

FORMATS_TRIED = sorted([*FORMATS, "date-time", "k8s-short-name", "int32", "made-up"])
TEXTS = [
    "",
    "x",
    "a b",
    "507f1f77bcf86cd799439011",
    "http://a/b",
    "foo.com",
    "./a",
    "a@b.c",
    "A <a@b>",
    "<a@b>",
    "a@b,c@d",
    "a@[1.2.3.4]",
    '"q"@x',
    '"q q"@x.y',
    "a..b@c",
    "(c) a@b",
    "a@b (c)",
    "a@b.",
    "foo_bar",
    "foo.bar.",
    "-a",
    "a-",
    "xn--a.com",
    "1.2.3.4",
    "01.2.3.4",
    "1.2.3",
    "::1",
    "fe80::1%eth0",
    "::ffff:1.2.3.4",
    "10.0.0.0/8",
    "::/0",
    "1.2.3.4/33",
    "00:11:22:33:44:55",
    "0011.2233.4455",
    "00-11-22-33-44-55-66-77",
    "A8098C1A-F86E-11DA-BD1A-00112444BE1E",
    "a8098c1af86e11dabd1a00112444be1e",
    "bcd02e22-68f0-3046-a512-327cca9def8f",
    "025b0d74-00a2-4048-bf57-227c5111bb34",
    "886313e1-3b8a-5372-9b90-0c9aee199e5d",
    "0321751043",
    "978-0321751041",
    "4220855426222389",
    "111-11-1111",
    "111111111",
    "#fff",
    "fffffff",
    "rgb(1,2,3)",
    "rgb(256,2,3)",
    "YQ==",
    "YQ",
    "2024-02-29",
    "2023-02-29",
    "0000-01-01",
    "1h",
    "1.5h3m",
    "3 days",
    "3 dayz",
    "10",
    "0",
    "5 q",
    "2014-12-15T19:30:20.000Z",
    "2014-12-15T19:30:20",
    "2014-12-15t19:30:20z",
    "2014-12-15T19:30:60Z",
    "2014-12-15T19:30:20+25:00",
    "a",
    "A",
    "a.b",
    "a-.b",
    "mailto:x",
    "*",
    "/p%zz",
    "http://a:b",
    "http://[::1",
    "http://é/",
    "http://a/%20?%",
    "a:b",
    "http://u:p@h:1/",
    "http://u@",
    "http:///x",
    "http://<x>/",
    "http://a^b/",
    "é@b.c",
    "a@é.c",
    "5µs",
    "5 µs",
    "٣s",
    "a\nb@c",
]
RATCHETS: list[tuple[Schema, Any, list[Any]]] = [
    (obj({"a": {"type": "string", "maxLength": 2}, "b": S}), {"a": "long"}, [{"a": "long", "b": "x"}, {"a": "longer"}, {"b": "x"}]),
    (obj({"a": {"type": "integer"}, "b": S}), {"a": "str"}, [{"a": "str", "b": "x"}, {"a": "str2"}]),
    (obj({"a": S, "b": S}, required=["a"]), {}, [{"b": "x"}, {}]),
    (
        obj({"o": obj({"a": S, "b": S}, required=["a"]), "z": S}),
        {"o": {"b": "1"}},
        [{"o": {"b": "1"}, "z": "x"}, {"o": {"b": "2"}}],
    ),
    (
        obj({"l": {"type": "array", "items": {"type": "string", "maxLength": 1}}, "z": S}),
        {"l": ["aa", "bb"]},
        [{"l": ["aa", "bb"], "z": "x"}, {"l": ["aa", "bb", "c"]}, {"l": ["aa"]}],
    ),
    (
        obj({"l": {**ML, "items": obj({"k": S, "v": {"type": "string", "maxLength": 1}}, required=["k"])}}),
        {"l": [{"k": "a", "v": "long"}, {"k": "b", "v": "x"}]},
        [
            {"l": [{"k": "b", "v": "y"}, {"k": "a", "v": "long"}]},
            {"l": [{"k": "a", "v": "longer"}]},
            {"l": [{"k": "c", "v": "long"}]},
        ],
    ),
    (
        obj({"l": {**ML, "maxItems": 1, "items": obj({"k": S, "v": S}, required=["k"])}, "z": S}),
        {"l": [{"k": "a"}, {"k": "b"}]},
        [{"l": [{"k": "b"}, {"k": "a"}], "z": "1"}, {"l": [{"k": "a"}, {"k": "b"}, {"k": "c"}]}],
    ),
    (
        obj({"m": {"type": "object", "additionalProperties": {"type": "string", "maxLength": 1}}, "z": S}),
        {"m": {"a": "long"}},
        [{"m": {"a": "long", "b": "c"}}, {"m": {"a": "long", "b": "cc"}}, {"m": {"b": "long"}}],
    ),
    (
        obj({"a": S, "b": S}, oneOf=[{"required": ["a"]}, {"required": ["b"]}]),
        {"a": "x", "b": "y"},
        [{"a": "x", "b": "z"}, {"a": "x", "b": "y"}],
    ),
    (
        obj({"a": S, "z": S}, allOf=[{"properties": {"a": {"maxLength": 1}}}]),
        {"a": "long"},
        [{"a": "long", "z": "x"}, {"a": "longe"}],
    ),
    (
        obj({"a": S, "z": S}, anyOf=[{"properties": {"a": {"maxLength": 1}}}, {"properties": {"a": {"pattern": "^x"}}}]),
        {"a": "long"},
        [{"a": "long", "z": "x"}, {"a": "longe"}],
    ),
    (
        obj({"p": {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "maxProperties": 1}, "z": S}),
        {"p": {"q": 1, "r": 2}},
        [{"p": {"q": 1, "r": 2}, "z": "x"}],
    ),
    (
        obj({"s": {"type": "array", "x-kubernetes-list-type": "set", "items": S}, "z": S}),
        {"s": ["a", "a"]},
        [{"s": ["a", "a"], "z": "x"}, {"s": ["a", "a", "b", "b"]}],
    ),
    (obj({"e": {"type": "string", "enum": ["a"]}, "z": S}), {"e": "b"}, [{"e": "b", "z": "x"}, {"e": "c"}]),
    (
        obj(
            {
                "a": {
                    "type": "object",
                    "properties": {"b": {"type": "object", "properties": {"c": {"type": "integer", "minimum": 5}}}},
                },
                "z": S,
            }
        ),
        {"a": {"b": {"c": 1}}},
        [{"a": {"b": {"c": 1}}, "z": "x"}, {"a": {"b": {"c": 2}}}, {"a": {"b": {"c": 6}}}],
    ),
]


def definition(plural: str, properties: Schema) -> Schema:
    schema = obj({"spec": obj(properties)})
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Cluster",
            "names": {"plural": plural, "kind": "Thing" + plural[0].upper()},
            "versions": [version],
        },
    }


class Recorder:
    """Plays cases against one server."""

    def __init__(self, client: Client) -> None:
        self.client = client

    def install(self, body: Schema) -> tuple[str, str]:
        """Create or replace a definition and wait until it is served; returns the collection's path and the kind."""
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        name = body["metadata"]["name"]
        current = self.client.get(f"{path}/{name}")
        if current.status == 404:
            self.client.post(path, body).expect(201)
        else:
            self.client.put(f"{path}/{name}", {**current.json, "spec": body["spec"]}).expect(200)
            time.sleep(3)
        collection = f"/apis/{GROUP}/v1/{body['spec']['names']['plural']}"
        while self.client.get(collection).status != 200:
            time.sleep(0.05)
        return collection, body["spec"]["names"]["kind"]

    def thing(self, kind: str, name: str, spec: Any) -> Schema:
        return {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}

    def values(self) -> list[Any]:
        collection, kind = self.install(definition("values", {f"c{i:02}": schema for i, (schema, _) in enumerate(VALUES)}))
        answers = []
        for index, (schema, values) in enumerate(VALUES):
            field = f"c{index:02}"
            for value in values:
                reply = self.client.post(collection, self.thing(kind, "a", {field: value}), query={"dryRun": "All"})
                stored = {"v": reply.json["spec"].get(field, "(absent)")} if reply.status == 201 else {}
                warnings = [text.replace(f"spec.{field}", "spec.v") for text in reply.header_values("warning")]
                answer = {"status": reply.status, "causes": causes(reply.json, field), **stored, "warnings": warnings}
                if reply.status == 400:
                    answer["message"] = reply.json["message"].replace(f"spec.{field}", "spec.v")
                answers.append([schema, value, answer])
        return answers

    def formats(self) -> dict[str, list[str]]:
        fields = {f"f{i:02}": name for i, name in enumerate(FORMATS_TRIED)}
        collection, kind = self.install(definition("formats", {field: {**S, "format": name} for field, name in fields.items()}))
        return {
            name: [
                text
                for text in TEXTS
                if self.client.post(collection, self.thing(kind, "a", {field: text}), query={"dryRun": "All"}).status == 201
            ]
            for field, name in fields.items()
        }

    def ratchets(self) -> list[Any]:
        fields = {f"c{i:02}": schema for i, (schema, _, _) in enumerate(RATCHETS)}
        collection, kind = self.install(definition("ratchets", dict.fromkeys(fields, ANYTHING)))
        for field, (_, old, _) in zip(fields, RATCHETS, strict=True):
            self.client.post(collection, self.thing(kind, field, {field: old})).expect(201)
        self.install(definition("ratchets", fields))
        answers = []
        for field, (schema, old, news) in zip(fields, RATCHETS, strict=True):
            stored = self.client.get(f"{collection}/{field}").json
            for new in news:
                reply = self.client.put(f"{collection}/{field}", {**stored, "spec": {field: new}}, query={"dryRun": "All"})
                answers.append([schema, old, new, causes(reply.json, field)])
        return answers


def causes(body: Any, field: str) -> list[list[str]]:
    found = body.get("details", {}).get("causes", [])
    return [[cause[key].replace(f"spec.{field}", "spec.v") for key in ("reason", "field", "message")] for cause in found]


def main() -> None:
    plane = make("kube")
    plane.start()
    try:
        recorder = Recorder(plane.client("admin"))
        answers = {"values": recorder.values(), "formats": recorder.formats(), "ratchets": recorder.ratchets()}
        RECORDED.write_bytes(orjson.dumps(answers, option=orjson.OPT_INDENT_2) + b"\n")
    finally:
        plane.discard()


if __name__ == "__main__":
    main()
