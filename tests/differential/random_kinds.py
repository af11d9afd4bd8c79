"""Random small objects of a few kinds, for comparing two implementations of patch and apply.

A `Kind` knows how to make a full object and a partial configuration of one resource type; the values come from tiny alphabets so
that writes of several managers keep meeting each other. Everything is drawn from a seeded Random.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

Object = dict[str, Any]

CRD_GROUP = "patches.example.com"
FIXED = frozenset({"name", "type", "externalName"})
"""Fields that are never deleted: without them the object is invalid, or gets something allocated."""


@dataclass(frozen=True)
class Kind:
    name: str
    api_version: str
    collection: str
    config: Callable[[Random], Object]
    """What a manager may apply, without apiVersion, kind and name."""
    base: Callable[[Random], Object]
    """The least a valid object must have."""
    custom: bool = False
    versions: tuple[str, ...] = ()
    """Further API versions."""
    status: Callable[[Random], Object] | None = None
    damage: Callable[[Random, Object], None] = field(default=lambda rng, config: None)
    """Makes a configuration one that does not fit the schema."""
    sprinkle: Callable[[Random, Object], None] = field(default=lambda rng, patch: None)
    """Adds strategic merge directives to a partial patch."""

    def identity(self, name: str) -> Object:
        return {"apiVersion": self.api_version, "kind": self.name, "metadata": {"name": name}}


def some(rng: Random, choices: str | list[Any], most: int = 3) -> list[Any]:
    return rng.sample(list(choices), rng.randint(0, min(most, len(choices))))


def maybe(rng: Random, obj: Object, key: str, make: Callable[[], Any], chance: float = 0.5) -> None:
    if rng.random() < chance:
        obj[key] = make()


def text_map(rng: Random) -> Object:
    return {key: rng.choice("123") for key in some(rng, "abc")}


def merged(left: Any, right: Any) -> Any:
    if isinstance(left, dict) and isinstance(right, dict):
        return {key: merged(left.get(key), right.get(key)) for key in left | right}
    return left if right is None else right


def metadata(rng: Random) -> Object:
    made: Object = {}
    maybe(rng, made, "labels", lambda: text_map(rng))
    maybe(rng, made, "annotations", lambda: text_map(rng), 0.3)
    maybe(rng, made, "finalizers", lambda: some(rng, ["x.io/a", "x.io/b"], 2), 0.15)
    return {"metadata": made} if made else {}


# ConfigMap -------------------------------------------------------------------------------------------------------------------


def config_map(rng: Random) -> Object:
    made = metadata(rng)
    maybe(rng, made, "data", lambda: text_map(rng), 0.8)
    maybe(rng, made, "binaryData", lambda: dict.fromkeys(some(rng, "xy", 1), "AAAA"), 0.2)
    return made


def damaged_config_map(rng: Random, config: Object) -> None:
    config["data"] = {"a": rng.choice([1, True, 1.5, {"x": [1, "y"]}, [1, {"b": None}], None])}


# Deployment ------------------------------------------------------------------------------------------------------------------


def container(rng: Random, name: str) -> Object:
    made: Object = {"name": name, "image": rng.choice(["i1", "i2"])}
    maybe(rng, made, "command", lambda: some(rng, ["run", "it"]), 0.3)
    maybe(rng, made, "env", lambda: [{"name": key, "value": rng.choice("12")} for key in names(rng)])
    maybe(rng, made, "ports", lambda: [port(rng, number) for number in some(rng, [80, 443, 8080])])
    maybe(rng, made, "resources", lambda: {"limits": {key: rng.choice(["1", "2"]) for key in some(rng, ["cpu", "memory"])}}, 0.4)
    return made


def names(rng: Random) -> list[str]:
    """Mostly distinct names; the server allows repeated ones in an environment."""
    return rng.choices("AB", k=3) if rng.random() < 0.1 else some(rng, "AB")


def port(rng: Random, number: int) -> Object:
    made: Object = {"containerPort": number}
    maybe(rng, made, "protocol", lambda: rng.choice(["TCP", "UDP"]))
    return made


def pod_spec(rng: Random) -> Object:
    made: Object = {"containers": [container(rng, name) for name in some(rng, "abc") or "a"]}
    maybe(rng, made, "volumes", lambda: [{"name": key, "emptyDir": {}} for key in some(rng, "vw")], 0.3)
    maybe(rng, made, "nodeSelector", lambda: text_map(rng), 0.3)
    maybe(rng, made, "tolerations", lambda: [{"key": key, "operator": "Exists"} for key in some(rng, "st")], 0.3)
    maybe(rng, made, "imagePullSecrets", lambda: [{"name": key} for key in some(rng, "qr")], 0.2)
    return made


def deployment(rng: Random) -> Object:
    made = metadata(rng)
    spec: Object = {}
    maybe(rng, spec, "replicas", lambda: rng.randint(0, 2))
    maybe(rng, spec, "paused", lambda: rng.random() < 0.5, 0.2)
    maybe(rng, spec, "strategy", lambda: rng.choice([{"type": "Recreate", "rollingUpdate": None}, {"type": "RollingUpdate"}]), 0.2)
    maybe(rng, spec, "template", lambda: {"spec": pod_spec(rng)}, 0.8)
    if spec:
        made["spec"] = spec
    return merged(deployment_base(rng), made) if rng.random() < 0.7 else made


def deployment_base(rng: Random) -> Object:
    pod = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [container(rng, "a")]}}
    return {"spec": {"selector": {"matchLabels": {"app": "x"}}, "template": pod}}


def within(obj: Object, key: str) -> Object:
    """The map at a key, made where there is none."""
    if not isinstance(obj.get(key), dict):
        obj[key] = {}
    found: Object = obj[key]
    return found


def deployment_directives(rng: Random, patch: Object) -> None:
    pod = within(within(within(patch, "spec"), "template"), "spec")
    containers = pod.get("containers") or []
    if containers and rng.random() < 0.3:
        victim = rng.choice(containers)
        containers[containers.index(victim)] = {"name": victim["name"], "$patch": "delete"}
    if containers and rng.random() < 0.15:
        containers.append({"$patch": "replace"})
    if rng.random() < 0.3:
        names = [item["name"] for item in containers if item.get("$patch") is None and "name" in item]
        pod_order = names + [name for name in some(rng, "abc") if name not in names]
        if pod_order:
            pod["$setElementOrder/containers"] = [{"name": name} for name in pod_order]
    if containers and rng.random() < 0.05:
        containers[0].pop("name", None)
    if rng.random() < 0.2 and "finalizers" not in within(patch, "metadata"):  # Both together have no defined order.
        within(patch, "metadata")["$deleteFromPrimitiveList/finalizers"] = ["x.io/a"]
    if rng.random() < 0.2:
        within(patch, "spec")["strategy"] = {"$retainKeys": ["type"], "type": "Recreate"}


def damaged_deployment(rng: Random, config: Object) -> None:
    containers = within(within(within(config, "spec"), "template"), "spec").setdefault("containers", [])
    containers += rng.choice(
        [
            [container(rng, "a"), container(rng, "a")],
            [{"image": "i1"}],
            [None],
            ["text"],
            [{"name": "z", "ports": [{"name": "no-key"}, {"protocol": "UDP"}]}],
            [{"name": "z", "resources": {"limits": [1]}, "stdin": "yes", "args": {"x": 1}}],
        ]
    )


# Service ---------------------------------------------------------------------------------------------------------------------


EXTERNAL = {"type": "ExternalName", "externalName": "x.example.com"}


def service_port(rng: Random, number: int) -> Object:
    made: Object = {"name": f"p{number}", "port": number}
    maybe(rng, made, "targetPort", lambda: rng.choice([80, "http"]))
    maybe(rng, made, "protocol", lambda: "TCP")
    return made


def service(rng: Random) -> Object:
    """Of the one type that gets no addresses allocated."""
    made = metadata(rng)
    spec: Object = dict(EXTERNAL)
    maybe(rng, spec, "ports", lambda: [service_port(rng, number) for number in some(rng, [80, 443, 8080])], 0.8)
    maybe(rng, spec, "selector", lambda: text_map(rng))
    maybe(rng, spec, "sessionAffinity", lambda: rng.choice(["None", "ClientIP"]), 0.3)
    made["spec"] = spec
    return made


# A custom resource -----------------------------------------------------------------------------------------------------------

TEXT = {"type": "string"}
PAIR = {"type": "object", "properties": {"a": TEXT, "b": TEXT}}
CRD_SPEC = {
    "type": "object",
    "properties": {
        "text": TEXT,
        "count": {"type": "integer"},
        "flag": {"type": "boolean", "nullable": True},
        "either": {"x-kubernetes-int-or-string": True},
        "tags": {"type": "array", "items": TEXT, "x-kubernetes-list-type": "set"},
        "whole": {"type": "array", "items": PAIR},
        "pair": {**PAIR, "x-kubernetes-map-type": "atomic"},
        "parts": PAIR,
        "labels": {"type": "object", "additionalProperties": TEXT},
        "things": {"type": "object", "additionalProperties": PAIR},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "named": {
            "type": "array",
            "items": {"type": "object", "required": ["name"], "properties": {"name": TEXT, "parts": PAIR, "value": TEXT}},
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
        },
        "ports": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["port"],
                "properties": {"port": {"type": "integer"}, "protocol": {**TEXT, "default": "TCP"}, "note": TEXT},
            },
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["port", "protocol"],
        },
    },
}
CRD_SCHEMA = {"type": "object", "properties": {"spec": CRD_SPEC, "status": {"type": "object", "properties": {"seen": TEXT}}}}


def crd() -> Object:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"gadgets.{CRD_GROUP}"},
        "spec": {
            "group": CRD_GROUP,
            "scope": "Namespaced",
            "names": {"plural": "gadgets", "kind": "Gadget"},
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": version == "v1",
                    "schema": {"openAPIV3Schema": CRD_SCHEMA},
                    "subresources": {"status": {}},
                }
                for version in ("v1", "v2")
            ],
        },
    }


def pair(rng: Random) -> Object:
    return {key: rng.choice("12") for key in some(rng, "ab")}


def free(rng: Random) -> Any:
    return rng.choice([1, "x", True, None, {}, [], [1, 2], {"p": 1}, {"p": {"q": rng.randint(0, 2)}}, {"l": [{"a": 1}]}])


def gadget(rng: Random) -> Object:
    made = metadata(rng)
    spec: Object = {}
    maybe(rng, spec, "text", lambda: rng.choice("xy"), 0.3)
    maybe(rng, spec, "count", lambda: rng.randint(0, 2), 0.3)
    maybe(rng, spec, "flag", lambda: rng.choice([True, False, None]), 0.3)
    maybe(rng, spec, "either", lambda: rng.choice([1, "1", "50%"]), 0.2)
    maybe(rng, spec, "tags", lambda: some(rng, "abcd", 4), 0.4)
    maybe(rng, spec, "whole", lambda: [pair(rng) for _ in some(rng, "12", 2)], 0.3)
    maybe(rng, spec, "pair", lambda: pair(rng), 0.3)
    maybe(rng, spec, "parts", lambda: pair(rng), 0.4)
    maybe(rng, spec, "labels", lambda: text_map(rng), 0.4)
    maybe(rng, spec, "things", lambda: {key: pair(rng) for key in some(rng, "xy", 2)}, 0.4)
    maybe(rng, spec, "free", lambda: {key: free(rng) for key in some(rng, "fgh")}, 0.4)
    maybe(rng, spec, "named", lambda: [named(rng, key) for key in some(rng, "nopq", 4)], 0.5)
    maybe(rng, spec, "ports", lambda: [custom_port(rng, key) for key in some(rng, [80, 9, 443])], 0.5)
    if spec:
        made["spec"] = spec
    return made


def named(rng: Random, name: str) -> Object:
    made: Object = {"name": name}
    maybe(rng, made, "value", lambda: rng.choice("12"))
    maybe(rng, made, "parts", lambda: pair(rng), 0.3)
    return made


def custom_port(rng: Random, number: int) -> Object:
    made: Object = {"port": number}
    maybe(rng, made, "protocol", lambda: rng.choice(["TCP", "UDP"]), 0.4)
    maybe(rng, made, "note", lambda: rng.choice("12"), 0.4)
    return made


def damaged_gadget(rng: Random, config: Object) -> None:
    spec = within(config, "spec")
    spec |= rng.choice(
        [
            {"tags": ["a", "b", "a"]},
            {"tags": [{}]},
            {"tags": [None]},
            {"tags": "a"},
            {"named": [{"value": "1"}]},
            {"named": [{"name": "n"}, {"name": "n"}]},
            {"ports": [{"port": 80}, {"port": 80, "protocol": "TCP"}]},
            {"count": "1"},
            {"unknown": {"x": 1}},
            {"text": 1},
            {"parts": {"c": "1"}},
            {"flag": "true"},
            {"pair": [1]},
        ]
    )


def gadget_status(rng: Random) -> Object:
    return {"status": {"seen": rng.choice("12")} if rng.random() < 0.8 else {}}


def deployment_status(rng: Random) -> Object:
    status: Object = {}
    maybe(rng, status, "observedGeneration", lambda: rng.randint(1, 3))
    maybe(rng, status, "conditions", lambda: [{"type": key, "status": rng.choice(["True", "False"])} for key in some(rng, "PQ")])
    return {"status": status}


KINDS = (
    Kind(
        "ConfigMap",
        "v1",
        "/api/v1/namespaces/{namespace}/configmaps",
        config_map,
        lambda rng: {},
        damage=damaged_config_map,
    ),
    Kind(
        "Deployment",
        "apps/v1",
        "/apis/apps/v1/namespaces/{namespace}/deployments",
        deployment,
        deployment_base,
        status=deployment_status,
        damage=damaged_deployment,
        sprinkle=deployment_directives,
    ),
    Kind(
        "Service",
        "v1",
        "/api/v1/namespaces/{namespace}/services",
        service,
        lambda rng: {"spec": dict(EXTERNAL)},
    ),
    Kind(
        "Gadget",
        f"{CRD_GROUP}/v1",
        f"/apis/{CRD_GROUP}/v1/namespaces/{{namespace}}/gadgets",
        gadget,
        lambda rng: {},
        custom=True,
        versions=(f"{CRD_GROUP}/v2",),
        status=gadget_status,
        damage=damaged_gadget,
    ),
)
