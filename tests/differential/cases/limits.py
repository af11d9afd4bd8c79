"""LimitRanges and RuntimeClasses: what they add to new pods, and what they refuse."""

from typing import Any

from tests.differential.cases.pods import ACCOUNT, pod
from tests.differential.dsl import Request, case, delete, get, json_patch, merge, post, setup

CLASSES = "/apis/node.k8s.io/v1/runtimeclasses"
CLAIM = {"accessModes": ["ReadWriteOnce"]}


def limits(*items: dict[str, Any], name: str = "bounds") -> Request:
    return setup(post("limitranges", {"metadata": {"name": name}, "spec": {"limits": list(items)}}))


def container(name: str = "main", **resources: Any) -> dict[str, Any]:
    return {"name": name, "image": "example/main:1", **({"resources": resources} if resources else {})}


def asked(body: Any) -> Any:
    """What a pod asks for, or why it may not."""
    if body["kind"] == "Status":
        return body
    spec = body["spec"]
    return {
        "containers": [each["resources"] for each in spec["containers"]],
        "init": [each["resources"] for each in spec.get("initContainers", ())],
        "annotations": body["metadata"].get("annotations"),
        "qos": body["status"]["qosClass"],
        "owners": [owner.get("manager") for owner in body["metadata"]["managedFields"]],
    }


def new(*containers: dict[str, Any], name: str = "p", **spec: Any) -> Request:
    return post("pods", pod(name, containers=list(containers), **spec), pick=asked, not_yet=None)


def claim(name: str, storage: str) -> Request:
    return post(
        "persistentvolumeclaims", {"metadata": {"name": name}, "spec": {**CLAIM, "resources": {"requests": {"storage": storage}}}}
    )


def runtime_class(**fields: Any) -> Request:
    return setup(post(CLASSES, {"metadata": {"name": "${slug}"}, "handler": "runc", **fields}))


def placed(body: Any) -> Any:
    if body["kind"] == "Status":
        return body
    return {field: body["spec"].get(field) for field in ("overhead", "nodeSelector", "tolerations", "runtimeClassName")}


def of_class(name: str = "p", **spec: Any) -> Request:
    return post("pods", pod(name, runtimeClassName="${slug}", **spec), pick=placed)


DEFAULTS = {"type": "Container", "default": {"cpu": "500m", "memory": "512Mi"}, "defaultRequest": {"cpu": "100m"}}
REMOVED = [CLASSES + "/${slug}"]

CASES = [
    case("a container gets the namespace's defaults", ACCOUNT, limits(DEFAULTS), new(container())),
    case(
        "what a container says itself stays",
        ACCOUNT,
        limits(DEFAULTS),
        new(container(requests={"memory": "64Mi"}), container("b", limits={"cpu": "1"}), container("c", requests={"cpu": "2"})),
    ),
    case(
        "init containers get defaults, too",
        ACCOUNT,
        limits(DEFAULTS),
        new(container(), initContainers=[container("first"), {**container("side"), "restartPolicy": "Always"}]),
    ),
    case(
        "a maximum is a default",
        ACCOUNT,
        limits({"type": "Container", "max": {"cpu": "2"}, "min": {"cpu": "10m"}}),
        get("limitranges/bounds", pick=lambda b: b["spec"]),
        new(container()),
        new(container(limits={"cpu": "3"}), name="q"),
        new(container(requests={"cpu": "1m"}), name="r"),
    ),
    case(
        "bounds of containers",
        ACCOUNT,
        limits({"type": "Container", "min": {"memory": "64Mi"}}),
        new(container()),
        new(container(requests={"memory": "1Mi"})),
        new(container(limits={"memory": "32Mi"})),
        new(container(), initContainers=[container("first", requests={"memory": "0.5Gi"})]),
        new(container(requests={"memory": "128Mi"})),
    ),
    case(
        "a ratio of limit to request",
        ACCOUNT,
        limits({"type": "Container", "maxLimitRequestRatio": {"cpu": "2"}}),
        new(container()),
        new(container(requests={"cpu": "0"}, limits={"cpu": "1"})),
        new(container(requests={"cpu": "300m"}, limits={"cpu": "1"})),
        new(container(requests={"cpu": "500m"}, limits={"cpu": "1"})),
    ),
    case(
        "bounds of pods",
        ACCOUNT,
        limits({"type": "Pod", "max": {"cpu": "1"}}),
        new(container()),
        new(container(limits={"cpu": "600m"}), container("b", limits={"cpu": "600m"})),
        new(container(limits={"cpu": "600m"}), initContainers=[container("first", limits={"cpu": "1500m"})]),
        new(
            container(limits={"cpu": "500m"}),
            initContainers=[{**container("side", limits={"cpu": "600m"}), "restartPolicy": "Always"}],
        ),
        new(container(limits={"cpu": "600m"}), resources={"limits": {"cpu": "2"}}),
        new(container(limits={"cpu": "600m"}), container("b", limits={"cpu": "400m"})),
    ),
    case(
        "two ranges",
        ACCOUNT,
        limits({"type": "Container", "default": {"cpu": "1"}}),
        limits({"type": "Container", "defaultRequest": {"memory": "1Gi"}}, {"type": "Pod", "max": {"memory": "2Gi"}}, name="more"),
        new(container(limits={"memory": "3Gi"}), name="q"),
    ),
    case(
        "bounds of claims",
        limits({"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}, "max": {"storage": "5Gi"}}),
        claim("small", "500Mi"),
        claim("large", "6Gi"),
        setup(claim("fits", "2Gi")),
        merge("persistentvolumeclaims/fits", {"metadata": {"labels": {"a": "b"}}}, pick=lambda b: b["metadata"]["labels"]),
    ),
    case(
        "what was there before its bounds stays",
        ACCOUNT,
        setup(post("pods", pod())),
        setup(claim("old", "9Gi")),
        limits({"type": "Container", "min": {"cpu": "1"}}, {"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}}),
        merge("pods/p", {"metadata": {"labels": {"a": "b"}}}, pick=lambda b: b["metadata"]["labels"]),
        merge("persistentvolumeclaims/old", {"metadata": {"labels": {"a": "b"}}}),
        json_patch("persistentvolumeclaims/old", [{"op": "add", "path": "/metadata/finalizers/-", "value": "a.io/hold"}]),
        setup(delete("persistentvolumeclaims/old")),
    ),
    case("a runtime class that is not there", ACCOUNT, post("pods", pod(runtimeClassName="none"))),
    case("overhead without a class", ACCOUNT, post("pods", pod(overhead={"cpu": "1m"}))),
    case(
        "a pod gets the overhead of its class",
        ACCOUNT,
        runtime_class(overhead={"podFixed": {"cpu": "250m", "memory": "120Mi"}}),
        of_class(),
        of_class("same", overhead={"cpu": "0.25", "memory": "120Mi"}),
        of_class("other", overhead={"cpu": "1"}),
        of_class("empty", overhead={}),
        cleanup=REMOVED,
    ),
    case(
        "a pod runs where its class does",
        ACCOUNT,
        runtime_class(
            scheduling={
                "nodeSelector": {"runtime": "yes"},
                "tolerations": [
                    {"key": "a", "operator": "Exists"},
                    {"key": "b", "operator": "Equal", "value": "c", "effect": "NoSchedule"},
                ],
            }
        ),
        of_class(),
        of_class(
            "more",
            nodeSelector={"disk": "fast"},
            tolerations=[
                {"key": "a", "operator": "Equal", "value": "x", "effect": "NoExecute"},
                {"key": "b", "operator": "Exists"},
                {"key": "z", "operator": "Exists"},
            ],
        ),
        of_class("elsewhere", nodeSelector={"runtime": "no"}),
        of_class("overhead", overhead={"cpu": "1"}),
        cleanup=REMOVED,
    ),
]
