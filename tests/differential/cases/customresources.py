"""Custom resources: what their definitions make of them on the way in, at rest and on the way out."""

import copy
from typing import Any

from tests.differential.dsl import (
    Case,
    Request,
    Step,
    apply,
    case,
    crd,
    delete,
    established,
    get,
    json_patch,
    kubectl,
    merge,
    post,
    put,
    setup,
    strategic,
    watch,
)
from tests.support.https_server import Answer, Received

Body = dict[str, Any]
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
NAME = "things.${slug}.io"
OWNERS = {"owners-across-webhooks": ["body.metadata.managedFields"]}
WATCHED_OWNERS = {"owners-across-webhooks": ["events.object.metadata.managedFields"]}
THINGS = "${slug}.io/v1:things"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
S: Body = {"type": "string"}
N: Body = {"type": "integer"}


def obj(properties: Body, /, **more: Any) -> Body:
    return {"type": "object", "properties": properties, **more}


def thing(name: str = "a", spec: Any = None, version: str = "v1", **more: Any) -> Body:
    body: Body = {"apiVersion": "${slug}.io/" + version, "kind": "Thing", "metadata": {"name": name}, **more}
    if spec is not None:
        body["spec"] = spec
    return body


def served(body: Body) -> tuple[Step, ...]:
    """The definition, created and ready: the real server answers for its resources a little after it is established."""
    version = body["spec"]["versions"][0]["name"]
    listed = Request("GET", "${slug}.io/" + version + ":things", until=("kind", "ThingList"), keep=False)
    return setup(post(CRDS, body)), established(NAME), listed


def things(name: str, spec: Body, *steps: Step, **version: Any) -> Case:
    """A case about things whose `spec` has the given schema."""
    return case(name, *served(crd("things", "Thing", {"spec": spec}, **version)), *steps, cleanup=[f"{CRDS}/{NAME}"])


def kinds(name: str, definition: Body, *steps: Step, **options: Any) -> Case:
    return case(name, *served(definition), *steps, cleanup=[f"{CRDS}/{NAME}"], **options)


def causes(body: Any) -> Any:
    """A refusal with its causes in a fixed order; anything else as it is."""
    if body.get("kind") != "Status" or "causes" not in body.get("details", {}):
        return body
    found = sorted((cause["reason"], cause["field"], cause["message"]) for cause in body["details"]["causes"])
    return {**{key: body[key] for key in ("reason", "code")}, "causes": found}


def refused(spec: Any) -> Request:
    return post(THINGS, thing(spec=spec), query={"dryRun": "All"}, pick=causes)


def rule(text: str, **more: Any) -> Body:
    return {"rule": text, **more}


def ruled(schema: Body, *rules: Body) -> Body:
    return {**schema, "x-kubernetes-validations": list(rules)}


def retyped(schema: Body) -> Step:
    """Replace the schema of `spec` and wait until the server works with it."""
    return setup(
        json_patch(
            f"{CRDS}/{NAME}",
            [{"op": "replace", "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec", "value": schema}],
        )
    )


def until_refused(spec: Any) -> Request:
    """The new schema is at work once it refuses what the old one allowed."""
    return Request("POST", THINGS, thing("probe", spec), query={"dryRun": "All"}, until=("code", 422), keep=False)


def versions(conversion: Body | None = None, *, storage: str = "v1", v2: Body | None = None) -> Body:
    """A definition with v1 and v2."""
    body = crd("things", "Thing", {"spec": obj({"a": S, "b": {**S, "default": "one"}})})
    first = body["spec"]["versions"][0]
    second = copy.deepcopy(first)
    second |= {"name": "v2", "schema": {"openAPIV3Schema": obj({"spec": v2 or obj({"a": S, "c": {**S, "default": "two"}})})}}
    first["storage"], second["storage"] = storage == "v1", storage == "v2"
    body["spec"]["versions"] = [first, second]
    if conversion is not None:
        body["spec"]["conversion"] = conversion
    return body


HOOK: Body = {
    "strategy": "Webhook",
    "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": {"url": "${hook.url}/convert", "caBundle": "${hook.ca}"}},
}


def answering(change: Any) -> Any:
    """A conversion webhook that changes each object with `change` (which may return a Status result instead)."""

    def behave(received: Received) -> Answer:
        request = received.json["request"]
        converted, result = [], {"status": "Success"}
        for item in request["objects"]:
            found = copy.deepcopy(item)
            found["apiVersion"] = request["desiredAPIVersion"]
            failed = change(found)
            if failed:
                result = failed
            converted.append(found)
        response = {"uid": request["uid"], "result": result, "convertedObjects": converted}
        return Answer({"kind": "ConversionReview", "apiVersion": "apiextensions.k8s.io/v1", "response": response})

    return behave


def renaming(found: Body) -> None:
    """v1 says `a`, v2 says `c`."""
    spec = found.setdefault("spec", {})
    old, new = ("a", "c") if found["apiVersion"].endswith("v2") else ("c", "a")
    if old in spec:
        spec[new] = spec.pop(old)


SCALE: Body = {
    "subresources": {
        "status": {},
        "scale": {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n", "labelSelectorPath": ".status.s"},
    }
}
LIMITED = obj({"a": {**S, "maxLength": 2}, "b": S})
WITH_STATUS = crd(
    "things",
    "Thing",
    {"spec": obj({"a": S, "n": N}), "status": obj({"n": {**N, "minimum": 0}, "s": S, "phase": {**S, "enum": ["Good", "Bad"]}})},
    **SCALE,
)
A = setup(post(THINGS, thing(spec={"a": "x"}), save={"rv": "metadata.resourceVersion"}))

CASES: list[Case] = [
    things(
        "custom resource: unknown fields are pruned with a warning",
        obj({"a": S, "l": {"type": "array", "items": obj({"b": S})}}),
        post(THINGS, {**thing(spec={"a": "x", "z": 1, "l": [{"b": "1"}, {"c": 2}]}), "extra": 1}),
        post(THINGS, thing("b", {"z": 1}), query={"fieldValidation": "Strict"}),
        post(THINGS, thing("b", {"z": 1}), query={"fieldValidation": "Ignore"}),
        post(THINGS, {**thing("c"), "metadata": {"name": "c", "strange": 1}}),
    ),
    things(
        "custom resource: preserved fields stay",
        obj({"p": {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": {"k": obj({})}}}),
        post(THINGS, thing(spec={"p": {"x": {"y": 1}, "k": {"gone": 1}}})),
    ),
    things(
        "custom resource: maps and free values",
        obj({"m": {"type": "object", "additionalProperties": N}, "f": {"type": "object", "additionalProperties": True}}),
        post(THINGS, thing(spec={"m": {"a": 1}, "f": {"s": 1, "o": {"gone": 1}}})),
        refused({"m": {"a": "x"}}),
    ),
    things(
        "custom resource: defaults and nulls",
        obj(
            {"a": {**S, "default": "d"}, "n": {**S, "nullable": True, "default": "d"}, "o": obj({"i": {**N, "default": 1}}), "q": S}
        ),
        post(THINGS, thing(spec={})),
        post(THINGS, thing("b", {"a": None, "n": None, "o": {}, "q": None})),
        post(THINGS, thing("c")),
    ),
    things(
        "custom resource: a new default shows on old objects",
        obj({"a": S}),
        setup(post(THINGS, thing(spec={}))),
        retyped(obj({"a": {**S, "default": "later"}})),
        Request("GET", THINGS + "/a", until=("spec.a", "later"), pick=lambda body: body["spec"]),
        get(THINGS, pick=lambda body: [item["spec"] for item in body["items"]]),
    ),
    things(
        "custom resource: types and limits",
        obj(
            {
                "i": {**N, "minimum": 1, "maximum": 10},
                "s": {**S, "minLength": 2, "maxLength": 4, "pattern": "^a"},
                "e": {**S, "enum": ["a", "b"]},
                "l": {"type": "array", "items": S, "minItems": 1, "maxItems": 2},
                "f": {**S, "format": "ipv4"},
                "r": obj({"x": S}, required=["x"]),
            }
        ),
        refused({"i": 0, "s": "aaaaa", "e": "c", "l": [], "f": "x", "r": {}}),
        refused({"i": "1", "s": "b", "e": 1, "l": [1, "a", "b"], "f": 1, "r": {"x": 1}}),
        refused({"i": 11, "s": "bb", "l": "x", "r": None}),
        refused("text"),
        refused({"i": 1, "s": "ab", "e": "a", "l": ["x"], "f": "1.2.3.4", "r": {"x": ""}}),
    ),
    things(
        "custom resource: combinations",
        obj({"a": S, "b": S, "i": {"x-kubernetes-int-or-string": True}}, oneOf=[{"required": ["a"]}, {"required": ["b"]}]),
        refused({}),
        refused({"a": "", "b": ""}),
        refused({"a": "", "i": 1}),
        refused({"a": "", "i": "1"}),
        refused({"a": "", "i": True}),
    ),
    things(
        "custom resource: lists without repetition",
        obj(
            {
                "s": {"type": "array", "items": S, "x-kubernetes-list-type": "set"},
                "m": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["k"],
                    "items": obj({"k": S, "v": S}, required=["k"]),
                },
            }
        ),
        refused({"s": ["a", "a"], "m": [{"k": "1"}, {"k": "1", "v": "2"}]}),
        refused({"s": ["a", "b"], "m": [{"k": "1"}, {"k": "2"}]}),
        apply(THINGS + "/a", thing(spec={"s": ["a"], "m": [{"k": "1", "v": "x"}]}), "one"),
        apply(THINGS + "/a", thing(spec={"s": ["b"], "m": [{"k": "2", "v": "y"}]}), "two"),
        apply(THINGS + "/a", thing(spec={"m": [{"k": "1", "v": "z"}]}), "two"),
        apply(THINGS + "/a", thing(spec={"s": ["c"]}), "one"),
    ),
    things(
        "custom resource: resources inside",
        obj({"t": {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True}}),
        refused({"t": {}}),
        refused({"t": {"apiVersion": "a/b/c", "kind": "no kind", "metadata": {"name": "a/b"}}}),
        post(THINGS, thing(spec={"t": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "odd": 1}, "spec": {"y": 1}}})),
        post(THINGS, thing("b", {"t": {"apiVersion": 1, "kind": "Pod"}})),
        post(THINGS, thing("b", {"t": {"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": "x"}}})),
    ),
    things(
        "custom resource: bodies of another type",
        obj({"a": S}),
        post(THINGS, {**thing(), "kind": "Other"}),
        post(THINGS, {**thing(), "apiVersion": "${slug}.io/v9"}),
        post(THINGS, {"metadata": {"name": "a"}}),
        post(THINGS, thing("Not a name")),
        post(THINGS, {**thing(), "metadata": {"name": "a", "labels": {"x": 1}}}),
        post(THINGS, {**thing(), "metadata": {"name": "a", "labels": {"-": "$"}, "finalizers": ["x y"]}}, pick=causes),
        get("${slug}.io/v2:things"),
        get("${slug}.io/v1:others"),
        get(THINGS + "/none"),
    ),
    things(
        "custom resource: finalizers without a domain are warned about",
        obj({"a": S}),
        post(THINGS, {**thing(), "metadata": {"name": "a", "finalizers": ["plain", "with.dot", "a.io/ok"]}}),
        merge(THINGS + "/a", {"metadata": {"finalizers": None}}),
    ),
    things(
        "custom resource: updates need a resource version",
        obj({"a": S}),
        A,
        put(THINGS + "/a", thing(spec={"a": "y"})),
        put(THINGS + "/a", thing(spec={"a": "y"}) | {"metadata": {"name": "a", "resourceVersion": "${rv}"}}),
        put(THINGS + "/a", thing(spec={"a": "z"}) | {"metadata": {"name": "a", "resourceVersion": "${rv}"}}),
        put(THINGS + "/b", thing("b") | {"metadata": {"name": "b", "resourceVersion": "${rv}"}}),
    ),
    things(
        "custom resource: generation counts changes of anything but metadata",
        obj({"a": S}),
        A,
        merge(THINGS + "/a", {"metadata": {"labels": {"l": "1"}}}),
        merge(THINGS + "/a", {"spec": {"a": "y"}}),
        merge(THINGS + "/a", {"spec": {"a": "y"}}),
        merge(THINGS + "/a", {"spec": {"z": 1}}),
    ),
    things(
        "custom resource: patches",
        obj({"a": S, "l": {"type": "array", "items": N}}),
        A,
        json_patch(THINGS + "/a", [{"op": "add", "path": "/spec/l", "value": [1]}, {"op": "add", "path": "/spec/l/-", "value": 2}]),
        json_patch(THINGS + "/a", [{"op": "test", "path": "/spec/a", "value": "q"}]),
        json_patch(THINGS + "/a", [{"op": "add", "path": "/spec/l/-", "value": "x"}], pick=causes),
        merge(THINGS + "/a", {"spec": {"a": None}}),
        merge(THINGS + "/a", {"spec": {"zz": 1}}, query={"fieldValidation": "Strict"}, pick=lambda body: body["reason"]),
        strategic(THINGS + "/a", {"spec": {"a": "x"}}),
        apply(THINGS + "/a", thing(spec={"a": "mine", "odd": 1}), "me"),
        apply(THINGS + "/a", thing(spec={"a": "mine"}), "me"),
    ),
    kinds(
        "custom resource: status is a world of its own",
        WITH_STATUS,
        post(THINGS, thing(spec={"a": "x"}, status={"phase": "Good"})),
        merge(THINGS + "/a", {"status": {"phase": "Good"}}),
        merge(THINGS + "/a/status", {"status": {"phase": "Good"}, "spec": {"a": "y"}, "metadata": {"labels": {"l": "1"}}}),
        merge(THINGS + "/a/status", {"status": {"phase": "Ugly", "n": -1}}, pick=causes),
        merge(THINGS + "/a/status", {"status": {"odd": 1}}),
        get(THINGS + "/a/status"),
        merge(THINGS + "/a", {"spec": {"a": "z"}}),
    ),
    things(
        "custom resource: without status subresource",
        obj({"a": S}),
        post(THINGS, thing(spec={"a": "x"}, status={"phase": "Good"})),
        get(THINGS + "/a/status"),
        merge(THINGS + "/a/status", {"status": {}}),
    ),
    kinds(
        "custom resource: replica counts must be counts",
        WITH_STATUS,
        refused({"n": -1}),
        refused({"n": 3000000000}),
        refused({"n": "x"}),
    ),
    kinds(
        "custom resource: scale",
        WITH_STATUS,
        setup(post(THINGS, thing(spec={"n": 2}))),
        setup(merge(THINGS + "/a/status", {"status": {"n": 1, "s": "app=x"}})),
        get(THINGS + "/a/scale"),
        merge(THINGS + "/a/scale", {"spec": {"replicas": 5}}),
        get(THINGS + "/a"),
        merge(THINGS + "/a/scale", {"spec": {"replicas": -5}}, pick=causes),
    ),
    kinds(
        "custom resource: printer columns",
        crd(
            "things",
            "Thing",
            {
                "spec": obj(
                    {"a": S, "n": N, "b": {"type": "boolean"}, "f": {"type": "number"}, "t": S, "l": {"type": "array", "items": S}}
                )
            },
            additionalPrinterColumns=[
                {"name": "A", "type": "string", "jsonPath": ".spec.a", "description": "The A"},
                {"name": "N", "type": "integer", "jsonPath": ".spec.n", "format": "int32"},
                {"name": "B", "type": "boolean", "jsonPath": ".spec.b"},
                {"name": "F", "type": "number", "jsonPath": ".spec.f", "priority": 1},
                {"name": "T", "type": "date", "jsonPath": ".spec.t"},
                {"name": "L", "type": "string", "jsonPath": ".spec.l"},
                {"name": "First", "type": "string", "jsonPath": ".spec.l[0]"},
                {"name": "Wrong", "type": "integer", "jsonPath": ".spec.a"},
            ],
        ),
        setup(post(THINGS, thing(spec={"a": "x", "n": 3, "b": True, "f": 1.5, "l": ["p", "q"]}))),
        setup(post(THINGS, thing("b", {}))),
        get(THINGS, accept=TABLE, query={"includeObject": "None"}),
        kubectl("get", "things.${slug}.io"),
        kubectl("get", "things.${slug}.io", "-o", "wide"),
    ),
    things(
        "custom resource: without columns the age is shown",
        obj({"a": S}),
        A,
        get(THINGS, accept=TABLE, query={"includeObject": "None"}),
        kubectl("get", "things.${slug}.io"),
    ),
    things(
        "custom resource: selectable fields",
        obj({"a": S, "n": N, "b": {"type": "boolean"}}),
        setup(post(THINGS, thing(spec={"a": "x", "n": 1, "b": True}))),
        setup(post(THINGS, thing("b", {"a": "y", "n": 1}))),
        get(THINGS, query={"fieldSelector": "spec.a=x"}, pick=lambda body: [item["metadata"]["name"] for item in body["items"]]),
        get(
            THINGS,
            query={"fieldSelector": "spec.n=1,spec.b!=true"},
            pick=lambda body: [item["metadata"]["name"] for item in body["items"]],
        ),
        get(THINGS, query={"fieldSelector": "spec.b="}, pick=lambda body: [item["metadata"]["name"] for item in body["items"]]),
        get(THINGS, query={"fieldSelector": "spec.c=1"}),
        delete(THINGS, query={"fieldSelector": "spec.a=x"}, pick=lambda body: [item["metadata"]["name"] for item in body["items"]]),
        selectableFields=[{"jsonPath": ".spec.a"}, {"jsonPath": ".spec.n"}, {"jsonPath": ".spec.b"}],
    ),
    things(
        "custom resource: what was valid once may stay",
        obj({"a": S, "b": S, "l": {"type": "array", "items": S}}),
        setup(post(THINGS, thing(spec={"a": "long", "l": ["x", "x"]}))),
        retyped(
            obj(
                {
                    "a": {**S, "maxLength": 2},
                    "b": S,
                    "l": {"type": "array", "items": S, "x-kubernetes-list-type": "set", "maxItems": 1},
                }
            )
        ),
        until_refused({"a": "long"}),
        merge(THINGS + "/a", {"spec": {"b": "changed"}}),
        merge(THINGS + "/a", {"spec": {"a": "longer"}}, pick=causes),
        merge(THINGS + "/a", {"spec": {"l": ["x", "x", "x"]}}, pick=causes),
        merge(THINGS + "/a", {"spec": {"a": "ok", "l": ["x"]}}),
        merge(THINGS + "/a", {"spec": {"a": "long"}}, pick=causes),
    ),
    things(
        "custom resource: rules",
        ruled(
            obj(
                {
                    "min": N,
                    "max": N,
                    "s": ruled({**S, "maxLength": 9}, rule("self.startsWith('a')", message="must begin with a")),
                    "l": {"type": "array", "maxItems": 4, "items": ruled(obj({"k": {**N, "maximum": 5}}), rule("self.k > 1"))},
                }
            ),
            rule("!has(self.max) || !has(self.min) || self.min <= self.max"),
            rule("!has(self.min) || self.min != 7", messageExpression="'not ' + (self.min > 0 ? 'seven' : '')", fieldPath=".min"),
            rule("!has(self.min) || self.min != 8", reason="FieldValueForbidden", message="eight is forbidden"),
            rule("!has(self.min) || self.min != 9", reason="FieldValueRequired", message="nine needs more", fieldPath=".max"),
            rule("!has(self.min) || self.min != 10", reason="FieldValueDuplicate"),
        ),
        refused({"min": 2, "max": 1}),
        refused({"min": 7}),
        refused({"min": 8}),
        refused({"min": 9}),
        refused({"min": 10}),
        refused({"s": "b", "l": [{"k": 1}, {"k": 2}, {"k": 0}]}),
        refused({"min": "x", "s": "b"}),
        refused({"l": [{}]}),
        refused({"l": [{"k": 6}]}),
        refused({"min": 1, "max": 2, "s": "a", "l": []}),
    ),
    things(
        "custom resource: rules about change",
        ruled(
            obj(
                {
                    "fixed": ruled({**S, "maxLength": 9}, rule("self == oldSelf", message="is immutable")),
                    "grow": ruled(
                        N, rule("!oldSelf.hasValue() || self >= oldSelf.value()", optionalOldSelf=True, message="must not shrink")
                    ),
                    "m": {
                        "type": "array",
                        "maxItems": 4,
                        "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["k"],
                        "items": ruled(obj({"k": {**S, "maxLength": 9}, "v": N}, required=["k"]), rule("self.v >= oldSelf.v")),
                    },
                }
            ),
            rule("has(self.fixed) == has(oldSelf.fixed)", message="fixed cannot come or go"),
        ),
        post(THINGS, thing(spec={"fixed": "x", "grow": 1, "m": [{"k": "a", "v": 1}]})),
        merge(THINGS + "/a", {"spec": {"fixed": "y"}}, pick=causes),
        merge(THINGS + "/a", {"spec": {"fixed": None}}, pick=causes),
        merge(THINGS + "/a", {"spec": {"grow": 0}}, pick=causes),
        merge(THINGS + "/a", {"spec": {"m": [{"k": "b", "v": 0}, {"k": "a", "v": 0}]}}, pick=causes),
        merge(THINGS + "/a", {"spec": {"grow": 2, "m": [{"k": "b", "v": 0}, {"k": "a", "v": 2}]}}),
    ),
    things(
        "custom resource: a new rule spares what did not change",
        obj({"a": {**S, "maxLength": 9}, "b": S}),
        setup(post(THINGS, thing(spec={"a": "bad"}))),
        retyped(obj({"a": ruled({**S, "maxLength": 9}, rule("self.startsWith('g')")), "b": S})),
        until_refused({"a": "bad"}),
        merge(THINGS + "/a", {"spec": {"b": "x"}}),
        merge(THINGS + "/a", {"spec": {"a": "worse"}}, pick=causes),
    ),
    kinds(
        "custom resource: rules about the name",
        crd("things", "Thing", {"spec": obj({"a": S})}),
        json_patch(
            f"{CRDS}/{NAME}",
            [
                {
                    "op": "add",
                    "path": "/spec/versions/0/schema/openAPIV3Schema/x-kubernetes-validations",
                    "value": [rule("self.metadata.name.startsWith('t')")],
                }
            ],
            pick=lambda body: body["spec"]["versions"][0]["schema"],
        ),
        Request("POST", THINGS, thing("probe"), query={"dryRun": "All"}, until=("code", 422), keep=False),
        post(THINGS, thing("x"), pick=causes),
        post(THINGS, thing("t")),
    ),
    kinds(
        "custom resource: versions that differ in name only",
        versions(),
        post(THINGS, thing(spec={"a": "x"})),
        get("${slug}.io/v2:things/a"),
        get("${slug}.io/v2:things"),
        merge("${slug}.io/v2:things/a", {"spec": {"c": "lost in v1"}}, pick=lambda body: body["spec"]),
        get(THINGS + "/a", pick=lambda body: body["spec"]),
        post("${slug}.io/v2:things", thing("b", {"a": "y"}, "v2")),
        get(THINGS + "/b"),
        apply("${slug}.io/v2:things/b", thing("b", {"a": "v2"}, "v2"), "two", force=True),
        get(THINGS + "/b"),
        setup(delete(THINGS + "/a")),
        watch("${slug}.io/v2:things", take=1, query={"timeoutSeconds": 2}),
    ),
    kinds(
        "custom resource: another storage version",
        versions(),
        post(THINGS, thing(spec={"a": "x"})),
        json_patch(
            f"{CRDS}/{NAME}",
            [
                {"op": "replace", "path": "/spec/versions/0/storage", "value": False},
                {"op": "replace", "path": "/spec/versions/1/storage", "value": True},
            ],
            pick=lambda body: body["status"]["storedVersions"],
        ),
        get(THINGS + "/a"),
        get("${slug}.io/v2:things/a"),
        merge(THINGS + "/a", {"spec": {"a": "y"}}),
        get("${slug}.io/v2:things/a"),
        json_patch(f"{CRDS}/{NAME}", [{"op": "remove", "path": "/spec/versions/0"}], pick=causes),
    ),
    kinds(
        "custom resource: a version that is not served",
        versions(),
        setup(json_patch(f"{CRDS}/{NAME}", [{"op": "replace", "path": "/spec/versions/1/served", "value": False}])),
        Request("GET", "/apis/${slug}.io", until=("preferredVersion.version", "v1")),
        get("${slug}.io/v2:things"),
        get(THINGS, until=("kind", "ThingList")),
    ),
    kinds(
        "custom resource: deprecated versions warn",
        {
            **versions(),
            "spec": {
                **(found := versions()["spec"]),
                "versions": [{**found["versions"][0], "deprecated": True}, found["versions"][1]],
            },
        },
        get(THINGS),
        post(THINGS, thing(spec={"a": "x"})),
        get("${slug}.io/v2:things/a"),
    ),
    kinds(
        "custom resource: conversion by webhook",
        versions(HOOK, v2=obj({"c": S})),
        post(THINGS, thing(spec={"a": "x"})),
        get("${slug}.io/v2:things/a"),
        post("${slug}.io/v2:things", thing("b", {"c": "y"}, "v2")),
        get(THINGS + "/b"),
        get("${slug}.io/v2:things", pick=lambda body: [item["spec"] for item in body["items"]]),
        merge("${slug}.io/v2:things/a", {"spec": {"c": "z"}}, differs=OWNERS),
        get(THINGS + "/a", differs=OWNERS),
        watch("${slug}.io/v2:things", take=2, query={"timeoutSeconds": 2}, differs=WATCHED_OWNERS),
        servers={"hook": answering(renaming)},
    ),
    kinds(
        "custom resource: a conversion that fails",
        versions(HOOK),
        setup(post(THINGS, thing(spec={"a": "x"}))),
        get("${slug}.io/v2:things/a"),
        post("${slug}.io/v2:things", thing("b", {"c": "y"}, "v2")),
        get(THINGS + "/a", pick=lambda body: body["spec"]),
        servers={"hook": answering(lambda found: {"status": "Failed", "message": "I cannot"})},
    ),
    kinds(
        "custom resource: a conversion that renames",
        versions(HOOK),
        setup(post(THINGS, thing(spec={"a": "x"}))),
        get("${slug}.io/v2:things/a"),
        servers={"hook": answering(lambda found: found["metadata"].update(name="other"))},
    ),
    kinds(
        "custom resource: a conversion may change labels and annotations only",
        versions(HOOK),
        setup(post(THINGS, thing(spec={"a": "x"}))),
        get("${slug}.io/v2:things/a"),
        servers={
            "hook": answering(lambda found: found["metadata"].update(labels={"new": "label"}, generation=77, finalizers=["x.io/y"]))
        },
    ),
    kinds(
        "custom resource: a conversion with bad labels",
        versions(HOOK),
        setup(post(THINGS, thing(spec={"a": "x"}))),
        get("${slug}.io/v2:things/a"),
        servers={"hook": answering(lambda found: found["metadata"].update(labels={"-": "x"}))},
    ),
    kinds(
        "custom resource: a conversion to the wrong version",
        versions(HOOK),
        setup(post(THINGS, thing(spec={"a": "x"}))),
        get("${slug}.io/v2:things/a"),
        servers={"hook": answering(lambda found: found.update(apiVersion="v9"))},
    ),
    case(
        "definition: life",
        post(CRDS, crd("things", "Thing", {"spec": obj({"a": S})})),
        get(f"{CRDS}/{NAME}", until=("status.conditions.type=Established.status", "True")),
        merge(f"{CRDS}/{NAME}", {"spec": {"names": {"shortNames": ["tg"], "categories": ["all"]}}}),
        get(f"{CRDS}/{NAME}", until=("status.acceptedNames.shortNames", ["tg"])),
        merge(f"{CRDS}/{NAME}", {"spec": {"scope": "Cluster"}}, pick=causes),
        merge(f"{CRDS}/{NAME}", {"spec": {"group": "x.io"}}, pick=causes),
        merge(f"{CRDS}/{NAME}", {"status": {"storedVersions": []}}),
        merge(f"{CRDS}/{NAME}/status", {"status": {"storedVersions": ["v1", "v0"]}}),
        merge(f"{CRDS}/{NAME}", {"metadata": {"labels": {"l": "1"}}}, pick=causes),
        cleanup=[f"{CRDS}/{NAME}"],
    ),
    kinds(
        "definition: names that are taken",
        crd("things", "Thing", {"spec": obj({"a": S})}),
        post(
            CRDS,
            {
                **(second := crd("others", "Thing", {"spec": obj({"a": S})})),
                "spec": {**second["spec"], "names": {**second["spec"]["names"], "singular": "thing"}},
            },
        ),
        get(f"{CRDS}/others.${{slug}}.io", until=("status.conditions.type=NamesAccepted.status", "False")),
        get("${slug}.io/v1:others"),
        delete(f"{CRDS}/others.${{slug}}.io", pick=lambda body: body["status"]["conditions"][-1]["type"]),
    ),
    kinds(
        "definition: deletion takes the objects along",
        crd("things", "Thing", {"spec": obj({"a": S})}),
        A,
        delete(f"{CRDS}/{NAME}"),
        Request("GET", f"{CRDS}/{NAME}", until=("code", 404)),
        *served(crd("things", "Thing", {"spec": obj({"a": S})})),
        get(THINGS, pick=lambda body: body["items"]),
    ),
    things(
        "definition: discovery",
        obj({"a": S}),
        get("/apis/${slug}.io"),
        get("/apis/${slug}.io/v1"),
        subresources={"status": {}},
    ),
    things(
        "custom resource: kubectl works on it",
        obj({"a": {**S, "maxLength": 3}}),
        kubectl("apply", "-f", "-", input='{"apiVersion":"${slug}.io/v1","kind":"Thing","metadata":{"name":"k"},"spec":{"a":"x"}}'),
        kubectl(
            "apply",
            "--validate=warn",
            "-f",
            "-",
            input='{"apiVersion":"${slug}.io/v1","kind":"Thing","metadata":{"name":"k"},"spec":{"a":"y","z":1}}',
        ),
        kubectl(
            "apply", "-f", "-", input='{"apiVersion":"${slug}.io/v1","kind":"Thing","metadata":{"name":"k"},"spec":{"a":"yyyy"}}'
        ),
        kubectl("get", "things.${slug}.io", "k", "-o", "jsonpath={.spec}"),
        kubectl("patch", "things.${slug}.io", "k", "--type=merge", "-p", '{"spec":{"a":"z"}}'),
        kubectl("delete", "things.${slug}.io", "k"),
    ),
]
