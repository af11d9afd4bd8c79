"""The components of a hub, as a table: one row for each Deployment `<name>-<suffix>`, with its own account and minimal permissions.

A component with `webhooks` serves the API server; the others are controllers. A component that is not enabled is not deployed and
gets no permissions, but is removed like the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from muster.addon import hub_addon
from muster.addon import install as addon
from muster.api import Document
from muster.api.agents import GRPC_SERVER_ACCOUNT
from muster.api.operator.v1 import GRPC_PROTOCOL
from muster.gateway.apiservice import PORT as GATEWAY_PORT
from muster.gateway.apiservice import SERVING_SECRET as GATEWAY_SECRET
from muster.gateway.install import RULES as GATEWAY_RULES
from muster.gateway.names import COMPONENT as CLUSTER_GATEWAY
from muster.gateway.permissions import ACCOUNT as GATEWAY_ACCOUNT
from muster.gateway.permissions import namespace_permissions as gateway_permissions
from muster.machinery.objects import GVR
from muster.operator.applier import Wanted
from muster.operator.cluster_manager import exposure
from muster.operator.cluster_manager.grpc_certificates import SERVING_SECRET
from muster.operator.cluster_manager.plan import (
    DEBUG_PORT,
    GATEWAY_FILES,
    REGISTRATION_WEBHOOK,
    WORK_WEBHOOK,
    ClusterManagerPlan,
    WebhookField,
    driver_secrets,
    driver_tokens,
    driver_variables,
    gateway_arguments,
    gateway_secrets,
    placement_gates,
    registration_arguments,
    registration_gates,
    work_gates,
)
from muster.operator.deployments import ConfigMapVolume, SecretVolume
from muster.operator.hub_addons import HUB_ADDONS
from muster.placement.hub import install as placement
from muster.registration.drivers.profile import AccountToken
from muster.registration.hub import install as registration
from muster.runtime.client.builtin import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, CRDS
from muster.runtime.install import binding, named
from muster.runtime.webhook import Hook
from muster.transport.server.install import SERVER_RULES
from muster.work.hub import install as work

REGISTRATION_DEGRADED: Final = "HubRegistrationDegraded"
REGISTRATION_WEBHOOK_ACCOUNT: Final = "registration-webhook-sa"
PLACEMENT_DEGRADED: Final = "HubPlacementDegraded"
GRPC_DEGRADED: Final = "GrpcServerDegraded"
GATEWAY_DEGRADED: Final = "ClusterGatewayDegraded"
CA_BUNDLE: Final = "ca-bundle-configmap"
"""Contains every CA of this hub: of its webhooks, its gRPC server, and the clients of that."""
GRPC_CONFIG: Final = "grpc-server-config"
"""The ConfigMap with the administrator's configuration of the gRPC server, in `config.yaml`."""

_CONTROLLERS: Final = ("--no-install", "--no-webhook")
_WEBHOOKS: Final = ("--no-install", "--no-controllers")
_GRPC_FILES: Final = "/var/run/secrets/hub/grpc"
_BINDING_ROLE: Final = "open-cluster-management:hub-addons:binding"


@dataclass(frozen=True)
class Webhooks:
    """`field` is its field in the spec, `secret` has its certificate, `converted` are the CRDs for which it converts; `of_bindings`
    are configured only if bindings are checked."""

    field: WebhookField
    service: str
    secret: str
    hooks: tuple[Hook, ...]
    converted: tuple[str, ...] = ()
    of_bindings: tuple[Hook, ...] = ()

    @property
    def possible(self) -> tuple[Hook, ...]:
        return (*self.hooks, *self.of_bindings)

    def wanted(self, plan: ClusterManagerPlan) -> tuple[Hook, ...]:
        return self.possible if plan.by_bindings else self.hooks

    def callers(self, plan: ClusterManagerPlan) -> list[tuple[GVR, str]]:
        """The webhook configurations, into which the CA bundle is written."""
        return [*((hook.resource, hook.name) for hook in self.wanted(plan)), *((CRDS, name) for name in self.converted)]


@dataclass(frozen=True)
class Component:
    """`command` is the subcommand of the image; `rules` are the permissions of its account on the hub, `binding_rules` those it
    needs if bindings are checked."""

    suffix: str
    account: str
    role: str
    rules: Callable[[], Sequence[Document]]
    command: str
    flags: tuple[str, ...]
    """Arguments that do not depend on the spec."""
    image: Callable[[ClusterManagerPlan], str]
    settings: Callable[[ClusterManagerPlan], list[str]]
    """Flags derived from the spec."""
    webhooks: Webhooks | None = None
    degraded: str = ""
    """The condition that reports its Deployment, if any; `Progressing` covers all."""
    app: str = ""
    """The label by which its pods are selected; its Deployment's name if empty. It and the container's name are upstream's if
    upstream has the component, so that either operator can take over the other's Deployment."""
    container: Callable[[ClusterManagerPlan], str] = lambda plan: ""
    """The name of its container; its Deployment's name if empty."""
    wanted: Callable[[ClusterManagerPlan], bool] = lambda plan: True
    binding_rules: tuple[Document, ...] = ()
    secrets: Callable[[ClusterManagerPlan], tuple[SecretVolume, ...]] = lambda plan: ()
    """Secrets that it mounts, besides those of webhooks and of hosted mode."""
    tokens: Callable[[ClusterManagerPlan], tuple[AccountToken, ...]] = lambda plan: ()
    variables: Callable[[ClusterManagerPlan], Mapping[str, str]] = lambda plan: {}
    config_maps: tuple[ConfigMapVolume, ...] = ()
    ports: Callable[[ClusterManagerPlan], Mapping[str, int]] = lambda plan: {}
    """Ports that it listens on, besides webhooks and health."""
    more_permissions: Callable[[ClusterManagerPlan], Sequence[Wanted]] = lambda plan: ()
    """Objects on the hub for its account, besides its own role."""
    rules_for: Callable[[ClusterManagerPlan], Sequence[Document]] | None = None
    """The subset of `rules` that the plan needs, if not all."""

    def deployment(self, plan: ClusterManagerPlan) -> str:
        return f"{plan.name}-{self.suffix}"

    def selected_by(self, plan: ClusterManagerPlan) -> dict[str, str]:
        """The selector of its Services."""
        return {"app": self.app or self.deployment(plan)}

    def cluster_role(self, plan: ClusterManagerPlan) -> str:
        return f"open-cluster-management:{plan.name}-{self.role}"

    def may(self, plan: ClusterManagerPlan) -> Sequence[Document]:
        rules = self.rules() if self.rules_for is None else self.rules_for(plan)
        return (*rules, *self.binding_rules) if plan.by_bindings else rules


REGISTRATION_CONTROLLER: Final = Component(
    "registration-controller",
    registration.ACCOUNT,
    "registration:controller",
    lambda: (*registration.HUB_WORK, *registration.handed_out()),
    "hub",
    _CONTROLLERS,
    lambda plan: plan.registration_image,
    registration_arguments,
    degraded=REGISTRATION_DEGRADED,
    app="clustermanager-registration-controller",
    container=lambda plan: "hub-registration-controller",
    secrets=lambda plan: tuple(SecretVolume(name, name, path) for name, path in driver_secrets(plan).items()),
    tokens=driver_tokens,
    variables=driver_variables,
)
REGISTRATION_SERVER: Final = Component(
    "registration-webhook",
    REGISTRATION_WEBHOOK_ACCOUNT,
    "registration:webhook",
    lambda: registration.WEBHOOK_WORK,
    "hub",
    _WEBHOOKS,
    lambda plan: plan.registration_image,
    registration_gates,
    Webhooks(REGISTRATION_WEBHOOK, registration.SERVICE, registration.WEBHOOK_SECRET, registration.HOOKS, registration.CONVERTED),
    degraded=REGISTRATION_DEGRADED,
    container=lambda plan: f"{plan.name}-webhook",
)
WORK_CONTROLLER: Final = Component(
    "work-controller",
    work.ACCOUNT,
    "work:controller",
    lambda: work.CONTROLLER_RULES,
    "work-hub",
    _CONTROLLERS,
    lambda plan: plan.work_image,
    work_gates,
    wanted=lambda plan: plan.work_controllers,
    binding_rules=work.BINDING_RULES + work.BINDING_STATUS_RULES,
)
WORK_SERVER: Final = Component(
    "work-webhook",
    work.WEBHOOK_ACCOUNT,
    "work:webhook",
    lambda: work.WEBHOOK_RULES,
    "work-hub",
    _WEBHOOKS,
    lambda plan: plan.work_image,
    work_gates,
    Webhooks(WORK_WEBHOOK, work.SERVICE, work.WEBHOOK_SECRET, work.HOOKS, of_bindings=(work.BINDING_HOOK,)),
    container=lambda plan: f"{plan.name}-webhook",
    binding_rules=work.BINDING_RULES,
)
PLACEMENT_CONTROLLER: Final = Component(
    "placement-controller",
    placement.ACCOUNT,
    "placement:controller",
    lambda: placement.RULES,
    "placement",
    ("--no-install",),
    lambda plan: plan.placement_image,
    placement_gates,
    degraded=PLACEMENT_DEGRADED,
    app="clustermanager-placement-controller",
    container=lambda plan: "placement-controller",
    ports=lambda plan: {"debug": DEBUG_PORT} if plan.placement_debug else {},
)


def _addons_permissions(plan: ClusterManagerPlan) -> list[Wanted]:
    """The role that administrators extend is part of the bundle, since only they can create it; on a remote hub the operator
    creates it."""
    binding = addon.aggregated_binding(plan.hub_namespace, plan.name)
    return [addon.aggregated_role(), binding] if plan.hosted else [binding]


ADDON_MANAGER: Final = Component(
    "addon-manager-controller",
    addon.ACCOUNT,
    "addon-manager:controller",
    lambda: addon.RULES,
    "addon-manager",
    ("--no-install",),
    lambda plan: plan.addon_manager_image,
    lambda plan: [],
    app="clustermanager-addon-manager-controller",
    container=lambda plan: "addon-manager-controller",
    wanted=lambda plan: plan.addon_manager,
    more_permissions=_addons_permissions,
)
GRPC_SERVER: Final = Component(
    "grpc-server",
    GRPC_SERVER_ACCOUNT,
    "grpc-server",
    lambda: SERVER_RULES,
    "grpc-server",
    # The Service uses this port, whatever the configuration file contains.
    (f"--server-config={_GRPC_FILES}/config/config.yaml", f"--bind-port={exposure.PORT}"),
    lambda plan: plan.server_image,
    registration_gates,
    degraded=GRPC_DEGRADED,
    container=lambda plan: "grpc-server",
    wanted=lambda plan: plan.grpc_server,
    secrets=lambda plan: (SecretVolume("serving-cert", SERVING_SECRET, f"{_GRPC_FILES}/serving-cert"),),
    config_maps=(
        ConfigMapVolume("client-ca", CA_BUNDLE, f"{_GRPC_FILES}/ca"),
        ConfigMapVolume("config", GRPC_CONFIG, f"{_GRPC_FILES}/config", optional=True),
    ),
    ports=lambda plan: {GRPC_PROTOCOL: exposure.PORT},
)


def _gateway_permissions(plan: ClusterManagerPlan) -> list[Wanted]:
    """The permission to read clusters' credentials is part of the bundle, since only an administrator can grant it; on a remote hub
    the operator grants it."""
    own = gateway_permissions(plan.hub_namespace, credentials=False)
    return [*own, *gateway_permissions(plan.hub_namespace, credentials=True)] if plan.hosted else own


def hub_addon_roles(namespace: str) -> list[Wanted]:
    """Roles of addons' agents on the hub, and the permission to bind them: part of the bundle for the same reason."""
    subject = {"kind": "ServiceAccount", "name": hub_addon.ACCOUNT, "namespace": namespace}
    agents = [one for addon in HUB_ADDONS.values() for one in addon.objects]
    return [
        *agents,
        (CLUSTER_ROLES, {"metadata": named(_BINDING_ROLE), "rules": _hub_addon_rules(HUB_ADDONS, binds=True)}),
        (CLUSTER_ROLE_BINDINGS, binding(_BINDING_ROLE, "ClusterRole", _BINDING_ROLE, subject)),
    ]


def _hub_addon_rules(names: Iterable[str], *, binds: bool) -> list[Document]:
    """The rules for serving these addons: those that bind roles, or all the others."""
    return [rule for rule in hub_addon.rules([HUB_ADDONS[name] for name in names]) if ("bind" in rule["verbs"]) == binds]


HUB_ADDONS_CONTROLLER: Final = Component(
    "hub-addons-controller",
    hub_addon.ACCOUNT,
    "hub-addons:controller",
    lambda: _hub_addon_rules(HUB_ADDONS, binds=False),
    hub_addon.COMMAND,
    ("--no-install",),
    lambda plan: plan.addon_manager_image,
    lambda plan: [f"--names={','.join(plan.hub_addons)}", f"--agent-image={plan.addon_manager_image}"],
    wanted=lambda plan: bool(plan.hub_addons),
    more_permissions=lambda plan: hub_addon_roles(plan.hub_namespace) if plan.hosted else [],
    rules_for=lambda plan: _hub_addon_rules(plan.hub_addons, binds=False),
)
GATEWAY: Final = Component(
    CLUSTER_GATEWAY,
    GATEWAY_ACCOUNT,
    CLUSTER_GATEWAY,
    lambda: GATEWAY_RULES,
    "gateway",
    (
        "--no-install",
        "--bind-address=$(POD_IP)",
        f"--secure-port={GATEWAY_PORT}",
        f"--cert-dir={GATEWAY_FILES}/serving-cert",
    ),
    lambda plan: plan.addon_manager_image,
    gateway_arguments,
    degraded=GATEWAY_DEGRADED,
    wanted=lambda plan: plan.gateway,
    secrets=lambda plan: (
        SecretVolume("serving-cert", GATEWAY_SECRET, f"{GATEWAY_FILES}/serving-cert"),
        *(SecretVolume(name, name, path, optional=True) for name, path in gateway_secrets(plan).items()),
    ),
    ports=lambda plan: {"https": GATEWAY_PORT},
    more_permissions=_gateway_permissions,
)
COMPONENTS: Final = (
    REGISTRATION_CONTROLLER,
    REGISTRATION_SERVER,
    WORK_CONTROLLER,
    WORK_SERVER,
    PLACEMENT_CONTROLLER,
    ADDON_MANAGER,
    GRPC_SERVER,
    HUB_ADDONS_CONTROLLER,
    GATEWAY,
)
SERVERS: Final = tuple((component, component.webhooks) for component in COMPONENTS if component.webhooks is not None)
WEBHOOK_SECRETS: Final = tuple(webhooks.secret for _, webhooks in SERVERS)
HOOKS: Final = tuple(hook for _, webhooks in SERVERS for hook in webhooks.hooks)
POSSIBLE_HOOKS: Final = tuple(hook for _, webhooks in SERVERS for hook in webhooks.possible)


def wanted(plan: ClusterManagerPlan) -> list[Component]:
    return [component for component in COMPONENTS if component.wanted(plan)]


def account_secret(account: str) -> str:
    """The name of the Secret with an account's kubeconfig, beside the components of a hosted hub."""
    return f"{account}-kubeconfig"


HUB_ACCOUNT_SECRETS: Final = tuple(account_secret(component.account) for component in COMPONENTS)
