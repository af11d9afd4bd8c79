"""What a write through `/status` does to an object's metadata: most old kinds keep it, some restore part or all of it."""

import json
import re
from collections.abc import Mapping
from typing import Any

from tests.differential.cases.pods import ACCOUNT, pod
from tests.differential.dsl import Case, Request, apply, case, delete, get, merge, post, put, setup

LABELS = {"matchLabels": {"a": "b"}}
TEMPLATE: Mapping[str, Any] = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "main", "image": "none"}]}}
KINDS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "Service": ("services", {"spec": {"ports": [{"port": 80}]}}),
    "Ingress": ("networking.k8s.io/v1:ingresses", {"spec": {"defaultBackend": {"service": {"name": "a", "port": {"number": 1}}}}}),
    "Deployment": ("apps/v1:deployments", {"spec": {"replicas": 0, "selector": LABELS, "template": TEMPLATE}}),
    "ReplicaSet": ("apps/v1:replicasets", {"spec": {"replicas": 0, "selector": LABELS, "template": TEMPLATE}}),
    "PodDisruptionBudget": ("policy/v1:poddisruptionbudgets", {"spec": {"selector": LABELS}}),
    "CronJob": (
        "batch/v1:cronjobs",
        {
            "spec": {
                "schedule": "0 0 1 1 *",
                "suspend": True,
                "jobTemplate": {"spec": {"template": {"spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}}}},
            }
        },
    ),
    "Pod": ("pods", {"spec": pod()["spec"]}),
}
META = {
    "labels": {"new": "label"},
    "annotations": {"new.io/a": "b"},
    "finalizers": ["a.io/hold"],
    "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": "${owner}"}],
}


_OWNER = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def written(body: Any) -> Any:
    """What clients may set of metadata, and whose it is."""
    if "metadata" not in body or body.get("kind") == "Status":
        return body
    # Owners are told apart by uid, also where no mask finds them.
    meta = json.loads(_OWNER.sub("<uid>", json.dumps(body["metadata"])))
    return {field: meta.get(field) for field in (*META, "generation", "managedFields")}


def of_kind(kind: str) -> Case:
    path, spec = KINDS[kind]
    group = path.rpartition(":")[0] or "v1"
    made = {"metadata": {"name": "o", "labels": {"old": "label"}, "annotations": {"old.io/a": "b"}}, **spec}
    end = setup(merge(f"{path}/o", {"metadata": {"finalizers": None}}))
    replaced = {"apiVersion": group, "kind": kind, "metadata": {"name": "o", "labels": {"other": "label"}}, **spec, "status": {}}
    applied = {"apiVersion": group, "kind": kind, "metadata": {"name": "o", "annotations": {"applied.io/a": "b"}}}
    steps: list[Request] = [
        setup(post("configmaps", {"metadata": {"name": "owner"}}, save={"owner": "metadata.uid"})),
        setup(post(path, made)),
        merge(f"{path}/o/status", {"metadata": META}, pick=written),
        put(f"{path}/o/status", replaced, pick=written),
        apply(f"{path}/o/status", applied, pick=written),
        get(f"{path}/o", pick=written),
        end,
    ]
    return case(f"metadata written through the status of a {kind}", ACCOUNT, *steps)


CASES = [
    *(of_kind(kind) for kind in KINDS),
    case(
        "labels of a status are checked",
        setup(post("services", {"metadata": {"name": "o"}, **KINDS["Service"][1]})),
        merge("services/o/status", {"metadata": {"labels": {"not a label": "x"}}}),
        merge("services/o/status", {"metadata": {"finalizers": ["unqualified"]}}),
    ),
    case(
        "the last finalizer of a deleted object may go with its status",
        setup(post("services", {"metadata": {"name": "o", "finalizers": ["a.io/hold"]}, **KINDS["Service"][1]})),
        setup(delete("services/o")),
        merge("services/o/status", {"metadata": {"finalizers": None}}, pick=lambda b: b["kind"]),
        get("services/o", pick=lambda b: b["reason"]),
    ),
]
