"""What a cluster needs before the hub can run there: CRDs, namespaces, service accounts, roles, webhook configurations.

`install` applies all of it with its own field manager and may be called again at any time, by a newer version too: existing objects
stay, drift is corrected, fields of other managers are left alone. It needs an administrator's permissions; the hub itself then runs
as `registration-controller-sa`, whose role has what the controllers do and what they grant to agents (RBAC lets a user grant only
what it has), and no further verb: it may neither `bind` nor `escalate`.

Webhooks are called at a URL if API server and hub share a machine, else through a Service.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from muster.api import Document
from muster.api.addon.v1alpha1 import GROUP as ADDON_GROUP
from muster.api.agents import GRPC_SIGNER
from muster.api.cluster.v1 import GROUP
from muster.api.crds import HUB, ConversionWebhook, definitions
from muster.api.work.v1 import GROUP as WORK_GROUP
from muster.machinery.clock import SYSTEM, Clock
from muster.machinery.objects import GVR
from muster.registration.drivers.profile import HubRules
from muster.registration.hub.clusters import rbac
from muster.registration.hub.webhooks import (
    BINDING_VALIDATOR,
    CLUSTER_MUTATOR,
    CLUSTER_VALIDATOR,
    CONVERT,
    MUTATE_CLUSTER,
    VALIDATE_BINDING,
    VALIDATE_CLUSTER,
)
from muster.registration.names import (
    BOOTSTRAP_ACCOUNT,
    BOOTSTRAP_NAMESPACE,
    BOOTSTRAP_ROLE,
    BOUND_LABEL,
    CLIENT_SIGNER,
    HUB_NAMESPACE,
    REGISTER_GROUP,
)
from muster.runtime.client import KubeClient
from muster.runtime.client.builtin import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CRDS,
    MUTATING_WEBHOOKS,
    ROLE_BINDINGS,
    ROLES,
    SERVICE_ACCOUNTS,
    VALIDATING_WEBHOOKS,
)
from muster.runtime.install import (
    RBAC_GROUP,
    READ,
    account_permissions,
    apply_all,
    await_definitions,
    binding,
    ensure_namespace,
    named,
    rule,
)
from muster.runtime.webhook import CONFIG_MAP, Endpoint, Hook, configure, trust_webhooks

MANAGER: Final = "muster-hub-install"
BASE_MANAGER: Final = "muster-hub-base"
ACCOUNT: Final = "registration-controller-sa"
ROLE: Final = "open-cluster-management:cluster-manager-registration:controller"
DRIVER_ROLE: Final = f"{ROLE}:drivers"
SERVICE: Final = "cluster-manager-registration-webhook"
WEBHOOK_SECRET: Final = "registration-webhook-serving-cert"
BOOTSTRAP_GROUP: Final = "system:bootstrappers:managedcluster"


@dataclass(frozen=True)
class WebhookEndpoint(Endpoint):
    """The address of the registration webhooks."""

    namespace: str = HUB_NAMESPACE
    service: str = SERVICE


def conversion(endpoint: Endpoint) -> ConversionWebhook:
    """The conversion webhook of ManagedClusterAddOns, which the registration webhooks serve too."""
    if endpoint.url:
        return ConversionWebhook(endpoint.bundle, url=endpoint.url + CONVERT)
    return ConversionWebhook(endpoint.bundle, service=endpoint.service, namespace=endpoint.namespace, port=endpoint.port)


HOOKS: Final = (
    Hook(
        MUTATING_WEBHOOKS,
        CLUSTER_MUTATOR,
        MUTATE_CLUSTER,
        GROUP,
        ("*",),
        "managedclusters",
    ),
    Hook(
        VALIDATING_WEBHOOKS,
        CLUSTER_VALIDATOR,
        VALIDATE_CLUSTER,
        GROUP,
        ("*",),
        "managedclusters",
    ),
    Hook(
        VALIDATING_WEBHOOKS,
        BINDING_VALIDATOR,
        VALIDATE_BINDING,
        GROUP,
        ("v1beta2",),
        "managedclustersetbindings",
    ),
)
CONVERTED: Final = tuple(kind.name for kind in HUB if kind.converted)


BOOTSTRAP_RULES: Final = (
    rule("", ["configmaps"], ["get"]),
    rule("certificates.k8s.io", ["certificatesigningrequests"], ["create", *READ]),
    rule(GROUP, ["managedclusters"], [*READ, "create"]),
    rule(GROUP, ["managedclustersets/join"], ["create"]),
)

WEBHOOK_CLIENTS: Final = rule("", ["configmaps"], ["get"], [CONFIG_MAP])
"""To read the CA by which webhooks authenticate the calling API server."""

HUB_WORK: Final = (
    rule("certificates.k8s.io", ["certificatesigningrequests"], READ),
    rule("certificates.k8s.io", ["certificatesigningrequests/approval"], ["update"]),
    rule("certificates.k8s.io", ["certificatesigningrequests/status"], ["update"]),
    rule("certificates.k8s.io", ["signers"], ["approve"], [CLIENT_SIGNER, GRPC_SIGNER]),
    rule("certificates.k8s.io", ["signers"], ["sign"], [GRPC_SIGNER]),
    rule("authorization.k8s.io", ["subjectaccessreviews"], ["create"]),
    rule("", ["namespaces"], [*READ, "create", "patch"]),
    rule("events.k8s.io", ["events"], ["create", "patch"]),
    rule("coordination.k8s.io", ["leases"], [*READ, "create", "update"]),
    rule(RBAC_GROUP, ["clusterroles", "clusterrolebindings", "rolebindings"], [*READ, "create", "patch", "delete"]),
    rule(GROUP, ["managedclusters"], [*READ, "patch", "delete"]),
    rule(GROUP, ["managedclustersets"], [*READ, "create", "patch"]),
    rule(GROUP, ["managedclustersets/join"], ["create"], ["default"]),
    rule(GROUP, ["managedclustersetbindings"], READ),
    rule(GROUP, ["managedclusters/status", "managedclustersets/status", "managedclustersetbindings/status"], ["patch"]),
    rule(REGISTER_GROUP, ["managedclusters/accept"], ["update"]),
    rule(WORK_GROUP, ["manifestworks"], [*READ, "delete"]),
    rule(ADDON_GROUP, ["managedclusteraddons"], [*READ, "delete"]),
    rule(ADDON_GROUP, ["managedclusteraddons/status"], ["patch"]),
)
"""What the controllers do themselves. An administrator has to add what `--gc-resource-list` adds."""

HUB_TRUST: Final = (
    rule("apiextensions.k8s.io", ["customresourcedefinitions"], ["get", "patch"], CONVERTED),
    rule(
        "admissionregistration.k8s.io",
        ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"],
        ["get", "patch"],
        [hook.name for hook in HOOKS],
    ),
)
"""To update the webhooks' CA bundle, for a hub that manages their certificate itself."""

WEBHOOK_WORK: Final = (
    rule("", ["namespaces"], ["get"]),
    rule("authorization.k8s.io", ["subjectaccessreviews"], ["create"]),
    WEBHOOK_CLIENTS,
)
"""What webhooks do that run apart from the controllers, with a certificate from outside."""


def handed_out() -> tuple[Document, ...]:
    """The permissions that the hub grants to agents of any cluster: it must have them itself."""
    roles = (rbac.own_role("any", {}, accepted=True), *rbac.common_roles({}))
    return tuple({k: v for k, v in one.items() if k != "resourceNames"} for role in roles for one in role.body["rules"])


HUB_NAMESPACE_RULES: Final = (rule("", ["secrets"], ["create"]), rule("", ["secrets"], ["get", "update"], [WEBHOOK_SECRET]))
"""In the hub's own namespace: the serving certificate of the webhooks."""


async def install_namespaces(client: KubeClient, namespace: str = HUB_NAMESPACE) -> None:
    """Create the two namespaces of the hub; everything else that `install` creates may come later."""
    for name in dict.fromkeys((namespace, BOOTSTRAP_NAMESPACE)):
        await ensure_namespace(client, name)


async def install(
    client: KubeClient,
    *,
    namespace: str = HUB_NAMESPACE,
    webhooks: WebhookEndpoint | None = None,
    drivers: Iterable[HubRules] = (),
    clock: Clock = SYSTEM,
) -> None:
    """Create everything, and wait until the CRDs are served. Without an endpoint, configured webhooks are removed. `drivers` are
    the rules of the registration drivers that the hub is to run.

    Raises InstallError and the client's errors.
    """
    await install_namespaces(client, namespace)
    documents = definitions(HUB, conversion(webhooks) if webhooks else None)
    await apply_all(client, [(CRDS, document) for document in documents], MANAGER)
    await apply_all(client, [*permissions(namespace), *driver_permissions(namespace, drivers)], MANAGER)
    await await_definitions(client, [kind.name for kind in HUB], clock)
    await configure(client, HOOKS, webhooks, MANAGER)


async def install_base(client: KubeClient, *, namespace: str = HUB_NAMESPACE, clock: Clock = SYSTEM) -> None:
    """Create everything but webhooks, and wait until the CRDs are served: what a hub needs before clusters join, made by servers
    without webhooks. `install`, which configures webhooks, applies as another field manager, so both may be called in any order,
    and neither removes the other's fields.

    Raises InstallError and the client's errors.
    """
    await install_namespaces(client, namespace)
    await apply_all(client, [(CRDS, document) for document in definitions(HUB)], BASE_MANAGER)
    await apply_all(client, permissions(namespace), BASE_MANAGER)
    await await_definitions(client, [kind.name for kind in HUB], clock)


async def trust(client: KubeClient, ca: bytes, *, clock: Clock = SYSTEM) -> None:
    """Set the CA bundle by which the API server verifies the webhooks; webhooks that are not configured are not created."""
    targets = [*((hook.resource, hook.name) for hook in HOOKS), *((CRDS, name) for name in CONVERTED)]
    await trust_webhooks(client, targets, ca, clock=clock)


def permissions(namespace: str) -> list[tuple[GVR, Document]]:
    """Service accounts, roles and bindings: of agents that are not registered yet, and of the hub itself."""
    hub = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": namespace}
    return [
        *bootstrap_permissions(),
        *account_permissions(ACCOUNT, namespace, ROLE, (*HUB_WORK, WEBHOOK_CLIENTS, *HUB_TRUST, *handed_out())),
        (ROLES, {"metadata": named(ROLE, namespace), "rules": list(HUB_NAMESPACE_RULES)}),
        (ROLE_BINDINGS, binding(ROLE, "Role", ROLE, hub, namespace)),
    ]


def driver_permissions(namespace: str, drivers: Iterable[HubRules]) -> list[tuple[GVR, Document]]:
    """Roles of the hub's account for the drivers that it runs, one in each namespace, so that they can be removed again."""
    rules: dict[str, list[Document]] = {}
    for driver in drivers:
        for location, ours in {namespace: driver.own, **driver.elsewhere}.items():
            rules.setdefault(location, []).extend(ours)
    hub = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": namespace}
    made: list[tuple[GVR, Document]] = []
    for location, together in rules.items():
        if together:
            made.append((ROLES, {"metadata": named(DRIVER_ROLE, location), "rules": together}))
            made.append((ROLE_BINDINGS, binding(DRIVER_ROLE, "Role", DRIVER_ROLE, hub, location)))
    return made


def bootstrap_permissions() -> list[tuple[GVR, Document]]:
    """The permissions of agents to introduce their clusters."""
    agent = {"kind": "ServiceAccount", "name": BOOTSTRAP_ACCOUNT, "namespace": BOOTSTRAP_NAMESPACE}
    group = {"kind": "Group", "name": BOOTSTRAP_GROUP, "apiGroup": RBAC_GROUP}
    return [
        (SERVICE_ACCOUNTS, {"metadata": named(BOOTSTRAP_ACCOUNT, BOOTSTRAP_NAMESPACE)}),
        (CLUSTER_ROLES, {"metadata": named(BOOTSTRAP_ROLE), "rules": list(BOOTSTRAP_RULES)}),
        (CLUSTER_ROLE_BINDINGS, binding(f"{BOOTSTRAP_ROLE}:agent-registration", "ClusterRole", BOOTSTRAP_ROLE, agent)),
        (CLUSTER_ROLE_BINDINGS, binding(f"{BOOTSTRAP_ROLE}:managedcluster", "ClusterRole", BOOTSTRAP_ROLE, group)),
    ]


def bound_permissions(cluster: str) -> list[tuple[GVR, Document]]:
    """The permissions of one cluster's agent to introduce it over gRPC: the gRPC server checks the permission to create the
    ManagedCluster of its name, also before it accepts a signing request. At the API server itself this permits no creation of a
    ManagedCluster, because a create is authorized without a name; signing requests can be created, but requests for other
    clusters are not accepted as first requests.
    """
    account, name = bound_account(cluster), f"{BOOTSTRAP_ROLE}:cluster:{cluster}"
    labels = {"labels": {BOUND_LABEL: cluster}}
    rules = [
        rule("certificates.k8s.io", ["certificatesigningrequests"], ["create", *READ]),
        rule(GROUP, ["managedclusters"], [*READ, "create"], [cluster]),
        rule(GROUP, ["managedclustersets/join"], ["create"]),
    ]
    bound = binding(name, "ClusterRole", name, {"kind": "ServiceAccount", "name": account, "namespace": BOOTSTRAP_NAMESPACE})
    return [
        (SERVICE_ACCOUNTS, {"metadata": named(account, BOOTSTRAP_NAMESPACE) | labels}),
        (CLUSTER_ROLES, {"metadata": named(name) | labels, "rules": rules}),
        (CLUSTER_ROLE_BINDINGS, {**bound, "metadata": bound["metadata"] | labels}),
    ]


def bound_account(cluster: str) -> str:
    """The service account whose tokens may introduce only this cluster."""
    return f"{BOOTSTRAP_ACCOUNT}-{cluster}"
