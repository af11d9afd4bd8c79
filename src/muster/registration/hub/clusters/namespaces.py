"""Whether an existing namespace of a cluster's name may become the cluster's.

An agent may update the Leases of its cluster's namespace and write events there, and addons get permissions there too. A namespace
that was created for something else must not become a cluster's because a new cluster chose its name: the first acceptance is
refused until the namespace has the label that the hub sets on namespaces which it creates. A cluster that registers again finds its
old namespace with the label.
"""

from __future__ import annotations

from muster.machinery.objects import Object
from muster.registration.names import CLUSTER_LABEL
from muster.runtime.client import KubeClient, NotFound
from muster.runtime.client.builtin import NAMESPACES


async def namespace_named(client: KubeClient, name: str) -> Object | None:
    try:
        return await client.get(NAMESPACES, name)
    except NotFound:
        return None


def is_terminating(namespace: Object | None) -> bool:
    return namespace is not None and bool((namespace.get("status") or {}).get("phase") == "Terminating")


def foreign_namespace_problem(cluster: str, namespace: Object | None) -> str:
    """Why a cluster with this namespace cannot be accepted; empty if it can."""
    if namespace is None:
        return ""
    labels = namespace["metadata"].get("labels") or {}
    if labels.get(CLUSTER_LABEL) == cluster:
        return ""
    return (
        f'namespace "{cluster}" exists and is not marked as this cluster\'s, whose agents could write there; '
        f"join the cluster under another name, or label the namespace: kubectl label namespace {cluster} {CLUSTER_LABEL}={cluster}"
    )
