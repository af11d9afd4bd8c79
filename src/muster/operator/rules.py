"""The permissions of the operators. By RBAC's escalation check, an operator needs all the permissions that it grants.

The ClusterManager operator has no `escalate`, and `bind` for one role only, which administrators extend for addons. A work agent
has both, because works contain roles; so has the operator that creates its role. If names are known beforehand, permissions are
limited to them, except for `create`, which cannot be limited. Secrets are read by name only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from muster.addon.framework.rules import AGGREGATED_ROLE
from muster.api import Document
from muster.api.addon.v1alpha1 import GROUP as ADDON_GROUP
from muster.api.crds import ACCOUNTS, HUB, SPOKE, Definition
from muster.api.operator.v1 import GROUP
from muster.gateway.apiservice import POSSIBLE_API_SERVICES
from muster.gateway.apiservice import SERVING_SECRET as GATEWAY_SECRET
from muster.operator.cluster_manager.components import COMPONENTS, HUB_ACCOUNT_SECRETS, POSSIBLE_HOOKS, WEBHOOK_SECRETS
from muster.operator.cluster_manager.grpc_certificates import GRPC_SECRETS
from muster.operator.klusterlet.manifests import MANAGED_SECRETS
from muster.operator.klusterlet.properties import DEFINITION as PROPERTIES
from muster.operator.names import EXTERNAL_HUB_SECRET, EXTERNAL_MANAGED_SECRET, PULL_SECRET
from muster.registration.agent.install import ADDON_RULES, CLUSTER_RULES, NAMESPACE_RULES
from muster.registration.names import BOOTSTRAP_SECRET, HUB_SECRET, LEASE, PENDING_SECRET
from muster.runtime.install import RBAC_GROUP, READ, rule
from muster.work.agent import install as work

KEEP: Final = (*READ, "create", "update", "patch", "delete")


def _operator(kind: str) -> tuple[Document, ...]:
    """The permissions of every operator: its own kind, leader election, events, and the objects of its deployment."""
    return (
        rule(GROUP, [kind], [*READ, "update", "patch"]),
        rule(GROUP, [f"{kind}/status", f"{kind}/finalizers"], ["update", "patch"]),
        rule("coordination.k8s.io", ["leases"], ["get", "watch", "create", "update", "patch"]),
        rule("", ["events"], ["create", "patch", "update"]),
        rule("events.k8s.io", ["events"], ["create", "patch", "update"]),
        rule("", ["nodes"], READ),
        rule("", ["pods"], ["get"]),
        rule("", ["namespaces", "serviceaccounts", "services", "configmaps"], KEEP),
        rule("", ["serviceaccounts/token"], ["create"]),
        rule("apps", ["deployments"], KEEP),
        rule(RBAC_GROUP, ["clusterroles", "clusterrolebindings", "roles", "rolebindings"], KEEP),
    )


def _definitions(kinds: Sequence[Definition]) -> tuple[Document, ...]:
    resource = ["customresourcedefinitions"]
    return (
        rule("apiextensions.k8s.io", resource, ["create", "list", "watch"]),
        rule("apiextensions.k8s.io", resource, ["get", "update", "patch", "delete"], [kind.name for kind in kinds]),
    )


def _secrets(names: Sequence[str]) -> tuple[Document, ...]:
    return (rule("", ["secrets"], ["create"]), rule("", ["secrets"], [*READ, "update", "patch", "delete"], names))


def _emptied(kinds: Sequence[Definition]) -> tuple[Document, ...]:
    """Permissions to remove CRDs even without controllers that remove the finalizers of their objects."""
    groups: dict[str, list[str]] = {}
    for kind in kinds:
        groups.setdefault(kind.resource.group, []).append(kind.resource.plural)
    return tuple(rule(group, plurals, ["get", "list", "update", "patch", "delete"]) for group, plurals in groups.items())


_WEBHOOKS: Final = ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"]

CLUSTER_MANAGER_RULES: Final = (
    *_operator("clustermanagers"),
    *_definitions(HUB + ACCOUNTS),
    *_secrets([*WEBHOOK_SECRETS, *GRPC_SECRETS, GATEWAY_SECRET, PULL_SECRET, EXTERNAL_HUB_SECRET, *HUB_ACCOUNT_SECRETS]),
    *_emptied(HUB + ACCOUNTS),
    rule("coordination.k8s.io", ["leases"], ["delete"], [LEASE]),
    rule("admissionregistration.k8s.io", _WEBHOOKS, ["create", "list", "watch"]),
    rule("admissionregistration.k8s.io", _WEBHOOKS, ["get", "update", "patch", "delete"], [hook.name for hook in POSSIBLE_HOOKS]),
    rule("apiregistration.k8s.io", ["apiservices"], ["create", "list", "watch"]),
    rule("apiregistration.k8s.io", ["apiservices"], ["get", "update", "patch", "delete"], POSSIBLE_API_SERVICES),
    *(one for component in COMPONENTS for one in (*component.rules(), *component.binding_rules)),
    rule(ADDON_GROUP, ["clustermanagementaddons"], ["create"]),
    # To bind the role that administrators extend for the addon manager.
    rule(RBAC_GROUP, ["clusterroles"], ["bind"], [AGGREGATED_ROLE]),
)

KLUSTERLET_RULES: Final = (
    *_operator("klusterlets"),
    *_definitions(SPOKE),
    rule("apiextensions.k8s.io", ["customresourcedefinitions"], ["get", "update", "patch", "delete"], [PROPERTIES]),
    *_secrets([BOOTSTRAP_SECRET, HUB_SECRET, PENDING_SECRET, PULL_SECRET, EXTERNAL_MANAGED_SECRET, *MANAGED_SECRETS]),
    *_emptied(SPOKE),
    *CLUSTER_RULES,
    *NAMESPACE_RULES,
    *ADDON_RULES,
    *work.CLUSTER_RULES,
    *work.NAMESPACE_RULES,
)
