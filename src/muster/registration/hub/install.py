"""What has to be on a cluster before the hub can run there: definitions, namespaces, accounts, roles, webhook configurations.

`install` applies all of it with a field manager of its own and may be called again at any time, by a newer version too: what is
there already stays, what drifted is set right, fields of others are left alone. It needs an administrator's rights; the hub itself
then runs as `registration-controller-sa`, whose role allows what the controllers do and what they hand out to agents (nobody
may grant more than he has), and not a verb more: it may neither `bind` nor `escalate`.

Webhooks are called at a URL where API server and hub share a machine, else through a Service.
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
    """Of the webhooks of registration."""

    namespace: str = HUB_NAMESPACE
    service: str = SERVICE


def conversion(endpoint: Endpoint) -> ConversionWebhook:
    """The webhooks of registration convert addons too."""
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
"""To learn by which certificate the API server is known that calls webhooks."""

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
"""What the controllers do themselves. What `--gc-resource-list` adds, an administrator has to allow."""

HUB_TRUST: Final = (
    rule("apiextensions.k8s.io", ["customresourcedefinitions"], ["get", "patch"], CONVERTED),
    rule(
        "admissionregistration.k8s.io",
        ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"],
        ["get", "patch"],
        [hook.name for hook in HOOKS],
    ),
)
"""To renew the trust in the webhooks, for a hub that keeps their certificate itself."""

WEBHOOK_WORK: Final = (
    rule("", ["namespaces"], ["get"]),
    rule("authorization.k8s.io", ["subjectaccessreviews"], ["create"]),
    WEBHOOK_CLIENTS,
)
"""What webhooks do that run apart from the controllers and are given their certificate."""


def handed_out() -> tuple[Document, ...]:
    """What the hub gives to agents, of any cluster: it must have all that itself."""
    roles = (rbac.own_role("any", {}, accepted=True), *rbac.common_roles({}))
    return tuple({k: v for k, v in one.items() if k != "resourceNames"} for role in roles for one in role.body["rules"])


HUB_NAMESPACE_RULES: Final = (rule("", ["secrets"], ["create"]), rule("", ["secrets"], ["get", "update"], [WEBHOOK_SECRET]))
"""In the hub's own namespace: the serving certificate of the webhooks."""


async def install_namespaces(client: KubeClient, namespace: str = HUB_NAMESPACE) -> None:
    """The two namespaces of the hub; everything else that `install` makes may be made later."""
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
    """Everything, and wait until the definitions are served. Without an endpoint, webhooks that were configured are removed.
    `drivers` are what the registration drivers need that the hub is to run with.

    Raises InstallError and what the client raises.
    """
    await install_namespaces(client, namespace)
    documents = definitions(HUB, conversion(webhooks) if webhooks else None)
    await apply_all(client, [(CRDS, document) for document in documents], MANAGER)
    await apply_all(client, [*permissions(namespace), *driver_permissions(namespace, drivers)], MANAGER)
    await await_definitions(client, [kind.name for kind in HUB], clock)
    await configure(client, HOOKS, webhooks, MANAGER)


async def install_base(client: KubeClient, *, namespace: str = HUB_NAMESPACE, clock: Clock = SYSTEM) -> None:
    """Everything but webhooks, and wait until the definitions are served: what a hub has to have before anybody joins, made by
    servers that know nothing of webhooks. Whoever configures those (`install`) applies as another manager, so nothing of theirs is
    taken away, in whatever order and however often both are done.

    Raises InstallError and what the client raises.
    """
    await install_namespaces(client, namespace)
    await apply_all(client, [(CRDS, document) for document in definitions(HUB)], BASE_MANAGER)
    await apply_all(client, permissions(namespace), BASE_MANAGER)
    await await_definitions(client, [kind.name for kind in HUB], clock)


async def trust(client: KubeClient, ca: bytes, *, clock: Clock = SYSTEM) -> None:
    """Tell the API server whom to trust when it calls the webhooks; those that are not configured are left so."""
    targets = [*((hook.resource, hook.name) for hook in HOOKS), *((CRDS, name) for name in CONVERTED)]
    await trust_webhooks(client, targets, ca, clock=clock)


def permissions(namespace: str) -> list[tuple[GVR, Document]]:
    """Accounts, roles and bindings: of agents that are not registered yet, and of the hub itself."""
    hub = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": namespace}
    return [
        *bootstrap_permissions(),
        *account_permissions(ACCOUNT, namespace, ROLE, (*HUB_WORK, WEBHOOK_CLIENTS, *HUB_TRUST, *handed_out())),
        (ROLES, {"metadata": named(ROLE, namespace), "rules": list(HUB_NAMESPACE_RULES)}),
        (ROLE_BINDINGS, binding(ROLE, "Role", ROLE, hub, namespace)),
    ]


def driver_permissions(namespace: str, drivers: Iterable[HubRules]) -> list[tuple[GVR, Document]]:
    """What the hub's account may by the drivers it runs with, in each namespace: a role of its own, so that it can go again."""
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
    """What lets agents introduce themselves."""
    agent = {"kind": "ServiceAccount", "name": BOOTSTRAP_ACCOUNT, "namespace": BOOTSTRAP_NAMESPACE}
    group = {"kind": "Group", "name": BOOTSTRAP_GROUP, "apiGroup": RBAC_GROUP}
    return [
        (SERVICE_ACCOUNTS, {"metadata": named(BOOTSTRAP_ACCOUNT, BOOTSTRAP_NAMESPACE)}),
        (CLUSTER_ROLES, {"metadata": named(BOOTSTRAP_ROLE), "rules": list(BOOTSTRAP_RULES)}),
        (CLUSTER_ROLE_BINDINGS, binding(f"{BOOTSTRAP_ROLE}:agent-registration", "ClusterRole", BOOTSTRAP_ROLE, agent)),
        (CLUSTER_ROLE_BINDINGS, binding(f"{BOOTSTRAP_ROLE}:managedcluster", "ClusterRole", BOOTSTRAP_ROLE, group)),
    ]


def bound_permissions(cluster: str) -> list[tuple[GVR, Document]]:
    """What lets the agent of one cluster introduce it over gRPC: the gRPC server asks for the right to create the ManagedCluster of
    its name, also before it takes a request for a certificate. At the API server itself no ManagedCluster can be created with this,
    because a creation carries no name there; requests for certificates can, and those of other clusters are no newcomer's."""
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
    """Whose tokens are good for introducing this cluster alone."""
    return f"{BOOTSTRAP_ACCOUNT}-{cluster}"
