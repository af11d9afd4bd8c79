"""addon.open-cluster-management.io/v1beta1: addons without the fields that v1alpha1 deprecated, and with typed registrations.

Objects are stored as v1alpha1; `muster.api.addon.conversion` says how one becomes the other.
"""

from __future__ import annotations

from typing import Annotated

from muster.api.addon import v1alpha1 as alpha
from muster.api.markers import Int64, default, keyed_by, one_of
from muster.api.meta import Conditions
from muster.api.resource import Column, Record, ResourceType, TypedObject

VERSION = "v1beta1"


class ClusterManagementAddOnSpec(Record):
    """What the addon is, and where it is installed."""

    add_on_meta: alpha.AddOnMeta = alpha.AddOnMeta()
    default_configs: Annotated[tuple[alpha.AddOnConfig, ...], keyed_by("group", "resource")] = ()
    install_strategy: Annotated[alpha.InstallStrategy, default({"type": "Manual"})] = alpha.InstallStrategy()


class ClusterManagementAddOnStatus(Record):
    """The configurations in use, and the progress of the installation."""

    default_config_references: tuple[alpha.DefaultConfigReference, ...] = ()
    install_progressions: tuple[alpha.InstallProgression, ...] = ()


class ClusterManagementAddOn(TypedObject):
    """An addon that this hub offers to its clusters."""

    resource = ResourceType(
        alpha.GROUP,
        VERSION,
        "ClusterManagementAddOn",
        "clustermanagementaddons",
        "Cluster",
        short_names=("cma", "cmas"),
        columns=(Column("DISPLAY NAME", ".spec.addOnMeta.displayName"),),
    )

    spec: ClusterManagementAddOnSpec
    status: ClusterManagementAddOnStatus = ClusterManagementAddOnStatus()


class ManagedClusterAddOnSpec(Record):
    """The configuration of the addon on the cluster."""

    configs: tuple[alpha.AddOnConfig, ...] = ()


class ConfigReference(alpha.ConfigGroupResource):
    """A configuration, as wanted and as applied on the cluster."""

    last_observed_generation: Int64 = 0
    desired_config: alpha.ConfigSpecHash | None = None
    last_applied_config: alpha.ConfigSpecHash | None = None


class KubeClientSubject(Record):
    """The identity of the addon's agent on the hub."""

    user: str = ""
    groups: tuple[str, ...] = ()


class Subject(KubeClientSubject):
    """The identity of the addon's agent for a custom signer."""

    organization_units: tuple[str, ...] = ()


class KubeClientConfig(Record):
    """A client of the hub's API, and how it gets its credential."""

    subject: KubeClientSubject = KubeClientSubject()
    driver: alpha.KubeClientDriver = ""


class CustomSignerConfig(Record):
    """A client certificate from a signer of the addon's own."""

    signer_name: alpha.SignerName
    subject: Subject = Subject()


class RegistrationConfig(Record):
    """A credential that the addon's agent needs."""

    type: Annotated[str, one_of("kubeClient", "customSigner")]
    kube_client: KubeClientConfig | None = None
    custom_signer: CustomSignerConfig | None = None


class ManagedClusterAddOnStatus(Record):
    """The observed state of the addon on the cluster."""

    conditions: Conditions = ()
    related_objects: tuple[alpha.ObjectReference, ...] = ()
    add_on_meta: alpha.AddOnMeta = alpha.AddOnMeta()
    supported_configs: Annotated[tuple[alpha.ConfigGroupResource, ...], keyed_by("group", "resource")] = ()
    config_references: tuple[ConfigReference, ...] = ()
    namespace: str = ""
    registrations: tuple[RegistrationConfig, ...] = ()
    health_check: alpha.HealthCheck = alpha.HealthCheck()


class ManagedClusterAddOn(TypedObject):
    """An addon on one managed cluster, in that cluster's namespace on the hub."""

    resource = ResourceType(
        alpha.GROUP,
        VERSION,
        "ManagedClusterAddOn",
        "managedclusteraddons",
        "Namespaced",
        short_names=("mca", "mcas"),
        columns=alpha.ADDON_COLUMNS,
    )

    spec: ManagedClusterAddOnSpec
    status: ManagedClusterAddOnStatus = ManagedClusterAddOnStatus()


class AddOnDeploymentConfig(TypedObject):
    """A configuration that addons share: variables, placement on nodes, registries, proxy, resources."""

    resource = ResourceType(alpha.GROUP, VERSION, "AddOnDeploymentConfig", "addondeploymentconfigs", "Namespaced", status=False)

    spec: alpha.AddOnDeploymentConfigSpec
