"""The parsed spec of a ClusterManager: where components run, with which image, feature gates and drivers.

Unknown parts of a spec are ignored and named in `gate_review`, invalid ones raise `BadSpec`, so that one invalid ClusterManager
gets a condition and others are not affected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from muster.accounts.hub import MANAGED_SERVICE_ACCOUNT
from muster.addon.options import ADDON_MANAGEMENT
from muster.addon.options import GATES as ADDON_GATES
from muster.api.operator.v1 import (
    BindConfiguration,
    ClusterManager,
    DefaultDeployOption,
    DefaultWebhookConfiguration,
    FeatureGate,
    HostedDeployOption,
    HostedWebhookConfiguration,
    HubRegistrationConfiguration,
    HubRegistrationDriver,
)
from muster.gateway.addon import CLUSTER_GATEWAY
from muster.gateway.apiservice import (
    ADDRESS_ANNOTATION,
    API_VERSION_ANNOTATION,
    API_VERSIONS,
    FEATURE_GATE,
    LOOPBACK_ANNOTATION,
    OAM_ANNOTATION,
)
from muster.gateway.names import CLUSTER_PROXY_ANNOTATION, CLUSTER_PROXY_CA, CLUSTER_PROXY_CLIENT, CLUSTER_PROXY_PORT
from muster.kube.names import dns1123_subdomain
from muster.operator.hub_addons import with_required
from muster.operator.names import chosen_image
from muster.operator.pod_namespaces import host_port_of
from muster.operator.spec import BadSpec, GateReview, gate_flags, installed_driver, review_gates
from muster.placement.hub.options import DEBUG_SERVER
from muster.placement.hub.options import GATES as PLACEMENT_GATES
from muster.placement.hub.options import UNSUPPORTED_GATES as PLACEMENT_UNSUPPORTED_GATES
from muster.policy.addons import CONFIG_POLICY, STANDALONE
from muster.registration.drivers import DriverError, find
from muster.registration.drivers.errors import BadField
from muster.registration.drivers.interfaces import Driver
from muster.registration.drivers.profile import AccountToken, HubRules, Process
from muster.registration.names import HUB_GATES, HUB_NAMESPACE, HUB_UNSUPPORTED_GATES
from muster.work.hub.options import CLEAN_UP_COMPLETED, MANIFEST_WORK_REPLICA_SET, ExecutorAuthorization, authorization
from muster.work.hub.options import GATES as WORK_GATES
from muster.work.hub.options import UNSUPPORTED_GATES as WORK_UNSUPPORTED_GATES

DEBUG_PORT: Final = 9443
"""The port of the placement controller's debug service, on its pods and on its Service."""
GATEWAY_FILES: Final = "/var/run/secrets/hub/gateway"
AUTO_APPROVAL: Final = "ManagedClusterAutoApproval"
HUB_ADDON_GATES: Final = {
    "ManagedServiceAccount": MANAGED_SERVICE_ACCOUNT.name,
    FEATURE_GATE: CLUSTER_GATEWAY.name,
    "ConfigPolicyController": CONFIG_POLICY.name,
    "StandaloneHubTemplating": STANDALONE.name,
}
"""The feature gates of Muster's own addons; that of the gateway addon enables the gateway too."""
ADDON_MANAGER_GATES: Final = (*ADDON_GATES, *HUB_ADDON_GATES)
SERVER_GATES: Final = ()
"""The gRPC server has no gates of its own; those of registration are passed to it."""


@dataclass(frozen=True)
class WebhookField:
    """The field of a webhook server in the deploy options: `name` is the same in both modes."""

    name: str
    default: Callable[[DefaultDeployOption], DefaultWebhookConfiguration]
    hosted: Callable[[HostedDeployOption], HostedWebhookConfiguration | None]


REGISTRATION_WEBHOOK: Final = WebhookField(
    "registrationWebhookConfiguration",
    lambda option: option.registration_webhook_configuration,
    lambda option: option.registration_webhook_configuration,
)
WORK_WEBHOOK: Final = WebhookField(
    "workWebhookConfiguration",
    lambda option: option.work_webhook_configuration,
    lambda option: option.work_webhook_configuration,
)


@dataclass(frozen=True)
class ClusterManagerPlan:
    """`namespace` is that of the components; `hub_namespace` is that of their accounts on the hub."""

    manager: ClusterManager
    image: str
    replicas: int = 1
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels of the ClusterManager that are added to all its objects."""
    begun: bool | None = None
    """Whether it was installed in hosted mode; None if it is not installed yet."""

    @property
    def name(self) -> str:
        return self.manager.metadata.name

    @property
    def hosted(self) -> bool:
        return is_hosted(self.manager) if self.begun is None else self.begun

    def check_mode(self) -> None:
        """Raises BadSpec if the mode was changed: objects of the other mode would be left behind, with users' objects."""
        if self.hosted != is_hosted(self.manager):
            mode = "Hosted" if self.hosted else "Default"
            raise BadSpec("spec.deployOption.mode", f"was {mode} and cannot be changed; delete the ClusterManager and make another")

    @property
    def namespace(self) -> str:
        return self.name if self.hosted else HUB_NAMESPACE

    @property
    def hub_namespace(self) -> str:
        return HUB_NAMESPACE

    @property
    def registration(self) -> HubRegistrationConfiguration:
        return self.manager.spec.registration_configuration or HubRegistrationConfiguration()

    @property
    def registration_image(self) -> str:
        return chosen_image(self.manager.spec.registration_image_pull_spec, self.image)

    @property
    def work_image(self) -> str:
        return chosen_image(self.manager.spec.work_image_pull_spec, self.image)

    @property
    def placement_image(self) -> str:
        return chosen_image(self.manager.spec.placement_image_pull_spec, self.image)

    @property
    def addon_manager_image(self) -> str:
        return chosen_image(self.manager.spec.add_on_manager_image_pull_spec, self.image)

    @property
    def addon_manager(self) -> bool:
        """Whether the hub manages addons, which is the default."""
        configured = self.manager.spec.add_on_manager_configuration
        gates = configured.feature_gates if configured else ()
        return not any(gate.feature == ADDON_MANAGEMENT and gate.mode != "Enable" for gate in gates)

    @property
    def gateway(self) -> bool:
        """Whether the hub has a gateway to the APIs of its clusters."""
        return CLUSTER_GATEWAY.name in self.hub_addons

    @cached_property
    def hub_addons(self) -> tuple[str, ...]:
        """Muster's own addons that are enabled, with those that they require."""
        configured = self.manager.spec.add_on_manager_configuration
        gates = configured.feature_gates if configured else ()
        return tuple(with_required(addon for gate, addon in HUB_ADDON_GATES.items() if _is_on(gates, gate)))

    @property
    def gateway_version(self) -> str:
        """The version in which the gateway serves its API. Raises BadSpec."""
        version = self.manager.metadata.annotations.get(API_VERSION_ANNOTATION) or API_VERSIONS[0]
        if version not in API_VERSIONS:
            raise BadSpec(_annotation(API_VERSION_ANNOTATION), f"{version!r} is none of {', '.join(API_VERSIONS)}")
        return version

    @property
    def gateway_oam(self) -> bool:
        """Whether the gateway serves upstream's group too. Raises BadSpec."""
        return self._switch(OAM_ANNOTATION)

    @property
    def gateway_loopback(self) -> bool:
        """Whether clusters may have addresses of the gateway's own machine. Raises BadSpec."""
        return self._switch(LOOPBACK_ANNOTATION)

    def _switch(self, annotation: str) -> bool:
        value = self.manager.metadata.annotations.get(annotation, "false")
        if value not in ("true", "false"):
            raise BadSpec(_annotation(annotation), f"{value!r} is neither true nor false")
        return value == "true"

    @property
    def gateway_address(self) -> tuple[str, int]:
        """Host and port at which a hosted hub reaches the gateway. Raises BadSpec."""
        text = self.manager.metadata.annotations.get(ADDRESS_ANNOTATION, "")
        host, port = host_port_of(f"https://{text}") or ("", 0)
        if dns1123_subdomain(host) or "/" in text:
            where = "the address of the gateway must be given, as HOST or HOST:PORT"
            raise BadSpec(_annotation(ADDRESS_ANNOTATION), f"{text!r} is no address: in Hosted mode {where}")
        return host, port

    @property
    def gateway_cluster_proxy(self) -> tuple[str, int] | None:
        """Host and port of upstream's cluster-proxy for the gateway, if given. Raises BadSpec."""
        text = self.manager.metadata.annotations.get(CLUSTER_PROXY_ANNOTATION, "")
        if not text:
            return None
        host, port = host_port_of(text if ":" in text else f"{text}:{CLUSTER_PROXY_PORT}") or ("", 0)
        if dns1123_subdomain(host) or "/" in text or "@" in text:
            where = "the address of cluster-proxy must be given, as HOST or HOST:PORT"
            raise BadSpec(_annotation(CLUSTER_PROXY_ANNOTATION), f"{text!r} is no address: {where}")
        return host, port

    @property
    def placement_debug(self) -> bool:
        """Whether the placement controller serves explanations of decisions."""
        configured = self.manager.spec.placement_configuration
        return configured is not None and _is_on(configured.feature_gates, DEBUG_SERVER)

    @property
    def server_image(self) -> str:
        configured = self.manager.spec.server_configuration
        return chosen_image(configured.image_pull_spec if configured else "", self.registration_image)

    @cached_property
    def grpc_server(self) -> bool:
        """Whether an enabled driver connects agents through the gRPC server; drivers that are not installed are ignored."""
        return any(_wants_server(entry.auth_type) for entry in self.registration.registration_drivers)

    @property
    def work_controllers(self) -> bool:
        """Whether the hub needs controllers for works, besides their webhooks."""
        gates = self.manager.spec.work_configuration.feature_gates
        return _is_on(gates, MANIFEST_WORK_REPLICA_SET) or _is_on(gates, CLEAN_UP_COMPLETED) or self.by_bindings

    @property
    def by_bindings(self) -> bool:
        """Whether bindings decide who may write works that run as an executor."""
        gates = {gate.feature: gate.mode == "Enable" for gate in self.manager.spec.work_configuration.feature_gates}
        return authorization(gates, ExecutorAuthorization.ACCESS_REVIEW).by_bindings

    def hosted_webhook(self, webhook: WebhookField) -> HostedWebhookConfiguration:
        """Raises BadSpec if a hosted hub has no address of its webhooks."""
        hosted = self.manager.spec.deploy_option.hosted
        configured = webhook.hosted(hosted) if hosted else None
        if configured is None or not configured.address:
            where = f"spec.deployOption.hosted.{webhook.name}.address"
            raise BadSpec(where, "in Hosted mode the address of the webhooks must be given")
        return configured

    def bind(self, webhook: WebhookField) -> BindConfiguration:
        """The listen address of the webhooks. Raises BadSpec."""
        if self.hosted:
            return self.hosted_webhook(webhook).bind_configuration
        option = self.manager.spec.deploy_option.default
        return webhook.default(option).bind_configuration if option else BindConfiguration()


def _annotation(key: str) -> str:
    return f"metadata.annotations[{key}]"


def _wants_server(auth_type: str) -> bool:
    try:
        return find(auth_type).grpc_server
    except DriverError:
        return False


def is_hosted(manager: ClusterManager) -> bool:
    return manager.spec.deploy_option.mode == "Hosted"


def _is_on(gates: Iterable[FeatureGate], name: str) -> bool:
    return any(gate.feature == name and gate.mode == "Enable" for gate in gates)


def registration_gates(plan: ClusterManagerPlan) -> list[str]:
    return gate_flags(plan.registration.feature_gates, HUB_GATES)


def work_gates(plan: ClusterManagerPlan) -> list[str]:
    return gate_flags(plan.manager.spec.work_configuration.feature_gates, WORK_GATES)


def placement_gates(plan: ClusterManagerPlan) -> list[str]:
    configured = plan.manager.spec.placement_configuration
    flags = gate_flags(configured.feature_gates if configured else (), PLACEMENT_GATES)
    return [*flags, *(("--debug-host=$(POD_IP)", f"--debug-port={DEBUG_PORT}") if plan.placement_debug else ())]


def gateway_arguments(plan: ClusterManagerPlan) -> list[str]:
    """Raises BadSpec."""
    switches = {"--oam-api": plan.gateway_oam, "--allow-loopback-endpoints": plan.gateway_loopback}
    return [
        f"--api-version={plan.gateway_version}",
        *(flag for flag, on in switches.items() if on),
        *_cluster_proxy_arguments(plan),
    ]


def _cluster_proxy_arguments(plan: ClusterManagerPlan) -> list[str]:
    if plan.gateway_cluster_proxy is None:
        return []
    host, port = plan.gateway_cluster_proxy
    ca, client = gateway_secrets(plan).values()
    return [
        f"--proxy-host={host}",
        f"--proxy-port={port}",
        f"--proxy-ca-cert={ca}/ca.crt",
        f"--proxy-cert={client}/tls.crt",
        f"--proxy-key={client}/tls.key",
    ]


def gateway_secrets(plan: ClusterManagerPlan) -> dict[str, str]:
    """The Secrets with the gateway's credentials for cluster-proxy, and their mount directories. They are copies, made by an
    administrator, and may be created later than the gateway. Raises BadSpec."""
    names = () if plan.gateway_cluster_proxy is None else (CLUSTER_PROXY_CA, CLUSTER_PROXY_CLIENT)
    return {name: f"{GATEWAY_FILES}/{name}" for name in names}


def registration_arguments(plan: ClusterManagerPlan) -> list[str]:
    """The flags of the controllers that come from the registration configuration. Raises BadSpec."""
    configured = plan.registration
    arguments = registration_gates(plan)
    if _is_on(configured.feature_gates, AUTO_APPROVAL):
        arguments += [f"--cluster-auto-approval-users={user}" for user in configured.auto_approve_users]
    arguments += _driver_arguments(configured)
    if configured.remove_denied_after:
        arguments.append(f"--remove-denied-after={configured.remove_denied_after}")
    if plan.labels:
        arguments.append("--labels=" + ",".join(f"{key}={value}" for key, value in sorted(plan.labels.items())))
    return arguments


def _driver_arguments(configured: HubRegistrationConfiguration) -> list[str]:
    found = _drivers(configured)
    names = ",".join(dict.fromkeys(driver.name for driver, _ in found))
    enabled = [f"--enabled-registration-drivers={names}"] if names else []
    return [*enabled, *(argument for _, process in found for argument in process.arguments)]


def driver_secrets(plan: ClusterManagerPlan) -> dict[str, str]:
    """The Secrets that drivers need in the controllers, and their mount directories. Raises BadSpec."""
    return {name: path for _, process in _drivers(plan.registration) for name, path in process.secrets.items()}


def driver_rules(plan: ClusterManagerPlan) -> list[HubRules]:
    """The permissions that drivers need for the controllers. Raises BadSpec."""
    return [process.rules for _, process in _drivers(plan.registration)]


def driver_tokens(plan: ClusterManagerPlan) -> tuple[AccountToken, ...]:
    """The service account tokens, for other audiences, that drivers need in the controllers. Raises BadSpec."""
    return tuple(token for _, process in _drivers(plan.registration) for token in process.tokens)


def driver_variables(plan: ClusterManagerPlan) -> dict[str, str]:
    """The environment variables that drivers need in the controllers. Raises BadSpec."""
    return {name: value for _, process in _drivers(plan.registration) for name, value in process.variables.items()}


def account_annotations(plan: ClusterManagerPlan) -> dict[str, str]:
    """The annotations that drivers need on the controllers' account. Raises BadSpec."""
    return {key: value for _, process in _drivers(plan.registration) for key, value in process.annotations.items()}


def _drivers(configured: HubRegistrationConfiguration) -> list[tuple[Driver, Process]]:
    """The enabled drivers, with their process settings for the controllers. Raises BadSpec."""
    return [_driver(entry) for entry in configured.registration_drivers]


def _driver(entry: HubRegistrationDriver) -> tuple[Driver, Process]:
    where = "spec.registrationConfiguration.registrationDrivers"
    driver = installed_driver(entry.auth_type, f"{where}[authType={entry.auth_type}].authType")
    try:
        return driver, driver.hub_process(entry)
    except BadField as error:
        raise BadSpec(f"{where}[authType={driver.name}].{error.field}", error.problem) from None


def gate_review(manager: ClusterManager) -> GateReview:
    spec = manager.spec
    listed: dict[str, tuple[tuple[FeatureGate, ...], tuple[str, ...], tuple[str, ...]]] = {}
    if spec.registration_configuration:
        listed["registration"] = (spec.registration_configuration.feature_gates, HUB_GATES, HUB_UNSUPPORTED_GATES)
    listed["work"] = (spec.work_configuration.feature_gates, WORK_GATES, WORK_UNSUPPORTED_GATES)
    if spec.add_on_manager_configuration:
        listed["addon"] = (spec.add_on_manager_configuration.feature_gates, ADDON_MANAGER_GATES, ())
    if spec.placement_configuration:
        listed["placement"] = (spec.placement_configuration.feature_gates, PLACEMENT_GATES, PLACEMENT_UNSUPPORTED_GATES)
    if spec.server_configuration:
        listed["server"] = (spec.server_configuration.feature_gates, SERVER_GATES, ())
    return review_gates(listed)
