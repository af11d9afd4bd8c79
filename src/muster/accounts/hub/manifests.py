"""Manifests of the agent for a managed cluster: its ServiceAccount, its permissions there, and its Deployment.

The permissions are the minimum: ServiceAccounts and their tokens in the agent's own namespace, its lease, and TokenReviews. RBAC
cannot express "ServiceAccounts with a label", so everybody who can act as the agent can get a token of every ServiceAccount in
that namespace; do not put others into it.
"""

from __future__ import annotations

from typing import Final

from muster.accounts.names import ADDON, AGENT
from muster.addon.agent_pods import container_basics, install_namespace, pod_basics, probe
from muster.addon.templates.registrations import KUBECONFIG
from muster.machinery.objects import Object
from muster.runtime.install import RBAC_GROUP, READ, binding, named, rule

COMMAND: Final = "managed-serviceaccount-agent"
CLUSTER_ROLE: Final = f"open-cluster-management:{ADDON}:addon-agent"
HEALTH_PORT: Final = 8000

NAMESPACE_RULES: Final = (
    rule("", ["serviceaccounts"], [*READ, "create", "delete"]),
    rule("", ["serviceaccounts/token"], ["create"]),
    rule("coordination.k8s.io", ["leases"], ["get", "create", "update"]),
)
CLUSTER_RULES: Final = (rule("authentication.k8s.io", ["tokenreviews"], ["create"]),)


def agent_manifests(cluster: str, namespace: str, image: str) -> list[Object]:
    subject = {"kind": "ServiceAccount", "name": AGENT, "namespace": namespace}
    return [
        *install_namespace(namespace),
        _object("v1", "ServiceAccount", {"metadata": named(AGENT, namespace)}),
        _rbac("Role", {"metadata": named(AGENT, namespace), "rules": list(NAMESPACE_RULES)}),
        _rbac("RoleBinding", binding(AGENT, "Role", AGENT, subject, namespace)),
        _rbac("ClusterRole", {"metadata": named(CLUSTER_ROLE), "rules": list(CLUSTER_RULES)}),
        _rbac("ClusterRoleBinding", binding(CLUSTER_ROLE, "ClusterRole", CLUSTER_ROLE, subject)),
        _deployment(cluster, namespace, image),
    ]


def _deployment(cluster: str, namespace: str, image: str) -> Object:
    # Upstream's labels: the selector of an existing Deployment is immutable, and upstream's addon may have been here before.
    labels = {"addon-agent": ADDON}
    return agent_deployment(AGENT, namespace, labels, image, COMMAND, cluster)


def agent_deployment(name: str, namespace: str, labels: dict[str, str], image: str, command: str, cluster: str) -> Object:
    """The Deployment of an addon agent that is a command of Muster's image; its ServiceAccount has the same name."""
    pod = {**pod_basics(name), "containers": [_container(command, cluster, image)]}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}}
    return _object("apps/v1", "Deployment", {"metadata": {**named(name, namespace), "labels": labels}, "spec": spec})


def _container(command: str, cluster: str, image: str) -> Object:
    return {
        **container_basics("addon-agent", image),
        "args": [command, f"--cluster-name={cluster}", f"--kubeconfig={KUBECONFIG}", f"--health-port={HEALTH_PORT}"],
        "ports": [{"name": "health", "containerPort": HEALTH_PORT, "protocol": "TCP"}],
        "resources": {"requests": {"cpu": "10m", "memory": "64Mi"}},
        "livenessProbe": probe("/healthz", "health"),
        "readinessProbe": probe("/readyz", "health"),
    }


def _rbac(kind: str, body: Object) -> Object:
    return _object(f"{RBAC_GROUP}/v1", kind, body)


def _object(api_version: str, kind: str, body: Object) -> Object:
    return {"apiVersion": api_version, "kind": kind, **body}
