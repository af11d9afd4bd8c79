"""Claims, volumes and volume attributes classes stay while they are in use, and go when they are not."""

from typing import Any

from tests.differential.cases.pods import ACCOUNT, pod
from tests.differential.dsl import Request, case, delete, get, merge, post, setup

VOLUMES = "/api/v1/persistentvolumes"
CLASSES = "/apis/storage.k8s.io/v1/volumeattributesclasses"
SPEC = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}


def claim(name: str = "a", **spec: Any) -> Request:
    return post("persistentvolumeclaims", {"metadata": {"name": name}, "spec": {**SPEC, **spec}})


def volume() -> Request:
    spec = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/none"}}
    return post(VOLUMES, {"metadata": {"name": "${slug}"}, "spec": spec})


def attributes_class() -> Request:
    return post(CLASSES, {"metadata": {"name": "${slug}"}, "driverName": "none.example", "parameters": {"iops": "1"}})


def user(name: str, **spec: Any) -> Request:
    return post("pods", pod(name, volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "a"}}], **spec))


def gone(path: str) -> Request:
    return get(path, until=("code", 404), pick=lambda b: b["reason"])


def going(path: str) -> Request:
    """Deleted, and still there for the finalizer."""
    return get(path, present="metadata.deletionTimestamp", pick=lambda b: b["metadata"]["finalizers"])


CASES = [
    case("an unused claim goes", setup(claim()), delete("persistentvolumeclaims/a"), gone("persistentvolumeclaims/a")),
    case(
        "a claim waits for the pod that uses it",
        ACCOUNT,
        setup(claim()),
        setup(user("p", nodeName="n")),
        delete("persistentvolumeclaims/a"),
        going("persistentvolumeclaims/a"),
        setup(delete("pods/p", {"gracePeriodSeconds": 0})),
        gone("persistentvolumeclaims/a"),
    ),
    case(
        "a claim waits for no pod without a node",
        ACCOUNT,
        setup(claim()),
        setup(user("p")),
        setup(delete("persistentvolumeclaims/a")),
        gone("persistentvolumeclaims/a"),
    ),
    case(
        "the protection of a claim comes back",
        setup(claim()),
        merge("persistentvolumeclaims/a", {"metadata": {"finalizers": None}}, pick=lambda b: b["metadata"].get("finalizers")),
        get("persistentvolumeclaims/a", present="metadata.finalizers", pick=lambda b: b["metadata"]["finalizers"]),
    ),
    case("a volume that is not bound goes", setup(volume()), delete(VOLUMES + "/${slug}"), gone(VOLUMES + "/${slug}")),
    case(
        "a bound volume waits until it is released",
        setup(volume()),
        setup(merge(VOLUMES + "/${slug}/status", {"status": {"phase": "Bound"}})),
        delete(VOLUMES + "/${slug}", pick=lambda b: b["metadata"]["finalizers"]),
        going(VOLUMES + "/${slug}"),
        setup(merge(VOLUMES + "/${slug}/status", {"status": {"phase": "Released"}})),
        gone(VOLUMES + "/${slug}"),
    ),
    case(
        "a volume attributes class waits for the claims that name it",
        setup(attributes_class()),
        setup(claim(volumeAttributesClassName="${slug}")),
        setup(delete(CLASSES + "/${slug}")),
        going(CLASSES + "/${slug}"),
        setup(delete("persistentvolumeclaims/a")),
        gone(CLASSES + "/${slug}"),
    ),
    case(
        "claims go with their namespace",
        setup(claim()),
        setup(delete("/api/v1/namespaces/${ns}")),
        gone("/api/v1/namespaces/${ns}"),
    ),
]
