"""Asks Go's codecs for one event of each kind and writes the answers down: `python -m tests.interop.cloudevents.record`."""

from __future__ import annotations

import base64
import json
from typing import Any

from tests.interop.cloudevents.oracle import VERSIONS, started
from tests.unit.transport.golden import DIRECTORY

CLUSTER = "cluster.open-cluster-management.io.v1.managedclusters"
SIGNING = "certificates.k8s.io.v1.certificatesigningrequests"
LEASES = "coordination.k8s.io.v1.leases"
EVENTS = "events.k8s.io.v1.events"
ADDONS = "addon.open-cluster-management.io.{}.managedclusteraddons"
TOKENS = "authentication.k8s.io.v1.tokenrequests"
WORKS = "io.open-cluster-management.works.v1alpha1.manifestbundles"
UID = "55555555-5555-5555-5555-555555555555"
SINCE = "2026-01-02T03:04:05Z"
DELETED = "2026-01-02T03:04:06Z"

_CLUSTER = {"metadata": {"name": "cluster1"}, "spec": {"hubAcceptsClient": False}}
_STORED = {"name": "cluster1", "uid": UID, "resourceVersion": "1234", "generation": 1}
_LEASE: dict[str, Any] = {
    "metadata": {
        "name": "managed-cluster-lease",
        "namespace": "cluster1",
        "uid": UID,
        "resourceVersion": "99",
        "labels": {"open-cluster-management.io/cluster-name": "cluster1"},
    },
    "spec": {"renewTime": "2026-01-02T03:04:05.678900Z"},
}
_WORK_METADATA = {
    "name": "w1",
    "namespace": "cluster1",
    "uid": UID,
    "resourceVersion": "500",
    "generation": 3,
    "creationTimestamp": SINCE,
    "annotations": {"logging.open-cluster-management.io/op-id": "o<1>"},
}
_MANIFEST = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cm", "namespace": "default"}, "data": {"a": "b"}}
_AGENT_METADATA = {
    "name": "w1",
    "namespace": "cluster1",
    "uid": UID,
    "generation": 3,
    "creationTimestamp": SINCE,
    "labels": {"cloudevents.open-cluster-management.io/originalsource": "kube"},
    "annotations": {"cloudevents.open-cluster-management.io/datatype": WORKS},
    "finalizers": ["cluster.open-cluster-management.io/manifest-work-cleanup"],
}
_CONDITION = {
    "type": "Applied",
    "status": "True",
    "observedGeneration": 3,
    "lastTransitionTime": SINCE,
    "reason": "AppliedManifestWorkComplete",
    "message": "1 < 2 & 3 > 2",
}
_MANIFEST_STATUS = {
    "resourceMeta": {
        "ordinal": 0,
        "group": "",
        "version": "v1",
        "kind": "ConfigMap",
        "resource": "configmaps",
        "name": "cm",
        "namespace": "default",
    },
    "statusFeedback": {"values": [{"name": "a", "fieldValue": {"type": "String", "string": "b"}}]},
    "conditions": [_CONDITION],
}


def _encode(kind: str, action: str, source: str, body: dict[str, Any]) -> dict[str, Any]:
    return {"op": "encode", "type": f"{kind}.{action}", "source": source, "object": body}


QUESTIONS: dict[str, dict[str, Any]] = {
    "cluster create": _encode(CLUSTER, "spec.create_request", "cluster1", _CLUSTER),
    "cluster update": _encode(CLUSTER, "spec.update_request", "kube", {**_CLUSTER, "metadata": _STORED}),
    "cluster status": _encode(CLUSTER, "status.update_request", "cluster1", {**_CLUSTER, "metadata": _STORED}),
    "cluster deleting": _encode(
        CLUSTER, "spec.update_request", "kube", {**_CLUSTER, "metadata": {**_STORED, "deletionTimestamp": DELETED}}
    ),
    "csr create": _encode(
        SIGNING,
        "spec.create_request",
        "cluster1",
        {
            "metadata": {"name": "cluster1-abcde", "labels": {"open-cluster-management.io/cluster-name": "cluster1"}},
            "spec": {
                "request": "UEVN",
                "signerName": "open-cluster-management.io/grpc",
                "expirationSeconds": 3600,
                "usages": ["digital signature", "key encipherment", "client auth"],
            },
        },
    ),
    "lease update": _encode(LEASES, "spec.update_request", "cluster1", _LEASE),
    "lease deleted": _encode(
        LEASES, "spec.delete_request", "kube", {**_LEASE, "metadata": {**_LEASE["metadata"], "deletionTimestamp": DELETED}}
    ),
    "event create": _encode(
        EVENTS, "spec.create_request", "cluster1", {"metadata": {"name": "e1", "namespace": "cluster1"}, "reason": "R", "note": "n"}
    ),
    **{
        f"addon {version} status": _encode(
            ADDONS.format(version),
            "status.update_request",
            "cluster1",
            {"metadata": {"name": "a", "namespace": "cluster1", "uid": UID, "resourceVersion": "7"}},
        )
        for version in ("v1alpha1", "v1beta1")
    },
    "token create": _encode(
        TOKENS,
        "spec.create_request",
        "cluster1",
        {"metadata": {"name": "sa", "namespace": "cluster1", "uid": UID}, "spec": {"expirationSeconds": 3600}},
    ),
    "work create": _encode(
        WORKS,
        "spec.create_request",
        "kube",
        {
            "metadata": _WORK_METADATA,
            "spec": {
                "workload": {"manifests": [_MANIFEST]},
                "deleteOption": {"propagationPolicy": "Orphan"},
                "manifestConfigs": [
                    {"resourceIdentifier": {"group": "", "resource": "configmaps", "name": "cm", "namespace": "default"}}
                ],
                "executor": {"subject": {"type": "ServiceAccount", "serviceAccount": {"namespace": "default", "name": "sa"}}},
            },
        },
    ),
    "work deleting": _encode(
        WORKS,
        "spec.update_request",
        "kube",
        {"metadata": {**_WORK_METADATA, "deletionTimestamp": DELETED}, "spec": {"workload": {"manifests": [_MANIFEST]}}},
    ),
    "work status": _encode(
        WORKS,
        "status.update_request",
        "cluster1-work-agent",
        {
            "metadata": _AGENT_METADATA,
            "status": {"conditions": [_CONDITION], "resourceStatus": {"manifests": [_MANIFEST_STATUS]}},
        },
    ),
    "work status of nothing": _encode(WORKS, "status.update_request", "cluster1-work-agent", {"metadata": _AGENT_METADATA}),
    "resync request": {
        "op": "build",
        "type": f"{WORKS}.spec.resync_request",
        "source": "cluster1-work-agent",
        "cluster": "cluster1",
        "object": {"resourceVersions": [{"resourceID": UID, "resourceVersion": 3}]},
    },
    "resync request of nothing": {
        "op": "build",
        "type": f"{LEASES}.spec.resync_request",
        "source": "cluster1",
        "cluster": "cluster1",
        "object": {"resourceVersions": []},
    },
    "resync deletion": {
        "op": "build",
        "type": f"{WORKS}.spec.resync_response",
        "source": "source",
        "cluster": "cluster1",
        "resourceid": UID,
        "deleted": DELETED,
    },
}


def main() -> None:
    for version in VERSIONS:
        with started(version) as oracle:
            cases = [
                {"name": name, "question": question, "wire": base64.b64encode(oracle.ask(**question)["wire"]).decode()}
                for name, question in QUESTIONS.items()
            ]
        path = DIRECTORY / f"ocm-{version}.json"
        path.write_text("[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]\n")
        print(f"{path.name}: {len(cases)} answers")


if __name__ == "__main__":
    main()
