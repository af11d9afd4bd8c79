"""addon.open-cluster-management.io/v1alpha1: addons on the hub and on clusters, their configuration, and addons made of manifests.

This is the version that is stored. Parts that v1beta1 shares unchanged live here and are imported there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final

import msgspec

from muster.api.cluster.v1alpha1 import RolloutStrategy
from muster.api.markers import LABEL, REQUIRED, Base64, Int64, NonEmpty, default, keyed_by, length, one_of, pattern
from muster.api.meta import Conditions, NodePlacement, ResourceRequirements
from muster.api.resource import Column, Record, ResourceType, TypedObject, condition_column
from muster.api.work.v1 import ManifestWorkSpec

GROUP: Final = "addon.open-cluster-management.io"
DEFAULT_NAMESPACE: Final = "open-cluster-management-agent-addon"
AVAILABLE: Final = "Available"
DEGRADED: Final = "Degraded"
PROGRESSING: Final = "Progressing"

SignerName = Annotated[str, pattern(r"^([a-z0-9][a-z0-9-]*[a-z0-9]\.)+[a-z]+\/[a-z0-9-\.]+$", 571, 5)]
KubeClientDriver = Annotated[str, one_of("csr", "token")]
ADDON_COLUMNS: Final = tuple(condition_column(condition, condition) for condition in (AVAILABLE, DEGRADED, PROGRESSING))


class AddOnMeta(Record):
    """The name and description of the addon."""

    display_name: str = ""
    description: str = ""


class ConfigCoordinates(Record):
    """A resource that configures the addon."""

    crd_name: str = ""
    cr_name: str = ""
    last_observed_generation: Int64 = 0


class ConfigGroupResource(Record):
    """A kind of configuration."""

    group: Annotated[str, default("")] = ""
    resource: NonEmpty


class ConfigReferent(Record):
    """A configuration object."""

    name: NonEmpty
    namespace: str = ""


class ConfigMeta(ConfigGroupResource):
    """A kind of configuration that the addon supports, and the object used unless another is named."""

    default_config: ConfigReferent | None = None


class AddOnConfig(ConfigGroupResource):
    """A configuration object and its kind."""

    name: NonEmpty
    namespace: str = ""


class ConfigSpecHash(ConfigReferent):
    """A configuration object at one state of its spec."""

    spec_hash: str = ""


class PlacementStrategy(Record):
    """Installs the addon on the clusters of a placement."""

    namespace: NonEmpty
    name: NonEmpty
    configs: tuple[AddOnConfig, ...] = ()
    rollout_strategy: Annotated[RolloutStrategy, default({"type": "All"})] = RolloutStrategy()


class InstallStrategy(Record):
    """Whether the addon is installed by hand or on the clusters of placements."""

    type: Annotated[str, one_of("Manual", "Placements")] = "Manual"
    placements: Annotated[tuple[PlacementStrategy, ...], keyed_by("namespace", "name")] = ()


class ClusterManagementAddOnSpec(Record):
    """What the addon is, and where it is installed."""

    add_on_meta: AddOnMeta = AddOnMeta()
    add_on_configuration: ConfigCoordinates = ConfigCoordinates()
    supported_configs: Annotated[tuple[ConfigMeta, ...], keyed_by("group", "resource")] = ()
    install_strategy: Annotated[InstallStrategy, default({"type": "Manual"})] = InstallStrategy()


class DefaultConfigReference(ConfigGroupResource):
    """The configuration of clusters for which no other one is set."""

    desired_config: ConfigSpecHash | None = None


class InstallConfigReference(ConfigGroupResource):
    """A configuration on its way to the clusters of a placement."""

    desired_config: ConfigSpecHash | None = None
    last_known_good_config: ConfigSpecHash | None = None
    last_applied_config: ConfigSpecHash | None = None


class InstallProgression(Record):
    """The progress of the installation by one placement."""

    namespace: NonEmpty
    name: NonEmpty
    config_references: tuple[InstallConfigReference, ...] = ()
    conditions: Conditions = ()


class ClusterManagementAddOnStatus(Record):
    """The configurations in use, and the progress of the installation."""

    default_config_references: tuple[DefaultConfigReference, ...] = msgspec.field(name="defaultconfigReferences", default=())
    install_progressions: tuple[InstallProgression, ...] = ()


class ClusterManagementAddOn(TypedObject):
    """An addon that this hub offers to its clusters."""

    resource = ResourceType(
        GROUP,
        "v1alpha1",
        "ClusterManagementAddOn",
        "clustermanagementaddons",
        "Cluster",
        short_names=("cma", "cmas"),
        columns=(
            Column("DISPLAY NAME", ".spec.addOnMeta.displayName"),
            Column("CRD NAME", ".spec.addOnConfiguration.crdName"),
        ),
    )

    spec: ClusterManagementAddOnSpec
    status: ClusterManagementAddOnStatus = ClusterManagementAddOnStatus()


class ManagedClusterAddOnSpec(Record):
    """Where the addon runs on the cluster, and with which configuration."""

    install_namespace: Annotated[str, pattern(LABEL, 63)] = DEFAULT_NAMESPACE
    configs: tuple[AddOnConfig, ...] = ()


class Subject(Record):
    """The identity of the addon's agent on the hub."""

    user: str = ""
    groups: tuple[str, ...] = ()
    organization_unit: tuple[str, ...] = ()


class RegistrationConfig(Record):
    """A client certificate that the addon's agent needs."""

    signer_name: SignerName
    subject: Subject = Subject()


class ConfigReference(ConfigGroupResource):
    """A configuration, as wanted and as applied on the cluster; objects converted from v1beta1 may lack the name."""

    name: Annotated[NonEmpty, REQUIRED] = ""
    namespace: str = ""
    last_observed_generation: Int64 = 0
    desired_config: ConfigSpecHash | None = None
    last_applied_config: ConfigSpecHash | None = None


class ObjectReference(Record):
    """An object that belongs to the addon."""

    group: str
    resource: str
    name: str
    namespace: str = ""


class HealthCheck(Record):
    """How the hub determines whether the addon is available."""

    mode: Annotated[str, one_of("Lease", "Customized")] = "Lease"


class ManagedClusterAddOnStatus(Record):
    """The observed state of the addon on the cluster."""

    conditions: Conditions = ()
    related_objects: tuple[ObjectReference, ...] = ()
    add_on_meta: AddOnMeta = AddOnMeta()
    add_on_configuration: ConfigCoordinates = ConfigCoordinates()
    supported_configs: Annotated[tuple[ConfigGroupResource, ...], keyed_by("group", "resource")] = ()
    config_references: tuple[ConfigReference, ...] = ()
    namespace: str = ""
    registrations: tuple[RegistrationConfig, ...] = ()
    kube_client_driver: KubeClientDriver = ""
    health_check: HealthCheck = HealthCheck()


class ManagedClusterAddOn(TypedObject):
    """An addon on one managed cluster, in that cluster's namespace on the hub."""

    resource = ResourceType(
        GROUP,
        "v1alpha1",
        "ManagedClusterAddOn",
        "managedclusteraddons",
        "Namespaced",
        short_names=("mca", "mcas"),
        columns=ADDON_COLUMNS,
    )

    spec: ManagedClusterAddOnSpec
    status: ManagedClusterAddOnStatus = ManagedClusterAddOnStatus()


class CustomizedVariable(Record):
    """A value that an addon's manifests may use."""

    name: Annotated[str, pattern(r"^[a-zA-Z_][_a-zA-Z0-9]*$", 255)]
    value: Annotated[str, length(maximum=1024)] = ""


class ImageMirror(Record):
    """Where images of a registry are taken from instead."""

    mirror: str
    source: str = ""


class ProxyConfig(Record):
    """How the addon's agent connects to servers outside the cluster."""

    http_proxy: str = ""
    https_proxy: str = ""
    no_proxy: str = ""
    ca_bundle: Base64 = ""


class ContainerResourceRequirements(Record):
    """The resources of containers that are selected by `<workloads>:<workload>:<container>`."""

    container_id: Annotated[str, pattern(r"^(deployments|daemonsets|statefulsets|replicasets|jobs|cronjobs|pods|\*):.+:.+$")] = (
        msgspec.field(name="containerID")
    )
    resources: ResourceRequirements


class AddOnDeploymentConfigSpec(Record):
    """How an addon's agent is deployed."""

    customized_variables: Annotated[tuple[CustomizedVariable, ...], keyed_by("name")] = ()
    node_placement: NodePlacement = NodePlacement()
    registries: tuple[ImageMirror, ...] = ()
    proxy_config: ProxyConfig = ProxyConfig()
    agent_install_namespace: Annotated[str, pattern(r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$", 63)] = DEFAULT_NAMESPACE
    resource_requirements: Annotated[tuple[ContainerResourceRequirements, ...], keyed_by("containerID")] = ()


class AddOnDeploymentConfig(TypedObject):
    """A configuration that addons share: variables, placement on nodes, registries, proxy, resources."""

    resource = ResourceType(GROUP, "v1alpha1", "AddOnDeploymentConfig", "addondeploymentconfigs", "Namespaced", status=False)

    spec: AddOnDeploymentConfigSpec


class SecretReference(Record):
    """A secret on the hub."""

    name: str
    namespace: str = ""


class CustomSignerRegistration(Record):
    """A client certificate from a signer of the addon's own."""

    signer_name: SignerName
    signing_ca: SecretReference = msgspec.field(name="signingCA")
    subject: Subject | None = None


class RoleRef(Record):
    """A role on the hub."""

    keywords: ClassVar[Mapping[str, Any]] = {"x-kubernetes-map-type": "atomic"}

    api_group: str
    kind: str
    name: str


class CurrentClusterBinding(Record):
    """Grants a role in the cluster's own namespace."""

    cluster_role_name: str


class SingleNamespaceBinding(Record):
    """Grants a role in one namespace of the hub."""

    namespace: str
    role_ref: RoleRef


class HubPermission(Record):
    """What the addon's agent may do on the hub."""

    type: Annotated[str, one_of("CurrentCluster", "SingleNamespace")]
    current_cluster: CurrentClusterBinding | None = None
    single_namespace: SingleNamespaceBinding | None = None


class KubeClientRegistration(Record):
    """A client of the hub's API, and what it may do."""

    hub_permissions: tuple[HubPermission, ...] = ()


class TemplateRegistration(Record):
    """A credential for the addon's agent."""

    type: Annotated[str, one_of("KubeClient", "CustomSigner")]
    kube_client: KubeClientRegistration | None = None
    custom_signer: CustomSignerRegistration | None = None


class AddOnTemplateSpec(Record):
    """The manifests of the addon's agent, and the credentials it needs."""

    addon_name: str
    agent_spec: ManifestWorkSpec
    registration: tuple[TemplateRegistration, ...] = ()


class AddOnTemplate(TypedObject):
    """An addon that needs no program on the hub."""

    resource = ResourceType(
        GROUP,
        "v1alpha1",
        "AddOnTemplate",
        "addontemplates",
        "Cluster",
        columns=(Column("ADDON NAME", ".spec.addonName"),),
        status=False,
    )

    spec: AddOnTemplateSpec
