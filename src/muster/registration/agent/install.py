"""What has to be on a managed cluster before an agent can run there: the definition of claims, a namespace, an account with rights.

It needs an administrator's rights; the agent itself then runs as `klusterlet-registration-sa`. That account reads nodes and
claims, keeps namespaces that cluster sets ask for, and has its own namespace's Secrets, events and leases, and the Secrets and
leases of the namespace that addons run in, nothing else. Several agents may share a cluster, each in a namespace of its own.
"""

from __future__ import annotations

from typing import Final

from muster.api import Document
from muster.api.addon.v1alpha1 import DEFAULT_NAMESPACE
from muster.api.cluster.v1 import GROUP
from muster.api.crds import SPOKE, definitions
from muster.machinery.clock import SYSTEM, Clock
from muster.machinery.objects import GVR
from muster.registration.agent.options import AgentOptions
from muster.registration.kinds import CLUSTER_CLAIMS
from muster.registration.names import AGENT_NAMESPACE
from muster.runtime.client import KubeClient
from muster.runtime.client.builtin import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, CRDS, ROLE_BINDINGS, ROLES, SERVICE_ACCOUNTS
from muster.runtime.install import READ, apply_all, await_definitions, binding, ensure_namespace, named, rule

MANAGER: Final = "muster-agent-install"
ACCOUNT: Final = "klusterlet-registration-sa"
CLUSTER_ROLE: Final = "open-cluster-management:klusterlet-registration:agent"
ROLE: Final = "open-cluster-management:management:klusterlet-registration:agent"
CLAIMS: Final = tuple(kind for kind in SPOKE if kind.resource.plural == CLUSTER_CLAIMS.plural)

CLUSTER_RULES: Final = (
    rule("", ["nodes"], READ),
    rule("", ["namespaces"], [*READ, "create", "update", "patch"]),
    rule(GROUP, ["clusterclaims"], READ),
    rule("about.k8s.io", ["clusterproperties"], READ),
)
ADDON_ROLE: Final = "open-cluster-management:klusterlet-registration:addon-management"
ADDON_RULES: Final = (
    rule("", ["secrets"], [*READ, "create", "update", "patch", "delete"]),
    rule("coordination.k8s.io", ["leases"], READ),
)
"""In namespaces of addons: their credentials for the hub are kept there, and how they are is seen there."""
NAMESPACE_RULES: Final = (
    rule("", ["secrets"], [*READ, "create", "update", "patch", "delete"]),
    rule("events.k8s.io", ["events"], ["create", "patch", "update"]),
    rule("coordination.k8s.io", ["leases"], ["get", "watch", "create", "update"]),
)


async def install(client: KubeClient, options: AgentOptions, *, clock: Clock = SYSTEM) -> None:
    """Everything, and wait until claims are served. Raises InstallError and what the client raises."""
    for namespace in (options.namespace, DEFAULT_NAMESPACE):
        await ensure_namespace(client, namespace)
    await apply_all(client, [(CRDS, document) for document in definitions(CLAIMS)], MANAGER)
    await apply_all(client, permissions(options.namespace), MANAGER)
    await await_definitions(client, [kind.name for kind in CLAIMS], clock)


def permissions(namespace: str) -> list[tuple[GVR, Document]]:
    """The account of the agent in a namespace, and its rights."""
    agent = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": namespace}
    suffix = "" if namespace == AGENT_NAMESPACE else f":{namespace}"
    cluster_binding, addon_binding = f"{CLUSTER_ROLE}{suffix}", f"{ADDON_ROLE}{suffix}"
    return [
        (SERVICE_ACCOUNTS, {"metadata": named(ACCOUNT, namespace)}),
        (CLUSTER_ROLES, {"metadata": named(CLUSTER_ROLE), "rules": list(CLUSTER_RULES)}),
        (CLUSTER_ROLE_BINDINGS, binding(cluster_binding, "ClusterRole", CLUSTER_ROLE, agent)),
        (ROLES, {"metadata": named(ROLE, namespace), "rules": list(NAMESPACE_RULES)}),
        (ROLE_BINDINGS, binding(ROLE, "Role", ROLE, agent, namespace)),
        (CLUSTER_ROLES, {"metadata": named(ADDON_ROLE), "rules": list(ADDON_RULES)}),
        (ROLE_BINDINGS, binding(addon_binding, "ClusterRole", ADDON_ROLE, agent, DEFAULT_NAMESPACE)),
    ]
