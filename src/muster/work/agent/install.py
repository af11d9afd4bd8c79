"""What has to be on a managed cluster before a work agent can run there: the definition of its records, an account, and its rights.

The agent's account may do what Kubernetes' `admin` may in every namespace, and keep what works commonly bring besides: namespaces,
definitions, roles (with `escalate` and `bind`: what an executor may not is refused before it is written), webhooks, priority
classes. Whatever else works are to bring is granted by a ClusterRole with the label `AGGREGATE`. What it writes it also watches;
rights and definitions it watches to notice when what was refused may go on.
"""

from __future__ import annotations

from typing import Final

from muster.api import Document
from muster.api.crds import SPOKE, definitions
from muster.api.work.v1 import GROUP
from muster.machinery.clock import SYSTEM, Clock
from muster.machinery.objects import GVR
from muster.registration.names import AGENT_NAMESPACE
from muster.runtime.client import KubeClient
from muster.runtime.client.builtin import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, CRDS, ROLE_BINDINGS, ROLES, SERVICE_ACCOUNTS
from muster.runtime.install import RBAC_GROUP, READ, apply_all, await_definitions, binding, ensure_namespace, named, rule
from muster.work.kinds import APPLIED_WORKS
from muster.work.names import DEFAULT_SERVICE_ACCOUNT

MANAGER: Final = "muster-work-agent-install"
PREFIX: Final = "open-cluster-management:klusterlet-work"
AGGREGATE: Final = "open-cluster-management.io/aggregate-to-work"
"""ClusterRoles with this label, `true`, are rights of the agent."""
RECORDS: Final = tuple(kind for kind in SPOKE if kind.resource.plural == APPLIED_WORKS.plural)
_KEEP: Final = (*READ, "create", "update", "patch", "delete")

AGENT_RULES: Final = (
    rule(GROUP, ["appliedmanifestworks"], _KEEP),
    rule(GROUP, ["appliedmanifestworks/status"], ["patch", "update"]),
    rule(GROUP, ["appliedmanifestworks/finalizers"], ["update"]),
    rule("authorization.k8s.io", ["subjectaccessreviews"], ["create"]),
    rule("", ["serviceaccounts"], ["impersonate"]),
    rule(RBAC_GROUP, ["roles", "rolebindings", "clusterroles", "clusterrolebindings"], READ),
    rule("apiextensions.k8s.io", ["customresourcedefinitions"], READ),
    rule("apiregistration.k8s.io", ["apiservices"], READ),
)
"""What the agent needs for itself."""
EXECUTION_RULES: Final = (
    rule("apiextensions.k8s.io", ["customresourcedefinitions"], _KEEP),
    rule("", ["namespaces"], _KEEP),
    rule(RBAC_GROUP, ["roles", "rolebindings", "clusterroles", "clusterrolebindings"], _KEEP),
    rule(RBAC_GROUP, ["roles", "clusterroles"], ["escalate", "bind"]),
    rule("monitoring.coreos.com", ["servicemonitors"], _KEEP),
    rule("oauth.openshift.io", ["oauthclients"], _KEEP),
    rule("scheduling.k8s.io", ["priorityclasses"], _KEEP),
    rule(
        "admissionregistration.k8s.io",
        [
            "mutatingwebhookconfigurations",
            "validatingwebhookconfigurations",
            "validatingadmissionpolicies",
            "validatingadmissionpolicybindings",
        ],
        _KEEP,
    ),
)
"""What works bring that `admin` may not."""
CLUSTER_RULES: Final = (*AGENT_RULES, *EXECUTION_RULES)
NAMESPACE_RULES: Final = (
    rule("coordination.k8s.io", ["leases"], ["get", "watch", "create", "update", "patch"]),
    rule("", ["configmaps", "secrets"], READ),
    rule("events.k8s.io", ["events"], ["create", "patch", "update"]),
)


def aggregated_role(name: str) -> Document:
    """A ClusterRole that is the sum of those that are labelled for the agent."""
    return {"metadata": named(name), "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {AGGREGATE: "true"}}]}}


async def install(client: KubeClient, namespace: str = AGENT_NAMESPACE, *, clock: Clock = SYSTEM) -> None:
    """Everything, and wait until records are served. Raises InstallError and what the client raises."""
    await ensure_namespace(client, namespace)
    await apply_all(client, [(CRDS, document) for document in definitions(RECORDS)], MANAGER)
    await apply_all(client, permissions(namespace), MANAGER)
    await await_definitions(client, [kind.name for kind in RECORDS], clock)


def permissions(namespace: str) -> list[tuple[GVR, Document]]:
    """The account of the agent in a namespace, and its rights."""
    account = DEFAULT_SERVICE_ACCOUNT
    agent = {"kind": "ServiceAccount", "name": account, "namespace": namespace}
    suffix = "" if namespace == AGENT_NAMESPACE else f":{namespace}"
    bound = {"agent": f"{PREFIX}:agent", "execution-admin": "admin", "aggregate": f"{PREFIX}:aggregate"}
    return [
        (SERVICE_ACCOUNTS, {"metadata": named(account, namespace)}),
        (CLUSTER_ROLES, {"metadata": named(f"{PREFIX}:agent"), "rules": list(CLUSTER_RULES)}),
        (CLUSTER_ROLES, aggregated_role(f"{PREFIX}:aggregate")),
        *((CLUSTER_ROLE_BINDINGS, binding(f"{PREFIX}:{part}{suffix}", "ClusterRole", role, agent)) for part, role in bound.items()),
        (ROLES, {"metadata": named(f"{PREFIX}:agent", namespace), "rules": list(NAMESPACE_RULES)}),
        (ROLE_BINDINGS, binding(f"{PREFIX}:agent", "Role", f"{PREFIX}:agent", agent, namespace)),
    ]
