"""The installation of addon management on a hub: CRDs, an account, its role, and an aggregated role.

`install` applies all of it with one field manager and can be repeated at any time. It needs an administrator's permissions; the
manager then runs as `addon-manager-controller-sa`. Further permissions that an addon's template needs on the hub (roles for its
agents, its own signers, Secrets to sign with, further kinds of configuration) must be granted by an administrator: a ClusterRole
with the label `AGGREGATION_LABEL` is aggregated into `AGGREGATED_ROLE`, to which the manager is bound. The manager has neither
`bind` nor `escalate`, so it cannot bind a role whose permissions it does not have.
"""

from __future__ import annotations

from typing import Final

from muster.addon.framework import rules as framework
from muster.addon.framework.rules import AGGREGATED_ROLE
from muster.addon.manager import rules as manager
from muster.addon.options import AddonOptions
from muster.addon.requests import rules as requests
from muster.api import Document
from muster.api.addons import AGGREGATION_LABEL
from muster.api.crds import HUB, definitions
from muster.api.work.v1 import GROUP as WORK_GROUP
from muster.machinery.clock import SYSTEM, Clock
from muster.machinery.objects import GVR
from muster.runtime.client import KubeClient
from muster.runtime.client.builtin import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, CRDS
from muster.runtime.install import (
    READ,
    account_permissions,
    apply_all,
    await_definitions,
    binding,
    ensure_namespace,
    named,
    rule,
)
from muster.work.hub.webhooks.executors import AGENT
from muster.work.names import EXECUTE_AS

MANAGER: Final = "muster-addon-manager-install"
ACCOUNT: Final = "addon-manager-controller-sa"
LOCK: Final = "manager-lock"
"""The Lease of the manager's leader election; the name is OCM's, so that its manager and this one never lead at the same time."""

_SERVED: Final = (
    "managedclusters",
    "placements",
    "placementdecisions",
    "clustermanagementaddons",
    "managedclusteraddons",
    "addontemplates",
    "addondeploymentconfigs",
    "manifestworks",
)
KINDS: Final = tuple(kind for kind in HUB if kind.resource.plural in _SERVED)

RULES: Final[tuple[Document, ...]] = (
    rule("coordination.k8s.io", ["leases"], [*READ, "create", "update"]),
    # Works of addons run as the work agent itself.
    rule(WORK_GROUP, ["manifestworks"], [EXECUTE_AS], [AGENT.user]),
    *manager.RULES,
    *framework.RULES,
    *framework.AGGREGATION_RULES,
    *requests.RULES,
)


def role(hub: str) -> str:
    """The role of the ClusterManager `hub`'s addon manager."""
    return f"open-cluster-management:{hub}-addon-manager:controller"


def aggregated_role() -> tuple[GVR, Document]:
    """The permissions that administrators grant to addons. Only a cluster administrator can create it, since it aggregates any role
    with the label."""
    gathered = {"clusterRoleSelectors": [{"matchLabels": {AGGREGATION_LABEL: "true"}}]}
    return CLUSTER_ROLES, {"metadata": named(AGGREGATED_ROLE), "aggregationRule": gathered}


def aggregated_binding(namespace: str, hub: str) -> tuple[GVR, Document]:
    subject = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": namespace}
    name = f"open-cluster-management:{hub}-addon-manager:aggregated"
    return CLUSTER_ROLE_BINDINGS, binding(name, "ClusterRole", AGGREGATED_ROLE, subject)


def permissions(options: AddonOptions, hub: str = "cluster-manager") -> list[tuple[GVR, Document]]:
    return [
        *account_permissions(ACCOUNT, options.namespace, role(hub), RULES),
        aggregated_role(),
        aggregated_binding(options.namespace, hub),
    ]


async def install(client: KubeClient, options: AddonOptions, *, clock: Clock = SYSTEM) -> None:
    """Apply everything, and wait until the CRDs are served. Raises InstallError and the errors of the client."""
    await ensure_namespace(client, options.namespace)
    await apply_all(client, [(CRDS, document) for document in definitions(KINDS)], MANAGER)
    await apply_all(client, permissions(options), MANAGER)
    await await_definitions(client, [kind.name for kind in KINDS], clock)
