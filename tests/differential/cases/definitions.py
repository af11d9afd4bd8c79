"""Which CustomResourceDefinitions are refused, and with what words. Nothing is stored: every definition is a dry run.

Each step's `fieldManager` says what is wrong with its definition. Errors are compared as a set, because the real server walks maps
in random order.
"""

import copy
from collections.abc import Callable
from typing import Any

from tests.differential.dsl import Case, case, post

Body = dict[str, Any]
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
S: Body = {"type": "string"}
N: Body = {"type": "integer"}


def obj(properties: Body | None = None, /, **more: Any) -> Body:
    schema: Body = {"type": "object", **more}
    if properties is not None:
        schema["properties"] = properties
    return schema


def base(schema: Body | None = None, **version: Any) -> Body:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "defs.definitions.example.com"},
        "spec": {
            "group": "definitions.example.com",
            "scope": "Cluster",
            "names": {"plural": "defs", "kind": "Def"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema if schema is not None else obj({"spec": obj({"a": S})})},
                    **version,
                }
            ],
        },
    }


def sp(schema: Body) -> Body:
    """A definition whose `spec` has this schema."""
    return base(obj({"spec": schema}))


def put(path: str, value: Any) -> Body:
    """The base definition with one field set (or removed: ...)."""
    body = base()
    place: Any = body
    *steps, last = path.split(".")
    for step in steps:
        place = place[int(step)] if step.isdigit() else place[step]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    return body


def two(change: Callable[[Body], None]) -> Body:
    """A definition with a second version that `change` makes different."""
    body = base()
    second = copy.deepcopy(body["spec"]["versions"][0])
    second |= {"name": "v2", "storage": False}
    change(second)
    body["spec"]["versions"].append(second)
    return body


def webhook(**config: Any) -> Body:
    return {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": config}}


def verdict(body: Any) -> Any:
    if body.get("kind") != "Status":
        return {"spec": body["spec"], "status": body.get("status")}
    causes = body.get("details", {}).get("causes", [])
    found = sorted((cause["reason"], cause["field"], cause["message"]) for cause in causes)
    return {"reason": body.get("reason"), "causes": found} if causes else body


GROUPS: dict[str, dict[str, Body]] = {
    "names": {
        "fine": base(),
        "another object name": put("metadata.name", "x.definitions.example.com"),
        "no group": put("spec.group", ""),
        "group without dot": put("spec.group", "abc"),
        "group with capitals": put("spec.group", "A.b"),
        "unknown scope": put("spec.scope", "X"),
        "no scope": put("spec.scope", ""),
        "bad plural": put("spec.names.plural", "A_b"),
        "no kind": put("spec.names.kind", ...),
        "no plural": put("spec.names.plural", ...),
        "bad kind": put("spec.names.kind", "9x"),
        "list kind like kind": put("spec.names.listKind", "Def"),
        "bad short name": put("spec.names.shortNames", ["A"]),
        "bad category": put("spec.names.categories", ["a b", "ok"]),
        "bad singular": put("spec.names.singular", "X"),
        "protected group": put("spec.group", "foo.k8s.io"),
    },
    "versions": {
        "none": put("spec.versions", []),
        "bad name": put("spec.versions.0.name", "V1"),
        "no storage version": put("spec.versions.0.storage", False),
        "no schema": put("spec.versions.0.schema", ...),
        "empty schema": put("spec.versions.0.schema", {}),
        "preserving unknown fields": put("spec.preserveUnknownFields", True),
        "warning without deprecation": put("spec.versions.0.deprecationWarning", "x"),
        "twice the same": two(lambda second: second.update(name="v1", storage=True)),
        "two storage versions": two(lambda second: second.update(storage=True)),
        "two with different schemas": two(
            lambda second: second.update(storage=True, schema={"openAPIV3Schema": obj({"spec": obj({"b": {"type": "x"}})})})
        ),
        "one without schema": two(lambda second: second.pop("schema")),
    },
    "conversion": {
        "unknown strategy": put("spec.conversion", {"strategy": "X"}),
        "no strategy": put("spec.conversion", {}),
        "webhook without anything": put("spec.conversion", {"strategy": "Webhook"}),
        "webhook without address": put("spec.conversion", {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"]}}),
        "empty address": put(
            "spec.conversion",
            {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v2", "v2", "A"], "clientConfig": {}}},
        ),
        "two addresses": put("spec.conversion", webhook(url="https://x", service={"name": "a", "namespace": "b"})),
        "bad url": put("spec.conversion", webhook(url="http://u@/x?q#f")),
        "no url": put("spec.conversion", webhook(url="x")),
        "bad service": put("spec.conversion", webhook(service={"name": "", "namespace": "b", "port": 0, "path": "a//B"})),
        "service without namespace": put("spec.conversion", webhook(service={"name": "a", "namespace": "", "path": "//"})),
        "webhook of strategy None": put("spec.conversion", {**webhook(url="https://x"), "strategy": "None"}),
        "fine": put("spec.conversion", webhook(service={"name": "a", "namespace": "b"})),
    },
    "columns, subresources and selectable fields": {
        "bad columns": put(
            "spec.versions.0.additionalPrinterColumns",
            [
                {"name": "", "type": "x", "format": "y", "jsonPath": "z"},
                {"name": "a", "type": "", "jsonPath": ""},
                {"name": "ok", "type": "date", "jsonPath": ".a"},
            ],
        ),
        "bad columns of one version": two(
            lambda second: second.update(additionalPrinterColumns=[{"name": "a", "type": "x", "jsonPath": ".a"}])
        ),
        "empty scale": put("spec.versions.0.subresources", {"scale": {}}),
        "bad scale paths": put(
            "spec.versions.0.subresources",
            {"scale": {"specReplicasPath": "x", "statusReplicasPath": ".spec.x", "labelSelectorPath": ".x"}},
        ),
        "bad selector path": put(
            "spec.versions.0.subresources",
            {"scale": {"specReplicasPath": ".spec.x", "statusReplicasPath": ".status.x", "labelSelectorPath": "x"}},
        ),
        "good subresources": put(
            "spec.versions.0.subresources",
            {
                "status": {},
                "scale": {"specReplicasPath": ".spec.x", "statusReplicasPath": ".status.x", "labelSelectorPath": ".status.s"},
            },
        ),
        "bad selectable fields": put(
            "spec.versions.0.selectableFields",
            [{"jsonPath": path} for path in (".spec.a", ".spec.b", "", "spec", ".spec['a']", ".spec.a", ".spec", ".")],
        ),
        "metadata is not selectable": put("spec.versions.0.selectableFields", [{"jsonPath": ".metadata.name"}]),
        "too many selectable fields": base(
            obj({"spec": obj({f"f{i}": S for i in range(9)})}), selectableFields=[{"jsonPath": f".spec.f{i}"} for i in range(9)]
        ),
    },
    "a root with a status subresource": {
        "allOf": base(obj({"a": S}, allOf=[{"required": ["a"]}]), subresources={"status": {}}),
        "another type": base({"type": "string"}, subresources={"status": {}}),
        "fine": base(obj({"a": S}, required=["a"], **{"x-kubernetes-preserve-unknown-fields": True}), subresources={"status": {}}),
        "minProperties": base(obj({"a": S}, minProperties=1, maxProperties=3), subresources={"status": {}}),
    },
    "shape": {
        "root nullable": base(obj({}, nullable=True)),
        "root type": base({"type": "array", "items": S}),
        "root notype": base({"properties": {"a": S}}),
        "root addl": base(obj(additionalProperties=S)),
        "no type": sp({}),
        "array no items": sp({"type": "array"}),
        "items notype": sp({"type": "array", "items": {}}),
        "bad type": sp({"type": "foo"}),
        "null type": sp({"type": "null"}),
        "ref": sp({"$ref": "#/x"}),
        "ref+type": sp({"type": "object", "$ref": "#/x"}),
        "id": sp({"type": "object", "id": "x"}),
        "definitions": sp({"type": "object", "definitions": {"a": S}}),
        "patternprops": sp({"type": "object", "patternProperties": {"a": S}}),
        "dependencies": sp({"type": "object", "dependencies": {"a": ["b"]}}),
        "additionalItems": sp({"type": "array", "items": S, "additionalItems": True}),
        "items array": sp({"type": "array", "items": [S]}),
        "unique": sp({"type": "array", "items": S, "uniqueItems": True}),
        "props+addl": sp(obj({"a": S}, additionalProperties=S)),
        "props+addl false": sp(obj({"a": S}, additionalProperties=False)),
        "props+addl true": sp(obj({"a": S}, additionalProperties=True)),
        "preserve false": sp(obj(**{"x-kubernetes-preserve-unknown-fields": False})),
        "formats": sp(
            obj(
                {
                    "a": {"type": "string", "format": "foo"},
                    "b": {"type": "integer", "format": "int32"},
                    "c": {"type": "string", "format": "ipv4"},
                }
            )
        ),
        "deep struct": sp(obj({"x": obj({"y": {"type": "array", "items": obj({"z": {}})}}), "w": {}})),
    },
    "patterns": {
        "pattern": sp({"type": "string", "pattern": "a(b"}),
        "pattern2": sp({"type": "string", "pattern": "(?=a)"}),
        "pattern3": sp({"type": "string", "pattern": "[z-a]"}),
        "pattern4": sp({"type": "string", "pattern": "a**"}),
        "pattern5": sp({"type": "string", "pattern": "\\8"}),
        "pattern6": sp({"type": "string", "pattern": "a{2000}"}),
        "pattern7": sp({"type": "string", "pattern": "*a"}),
        "pattern8": sp({"type": "string", "pattern": "a)"}),
        "pattern9": sp({"type": "string", "pattern": "[a"}),
        "pattern10": sp({"type": "string", "pattern": "(?P<n"}),
        "pattern11": sp({"type": "string", "pattern": "\\pX"}),
        "pattern12": sp({"type": "string", "pattern": "a\\"}),
    },
    "values inside combinations": {
        "nested type": sp({"type": "string", "anyOf": [{"type": "string"}]}),
        "nested stuff": sp(
            obj(
                {"a": S},
                anyOf=[
                    {
                        "description": "x",
                        "title": "t",
                        "default": 1,
                        "nullable": True,
                        "additionalProperties": S,
                        "x-kubernetes-preserve-unknown-fields": True,
                        "x-kubernetes-embedded-resource": True,
                        "x-kubernetes-int-or-string": True,
                        "x-kubernetes-list-map-keys": ["a"],
                        "x-kubernetes-list-type": "map",
                        "x-kubernetes-map-type": "atomic",
                        "x-kubernetes-validations": [{"rule": "true"}],
                        "properties": {"metadata": {"required": ["x"]}},
                    }
                ],
            )
        ),
        "nested undeclared": sp(obj({"a": S}, allOf=[{"properties": {"b": {"minLength": 1}}}])),
        "root undeclared": base(
            obj(
                {"a": S},
                allOf=[
                    {"properties": {"b": {"minLength": 1}}},
                    {"not": {"properties": {"a": {"properties": {"z": {"minimum": 1}}}}}},
                    {"oneOf": [{"items": {"minLength": 1}}]},
                ],
            )
        ),
        "intorstring": sp({"x-kubernetes-int-or-string": True}),
        "intorstring2": sp({"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]}),
        "intorstring3": sp(
            {"x-kubernetes-int-or-string": True, "allOf": [{"anyOf": [{"type": "integer"}, {"type": "string"}]}, {"pattern": "x"}]}
        ),
        "intorstring4": sp({"x-kubernetes-int-or-string": True, "anyOf": [{"type": "string"}, {"type": "integer"}]}),
        "intorstring5": sp(
            {
                "x-kubernetes-int-or-string": True,
                "x-kubernetes-preserve-unknown-fields": True,
                "x-kubernetes-embedded-resource": True,
            }
        ),
        "intorstring6": sp({"type": "string", "x-kubernetes-int-or-string": True}),
    },
    "resources and their metadata": {
        "embedded": sp({"x-kubernetes-embedded-resource": True}),
        "embedded2": sp({"type": "string", "x-kubernetes-embedded-resource": True}),
        "embedded3": sp(obj(**{"x-kubernetes-embedded-resource": True})),
        "embedded4": sp(
            obj(additionalProperties=S, **{"x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True})
        ),
        "embedded5": sp(obj({"kind": N, "apiVersion": N, "metadata": S}, **{"x-kubernetes-embedded-resource": True})),
        "embedded6": sp(
            obj(
                {"kind": S, "apiVersion": S, "metadata": obj({"name": S, "x": S}), "spec": obj({"a": S})},
                **{"x-kubernetes-embedded-resource": True},
            )
        ),
        "embedded in meta": base(
            obj({"metadata": obj(**{"x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True})})
        ),
        "meta name": base(obj({"metadata": obj({"name": {"type": "string", "maxLength": 5}})})),
        "meta gen": base(obj({"metadata": obj({"name": S, "generateName": S})})),
        "meta labels": base(obj({"metadata": obj({"labels": obj(additionalProperties=S)})})),
        "meta desc": base(obj({"metadata": obj(description="x")})),
        "meta type": base(obj({"metadata": S})),
        "meta default": base(obj({"metadata": obj({"name": {"type": "string", "default": "x"}}, default={})})),
        "kind type": base(obj({"kind": N, "apiVersion": N})),
        "kind default": base(obj({"kind": {"type": "string", "default": "x"}})),
    },
    "list and map types": {
        "map type": sp(obj(**{"x-kubernetes-map-type": "foo"})),
        "map type str": sp({"type": "string", "x-kubernetes-map-type": "atomic"}),
        "map type none": sp({"x-kubernetes-preserve-unknown-fields": True, "x-kubernetes-map-type": "atomic"}),
        "list type": sp({"type": "array", "items": S, "x-kubernetes-list-type": "foo"}),
        "list type str": sp({"type": "string", "x-kubernetes-list-type": "set"}),
        "list type none": sp({"x-kubernetes-preserve-unknown-fields": True, "x-kubernetes-list-type": "set"}),
        "set of obj": sp({"type": "array", "items": obj({"a": S}), "x-kubernetes-list-type": "set"}),
        "set of arr": sp(
            {
                "type": "array",
                "items": {"type": "array", "items": S, "x-kubernetes-list-type": "set"},
                "x-kubernetes-list-type": "set",
            }
        ),
        "set nullable": sp({"type": "array", "items": {"type": "string", "nullable": True}, "x-kubernetes-list-type": "set"}),
        "keys no type": sp({"type": "array", "items": obj({"a": S}), "x-kubernetes-list-map-keys": ["a"]}),
        "keys set": sp(
            {"type": "array", "items": obj({"a": S}), "x-kubernetes-list-map-keys": ["a"], "x-kubernetes-list-type": "atomic"}
        ),
        "map no keys": sp({"type": "array", "items": obj({"a": S}), "x-kubernetes-list-type": "map"}),
        "map scalar": sp({"type": "array", "items": S, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"]}),
        "map keys": sp(
            {
                "type": "array",
                "items": obj(
                    {"a": S, "b": obj({}), "c": {"type": "string", "nullable": True, "default": "x"}}, nullable=True, required=["b"]
                ),
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["a", "b", "c", "d", "a"],
            }
        ),
        "map default key": sp(
            {
                "type": "array",
                "items": obj({"a": {"type": "string", "default": "x"}}),
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["a"],
            }
        ),
    },
    "defaults": {
        "default type": sp(
            obj(
                {
                    "a": {"type": "string", "default": 1},
                    "b": {"type": "integer", "minimum": 5, "default": 1},
                    "c": {"type": "string", "enum": ["x"], "default": "y"},
                }
            )
        ),
        "default unknown": sp(obj({"a": obj({"b": S}, default={"b": "x", "c": 1})})),
        "default nested": sp(obj({"a": obj({"b": N}, default={"b": "x"})})),
        "default required": sp(obj({"a": obj({"b": N}, required=["b"], default={})})),
        "default items": sp({"type": "array", "items": {"type": "string", "default": 1}}),
        "default addl": sp(obj(additionalProperties={"type": "string", "default": "x"})),
        "default embedded": sp(
            obj(
                {
                    "e": obj(
                        default={"apiVersion": "v1"},
                        **{"x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True},
                    )
                }
            )
        ),
        "default embedded meta": sp(
            obj(
                {
                    "e": obj(
                        {
                            "metadata": obj({"name": {"type": "string", "default": "A/B"}}),
                            "kind": {"type": "string", "default": "Bad Kind"},
                        },
                        **{"x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True},
                    )
                }
            )
        ),
        "default null": sp(obj({"a": {"type": "string", "default": None}})),
        "default list": sp(obj({"a": {"type": "array", "items": S, "default": ["x"], "maxItems": 0}})),
        "default rule": sp(
            obj({"a": {"type": "integer", "default": 1, "x-kubernetes-validations": [{"rule": "self > 5", "message": "big"}]}})
        ),
    },
    "rules": {
        "rule ok": sp(obj({"a": N}, **{"x-kubernetes-validations": [{"rule": "self.a > 1"}]})),
        "rule bad": sp(obj({"a": N}, **{"x-kubernetes-validations": [{"rule": "self.b > 1"}]})),
        "rule type": sp(obj({"a": N}, **{"x-kubernetes-validations": [{"rule": "self.a + 1"}]})),
        "rule syntax": sp(obj({"a": N}, **{"x-kubernetes-validations": [{"rule": "self.a >"}]})),
        "rule empty": sp(
            obj(
                {"a": N},
                **{
                    "x-kubernetes-validations": [
                        {"rule": " ", "message": " ", "messageExpression": " ", "reason": "X", "fieldPath": " "}
                    ]
                },
            )
        ),
        "rule lines": sp(
            obj(
                {"a": N},
                **{
                    "x-kubernetes-validations": [
                        {"rule": "self.a\n > 1"},
                        {"rule": "true", "message": "a\nb"},
                        {"rule": "self.a\n > 1", "message": "x"},
                        {"rule": "true", "fieldPath": "a\nb"},
                        {"rule": "true", "message": "  "},
                    ]
                },
            )
        ),
        "rule fieldpath": sp(
            obj(
                {"a": N, "m": obj(additionalProperties=S)},
                **{
                    "x-kubernetes-validations": [
                        {"rule": "true", "fieldPath": ".a"},
                        {"rule": "true", "fieldPath": ".b"},
                        {"rule": "true", "fieldPath": "a"},
                        {"rule": "true", "fieldPath": ".m.k"},
                        {"rule": "true", "fieldPath": ".m['k']"},
                        {"rule": "true", "fieldPath": ".a.b"},
                    ]
                },
            )
        ),
        "rule msgexpr": sp(
            obj(
                {"a": N},
                **{
                    "x-kubernetes-validations": [
                        {"rule": "true", "messageExpression": "1"},
                        {"rule": "true", "messageExpression": "self.zz"},
                        {"rule": "true", "messageExpression": "'x'"},
                    ]
                },
            )
        ),
        "rule oldself": sp(
            obj(
                {
                    "a": {
                        "type": "array",
                        "items": {"type": "string", "x-kubernetes-validations": [{"rule": "oldSelf == self"}], "maxLength": 3},
                        "maxItems": 3,
                    }
                }
            )
        ),
        "rule oldself map": sp(
            obj(
                {
                    "a": {
                        "type": "array",
                        "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["k"],
                        "items": obj(
                            {"k": {"type": "string", "maxLength": 3}},
                            required=["k"],
                            **{"x-kubernetes-validations": [{"rule": "oldSelf.k == self.k"}]},
                        ),
                        "maxItems": 3,
                    }
                }
            )
        ),
        "rule optional": sp(
            obj(
                {"a": N},
                **{
                    "x-kubernetes-validations": [
                        {"rule": "true", "optionalOldSelf": True},
                        {"rule": "oldSelf.hasValue()", "optionalOldSelf": True},
                        {"rule": "oldSelf.a == self.a", "optionalOldSelf": True},
                    ]
                },
            )
        ),
        "rule preserve": sp({"x-kubernetes-preserve-unknown-fields": True, "x-kubernetes-validations": [{"rule": "true"}]}),
        "rule root": base(
            obj(
                {"a": N},
                **{"x-kubernetes-validations": [{"rule": "self.metadata.name == 'x'"}, {"rule": "self.metadata.labels.a == 'x'"}]},
            )
        ),
    },
    "costs of rules": {
        "message cost": sp(
            obj({"a": N}, **{"x-kubernetes-validations": [{"rule": "true", "messageExpression": "'x'+string(self.a)"}]})
        ),
        "rule cost": sp(
            obj(
                {
                    "a": {
                        "type": "array",
                        "items": {"type": "string"},
                        "x-kubernetes-validations": [{"rule": "self.all(x, self.all(y, x==y))"}],
                    }
                }
            )
        ),
        "rule cost regex": sp(
            obj(
                {"a": {"type": "array", "items": {"type": "string", "x-kubernetes-validations": [{"rule": "self.matches('a+b')"}]}}}
            )
        ),
    },
}


def judged(name: str, body: Body) -> Any:
    query = {"dryRun": "All", "fieldValidation": "Ignore", "fieldManager": name}
    return post(CRDS, body, query=query, pick=verdict)


CASES: list[Case] = [
    case(f"definitions: {group}", *(judged(name, body) for name, body in bodies.items())) for group, bodies in GROUPS.items()
]
