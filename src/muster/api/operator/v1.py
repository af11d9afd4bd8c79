"""operator.open-cluster-management.io/v1: ClusterManager makes a cluster a hub, Klusterlet makes it a managed one.

Where upstream's definitions refuse what a field is for, ours are wider: clusters of every AWS partition, EKS names with `_`,
and every registration driver's name beside those of upstream's three, with `driverOptions` for what such a driver is told.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final

import msgspec

from muster.api.markers import (
    HOSTNAME,
    LABEL,
    REQUIRED,
    Base64,
    DnsLabel,
    Int32,
    Int64,
    default,
    keyed_by,
    length,
    one_of,
    pattern,
    schema,
)
from muster.api.meta import Conditions, NodePlacement, ResourceRequirements
from muster.api.resource import Record, ResourceType, TypedObject

GROUP: Final = "operator.open-cluster-management.io"
VERSION: Final = "v1"
_IMAGES: Final = "quay.io/open-cluster-management"

_ARN: Final = r"^arn:aws[a-z-]*:eks:([a-zA-Z0-9-]+):([0-9]{12}):cluster/([a-zA-Z0-9_-]+)$"
DURATION: Final = r"^([0-9]+(s|m|h))*$"
ClusterArn = Annotated[str, pattern(_ARN)]
RequiredClusterArn = Annotated[str, pattern(_ARN, minimum=1)]
AuthType = Annotated[str, pattern(LABEL, 63), REQUIRED]
"""The name of a registration driver. Upstream's are csr, awsirsa and grpc, and no others."""
ADDON_AUTH_TYPES: Final = ("csr", "token")
HostName = Annotated[str, pattern(HOSTNAME)]
Port = Annotated[Int32, schema(maximum=65535)]
Interval = Annotated[str, pattern(r"^([0-9]+(s|m|h))+$")]


class FeatureGate(Record):
    """Turns a feature on or off."""

    feature: str
    mode: Annotated[str, one_of("Enable", "Disable")] = "Disable"


class ResourceRequirement(Record):
    """The resources that the pods of the components request."""

    type: Annotated[str, one_of("Default", "BestEffort", "ResourceRequirement")] = "Default"
    resource_requirements: ResourceRequirements | None = None


class GenerationStatus(Record):
    """An object that the operator applied, at the generation it had then."""

    group: str
    version: str
    resource: str
    name: str
    last_generation: Int64
    namespace: str = ""


class RelatedResource(Record):
    """An object that belongs to the deployment."""

    group: str
    version: str
    resource: str
    name: str
    namespace: str = ""


class OperatorStatus(Record):
    """The observed state of the deployment."""

    observed_generation: Int64 = 0
    conditions: Conditions = ()
    generations: tuple[GenerationStatus, ...] = ()
    related_resources: tuple[RelatedResource, ...] = ()


class AutoApproval(Record):
    """The users whose clusters are accepted without an administrator."""

    auto_approved_identities: tuple[str, ...] = ()


class AwsIrsaHubDriver(AutoApproval):
    """Registration by AWS identities, as the hub sees it."""

    hub_cluster_arn: ClusterArn = ""
    tags: tuple[str, ...] = ()
    mapping: Annotated[str, one_of("auto", "aws-auth", "access-entry")] = ""
    """Ours: how a cluster's role is mapped to its user on the hub; `auto` if empty."""
    identity: Annotated[str, one_of("auto", "administrator", "hub")] = ""
    """Ours: the AWS identity that creates a cluster's role; `auto` if empty."""


class HubRegistrationDriver(Record):
    """A registration driver that clusters may use."""

    auth_type: AuthType = "csr"
    csr: AutoApproval | None = None
    awsirsa: AwsIrsaHubDriver | None = None
    grpc: AutoApproval | None = None
    driver_options: Mapping[str, tuple[str, ...]] = {}
    """Ours: options of drivers without fields of their own. Not for secrets: everyone who can read this object can read them."""


class ImporterConfiguration(Record):
    """How the hub imports clusters automatically."""

    renderers: tuple[str, ...] = ()


class HubRegistrationConfiguration(Record):
    """How clusters register."""

    auto_approve_users: tuple[str, ...] = ()
    feature_gates: tuple[FeatureGate, ...] = ()
    registration_drivers: Annotated[tuple[HubRegistrationDriver, ...], keyed_by("authType")] = ()
    importer_configuration: ImporterConfiguration = ImporterConfiguration()
    remove_denied_after: Annotated[str, pattern(DURATION)] = ""
    """Ours: how long after a cluster was denied its ManagedCluster is deleted (`72h`); never if empty."""


class HubWorkConfiguration(Record):
    """How works are delivered."""

    feature_gates: tuple[FeatureGate, ...] = ()
    work_driver: Annotated[str, one_of("kube", "mqtt", "grpc")] = "kube"


class AddOnManagerConfiguration(Record):
    """Features of the addon manager."""

    feature_gates: tuple[FeatureGate, ...] = ()


class PlacementConfiguration(Record):
    """Features of the placement controller."""

    feature_gates: tuple[FeatureGate, ...] = ()


class Endpoint(Record):
    """A host and the CA with which it is verified."""

    host: str = ""
    ca_bundle: Base64 = ""


class HostnameEndpoint(Record):
    """A host name and the CA with which it is verified."""

    host: str
    ca_bundle: Base64 = ""


FIXED_HOSTNAME: Final = "hostname"
LOAD_BALANCER: Final = "loadBalancer"
ROUTE: Final = "route"


class EndpointExposure(Record):
    """How an endpoint is reached from outside."""

    type: Annotated[str, one_of(FIXED_HOSTNAME, LOAD_BALANCER, ROUTE), REQUIRED] = FIXED_HOSTNAME
    hostname: HostnameEndpoint | None = None
    load_balancer: Endpoint | None = None
    route: Endpoint | None = None

    @property
    def host(self) -> str:
        """What the exposure of this type says that agents dial; empty where it says nothing."""
        chosen = {FIXED_HOSTNAME: self.hostname, LOAD_BALANCER: self.load_balancer, ROUTE: self.route}.get(self.type)
        return chosen.host if chosen is not None else ""


GRPC_PROTOCOL: Final = "grpc"


class ServerEndpoint(Record):
    """An endpoint of the hub's server, for a protocol and a use."""

    protocol: Annotated[str, one_of(GRPC_PROTOCOL, "https"), REQUIRED] = GRPC_PROTOCOL
    usage: str = ""
    grpc: EndpointExposure | None = None
    https: EndpointExposure | None = None


class ServerConfiguration(Record):
    """The server that agents connect to over gRPC."""

    image_pull_spec: str = ""
    feature_gates: tuple[FeatureGate, ...] = ()
    endpoints_exposure: tuple[ServerEndpoint, ...] = ()

    @property
    def grpc_exposures(self) -> tuple[EndpointExposure, ...]:
        """How agents reach the gRPC server, in order."""
        return tuple(one.grpc for one in self.endpoints_exposure if one.protocol == GRPC_PROTOCOL and one.grpc is not None)


class BindConfiguration(Record):
    """Where a webhook server listens."""

    port: Port = 9443
    health_probe_port: Port = 8000
    metrics_port: Port = 8080
    host_network: bool = False


class DefaultWebhookConfiguration(Record):
    """A webhook server on the hub."""

    bind_configuration: BindConfiguration = BindConfiguration()


class HostedWebhookConfiguration(Record):
    """A webhook server outside of the hub."""

    address: HostName
    port: Port = 443
    bind_configuration: BindConfiguration = BindConfiguration()


class DefaultDeployOption(Record):
    """The webhook servers of a hub that runs its own components."""

    registration_webhook_configuration: DefaultWebhookConfiguration = DefaultWebhookConfiguration()
    work_webhook_configuration: DefaultWebhookConfiguration = DefaultWebhookConfiguration()


class HostedDeployOption(Record):
    """The webhook servers of a hub whose components run on another cluster."""

    registration_webhook_configuration: HostedWebhookConfiguration | None = None
    work_webhook_configuration: HostedWebhookConfiguration | None = None


class ClusterManagerDeployOption(Record):
    """Where the hub's components run."""

    mode: Annotated[str, one_of("Default", "Hosted"), REQUIRED] = "Default"
    default: DefaultDeployOption | None = None
    hosted: HostedDeployOption | None = None


class ClusterManagerSpec(Record):
    """What runs on the hub, and how."""

    registration_image_pull_spec: str = f"{_IMAGES}/registration"
    work_image_pull_spec: str = f"{_IMAGES}/work"
    placement_image_pull_spec: str = f"{_IMAGES}/placement"
    add_on_manager_image_pull_spec: str = f"{_IMAGES}/addon-manager"
    node_placement: NodePlacement = NodePlacement()
    deploy_option: Annotated[ClusterManagerDeployOption, default({"mode": "Default"})] = ClusterManagerDeployOption()
    registration_configuration: HubRegistrationConfiguration | None = None
    work_configuration: Annotated[HubWorkConfiguration, default({"workDriver": "kube"})] = HubWorkConfiguration()
    add_on_manager_configuration: AddOnManagerConfiguration | None = None
    placement_configuration: PlacementConfiguration | None = None
    server_configuration: ServerConfiguration | None = None
    resource_requirement: ResourceRequirement | None = None


class ClusterManager(TypedObject):
    """Installs a hub on the cluster that contains it, or on another one."""

    resource = ResourceType(GROUP, VERSION, "ClusterManager", "clustermanagers", "Cluster")

    spec: Annotated[ClusterManagerSpec, default({"deployOption": {"mode": "Default"}})] = ClusterManagerSpec()
    status: OperatorStatus = OperatorStatus()


class ServerURL(Record):
    """An address of the managed cluster's API server."""

    url: str
    ca_bundle: Base64 = ""


class HubApiServerHostAlias(Record):
    """An entry of the agent's hosts file for the hub."""

    ip: Annotated[str, pattern(r"^(?:(?:25[0-5]|2[0-4][0-9]|[01]?[0-9][0-9]?)\.){3}(?:25[0-5]|2[0-4][0-9]|[01]?[0-9][0-9]?)$")]
    hostname: HostName


class KlusterletDeployOption(Record):
    """Where the agent runs."""

    mode: str = ""


class KubeConfigSecret(Record):
    """A secret with a bootstrap kubeconfig."""

    name: str


class LocalSecretsConfig(Record):
    """Bootstrap kubeconfigs for several hubs, and when to try the next."""

    kube_config_secrets: tuple[KubeConfigSecret, ...]
    hub_connection_timeout_seconds: Annotated[Int32, schema(minimum=180)] = 600


class BootstrapKubeConfigs(Record):
    """Where bootstrap kubeconfigs come from."""

    type: Annotated[str, one_of("None", "LocalSecrets"), REQUIRED] = "None"
    local_secrets_config: LocalSecretsConfig | None = None


class AwsIrsaSpokeDriver(Record):
    """Registration by AWS identities, as the agent sees it."""

    hub_cluster_arn: RequiredClusterArn
    managed_cluster_arn: RequiredClusterArn


class SpokeRegistrationDriver(Record):
    """How this cluster registers."""

    auth_type: AuthType = "csr"
    aws_irsa: AwsIrsaSpokeDriver | None = None
    driver_options: Mapping[str, tuple[str, ...]] = {}
    """Ours: options of drivers without fields of their own. Not for secrets: everyone who can read this object can read them."""


class TokenConfig(Record):
    """The lifetime of tokens of addons."""

    expiration_seconds: Int64 | None = None


class AddOnRegistrationDriver(Record):
    """How agents of addons get their credential for the hub."""

    auth_type: Annotated[str, one_of(*ADDON_AUTH_TYPES)] = ""
    token: TokenConfig | None = None


class ClusterClaimConfiguration(Record):
    """The claims that are reported."""

    max_custom_cluster_claims: Annotated[Int32, REQUIRED] = 20
    reserved_cluster_claim_suffixes: Annotated[tuple[Annotated[str, length(1, 64)], ...], schema(maxItems=10)] = ()


class SpokeRegistrationConfiguration(Record):
    """How the agent registers."""

    client_cert_expiration_seconds: Int32 = 0
    feature_gates: tuple[FeatureGate, ...] = ()
    cluster_annotations: Mapping[str, str] = {}
    cluster_labels: Mapping[str, str] = {}
    kube_api_qps: Int32 = msgspec.field(name="kubeAPIQPS", default=50)
    kube_api_burst: Int32 = msgspec.field(name="kubeAPIBurst", default=100)
    bootstrap_kube_configs: BootstrapKubeConfigs = BootstrapKubeConfigs()
    registration_driver: SpokeRegistrationDriver = SpokeRegistrationDriver()
    add_on_kube_client_registration_driver: AddOnRegistrationDriver | None = None
    cluster_claim_configuration: ClusterClaimConfiguration | None = None


class SpokeWorkConfiguration(Record):
    """How the agent applies works."""

    feature_gates: tuple[FeatureGate, ...] = ()
    kube_api_qps: Int32 = msgspec.field(name="kubeAPIQPS", default=50)
    kube_api_burst: Int32 = msgspec.field(name="kubeAPIBurst", default=100)
    hub_kube_api_qps: Int32 = msgspec.field(name="hubKubeAPIQPS", default=50)
    hub_kube_api_burst: Int32 = msgspec.field(name="hubKubeAPIBurst", default=100)
    applied_manifest_work_eviction_grace_period: Interval = ""
    status_sync_interval: Interval = ""


class KlusterletSpec(Record):
    """What runs on the managed cluster, and how it reaches its hub."""

    namespace: Annotated[str, pattern(r"^open-cluster-management-[-a-z0-9]*[a-z0-9]$", 57)] = ""
    cluster_name: DnsLabel = ""
    registration_image_pull_spec: str = ""
    work_image_pull_spec: str = ""
    image_pull_spec: str = ""
    external_server_urls: tuple[ServerURL, ...] = msgspec.field(name="externalServerURLs", default=())
    node_placement: NodePlacement = NodePlacement()
    deploy_option: KlusterletDeployOption = KlusterletDeployOption()
    registration_configuration: SpokeRegistrationConfiguration | None = None
    work_configuration: SpokeWorkConfiguration | None = None
    hub_api_server_host_alias: HubApiServerHostAlias | None = None
    resource_requirement: ResourceRequirement | None = None
    priority_class_name: str = ""


class Klusterlet(TypedObject):
    """Registers the cluster that contains it, or another one, as a managed cluster."""

    resource = ResourceType(GROUP, VERSION, "Klusterlet", "klusterlets", "Cluster")

    spec: KlusterletSpec = KlusterletSpec()
    status: OperatorStatus = OperatorStatus()
