"""The custom resources that the cost of requests is measured with."""

from __future__ import annotations

import time
from typing import Any

from tests.fuzz.cost.case import HOLE, NAMESPACE, around
from tests.support.client import Client

GROUP = "cost.example.com"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
THINGS = f"/apis/{GROUP}/v1/namespaces/{NAMESPACE}/things"
ENUMERATED = f"/apis/{GROUP}/v1/namespaces/{NAMESPACE}/listeds"
_FREE = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_THING = {
    "free": _FREE,
    "text": {"type": "string"},
    "pattern": {"type": "array", "items": {"type": "string", "pattern": "^(a+)+$"}},
    "texts": {"type": "array", "items": {"type": "string", "minLength": 1}},
    "numbers": {"type": "array", "items": {"type": "integer", "maximum": 5}},
    "times": {"type": "array", "items": {"type": "string", "format": "date-time"}},
    "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
    "list": {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
        "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, "v": {"type": "string"}}},
    },
    "defaults": {"type": "array", "items": {"type": "object", "properties": {"d": {"type": "string", "default": "x"}}}},
    "either": {
        "type": "array",
        "items": {"type": "string", "anyOf": [{"maxLength": 1}, {"pattern": "^b"}, {"minLength": 9}]},
    },
    "map": {"type": "object", "additionalProperties": {"type": "string"}},
    "embedded": {
        "type": "array",
        "items": {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True},
    },
    "ruled": {
        "type": "array",
        "maxItems": 100_000,
        "items": {"type": "string", "maxLength": 10, "x-kubernetes-validations": [{"rule": "self != 'x'"}]},
    },
}
_CHOICES = 20_000


def _definition(kind: str, properties: dict[str, Any]) -> dict[str, Any]:
    plural = f"{kind.lower()}s"
    schema = {
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": properties}, "status": _FREE},
    }
    columns = [{"name": name, "type": "string", "jsonPath": f".spec.{name}"} for name in ("text", "texts")]
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    version |= {"additionalPrinterColumns": columns, "subresources": {"status": {}}}
    names = {"plural": plural, "kind": kind}
    spec = {"group": GROUP, "scope": "Namespaced", "names": names, "versions": [version]}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": spec,
    }


def thing(spec: Any, pieces: bytes, kind: str = "Thing") -> bytes:
    """A Thing with the part that grows in its spec."""
    return around({"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": {"name": "grown"}, "spec": spec}, pieces)


def set_the_scene(client: Client) -> None:
    """The namespace and the definitions, ready for use."""
    client.post("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}}).expect(201, 409)
    choices = [f"choice{number}" for number in range(_CHOICES)]
    listed = {"list": {"type": "array", "items": {"type": "string", "enum": choices}}}
    for kind, properties in (("Thing", _THING), ("Listed", listed)):
        client.post(DEFINITIONS, _definition(kind, properties)).expect(201, 409)
        deadline = time.monotonic() + 30
        while client.get(f"/apis/{GROUP}/v1/namespaces/{NAMESPACE}/{kind.lower()}s").status != 200:
            assert time.monotonic() < deadline, f"{kind} is not served"
            time.sleep(0.05)


__all__ = ["DEFINITIONS", "ENUMERATED", "GROUP", "HOLE", "THINGS", "set_the_scene", "thing"]
