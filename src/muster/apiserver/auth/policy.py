"""The RBAC policy a cluster is born with."""

from __future__ import annotations

from muster.apiserver.registry.resource import Object

_RBAC = "rbac.authorization.k8s.io"


def bootstrap_policy() -> list[Object]:
    return [
        {
            "apiVersion": f"{_RBAC}/v1",
            "kind": "ClusterRole",
            "metadata": {"name": "cluster-admin", "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"}},
            "rules": [
                {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
                {"nonResourceURLs": ["*"], "verbs": ["*"]},
            ],
        },
    ]
