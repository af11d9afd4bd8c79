"""Which API groups the server carries, and where each one's Go types live. Everything else in this package follows from it."""

from __future__ import annotations

from typing import Final

KUBERNETES: Final = "v1.35.8"
STAGING: Final = "v0.35.8"

GROUP_VERSIONS: Final = (
    ("", "v1"),
    ("admissionregistration.k8s.io", "v1"),
    ("apiextensions.k8s.io", "v1"),
    ("apiregistration.k8s.io", "v1"),
    ("apps", "v1"),
    ("authentication.k8s.io", "v1"),
    ("authorization.k8s.io", "v1"),
    ("autoscaling", "v1"),
    ("autoscaling", "v2"),
    ("batch", "v1"),
    ("certificates.k8s.io", "v1"),
    ("coordination.k8s.io", "v1"),
    ("discovery.k8s.io", "v1"),
    ("events.k8s.io", "v1"),
    ("flowcontrol.apiserver.k8s.io", "v1"),
    ("networking.k8s.io", "v1"),
    ("node.k8s.io", "v1"),
    ("policy", "v1"),
    ("rbac.authorization.k8s.io", "v1"),
    ("scheduling.k8s.io", "v1"),
    ("storage.k8s.io", "v1"),
)

UNSERVED: Final = frozenset({"pods/proxy", "nodes/proxy", "services/proxy"})
"""Subresources that only a kubelet could answer."""
UNSERVED_RESOURCES: Final = frozenset({"componentstatuses"})


def document(group: str, version: str) -> str:
    """Stem of the per-version files under api/ in the Kubernetes module."""
    return f"apis__{group}__{version}" if group else f"api__{version}"
