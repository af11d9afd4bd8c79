"""What an addon is to its hub: the seam that template addons, Muster's own and those of other Python processes implement.

An `AgentAddon` is asked once per pass for one cluster, with everything it may look at (`Installation`), and answers with everything
the hub needs to know of the addon's agent there (`Agent`): manifests, credentials, rights on the hub, namespace, health. It answers
from what it is given alone, asks nobody, and keeps nothing: the same installation gives the same agent. What cannot be rendered is
an `AddonError`, which is shown on that ManagedClusterAddOn and harms no other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Protocol

from muster.api.addon.v1alpha1 import ConfigGroupResource, ManagedClusterAddOn, SecretReference
from muster.api.addons import AddonIdentity, agent_name
from muster.api.agents import GRPC_SIGNER
from muster.api.cluster.v1 import ManagedCluster
from muster.api.work.v1 import ManifestConfig
from muster.machinery.objects import Object

_RESERVED_DOMAINS: Final = ("kubernetes.io", "k8s.io")
_RESERVED_SUFFIXES: Final = (".kubernetes.io", ".k8s.io")


class AddonError(Exception):
    """Why an addon has no agent for a cluster; the message names what is wrong, where, and the remedy."""


@dataclass(frozen=True)
class ConfigObject:
    """A configuration as the hub serves it."""

    group: str
    resource: str
    document: Object
    spec_hash: str


@dataclass(frozen=True)
class Installation:
    """An addon on a cluster, with the configurations that it is to have there, in the order of its references."""

    cluster: ManagedCluster
    addon: ManagedClusterAddOn
    configs: tuple[ConfigObject, ...] = ()
    neighbours: Mapping[str, ManagedClusterAddOn] = field(default_factory=dict)
    """By name, those of `AgentAddon.neighbours` that are enabled on the same cluster and not being deleted."""

    def config(self, group: str, resource: str) -> ConfigObject | None:
        """The first of this kind, which is the one that counts."""
        return next((config for config in self.configs if (config.group, config.resource) == (group, resource)), None)


@dataclass(frozen=True)
class RoleBindingRequest:
    """A role on the hub that the addon's agent of this one cluster is bound to, in one namespace.

    The subject is the agent's own user, computed by the hub. `kind` is Role or ClusterRole; without `namespace` the role is bound
    in the cluster's namespace.
    """

    kind: str
    role: str
    namespace: str = ""
    whole_addon: bool = False
    """Binds the group of the addon's agents on all clusters instead: every cluster's agent may then do this here."""


@dataclass(frozen=True)
class KubeClient:
    """A credential for the hub's API and the rights that go with it."""

    agent: str = ""
    """The name of the agent in its identity; `<addon>-agent` if empty."""
    permissions: tuple[RoleBindingRequest, ...] = ()

    def identity(self, cluster: str, addon: str) -> AddonIdentity:
        return AddonIdentity(cluster, addon, self.agent or agent_name(addon))


@dataclass(frozen=True)
class CustomSigner:
    """A certificate of a signer of the addon's own; `signing_ca` is the Secret the hub signs with, None if others sign."""

    signer: str
    user: str = ""
    groups: tuple[str, ...] = ()
    organization_units: tuple[str, ...] = ()
    signing_ca: SecretReference | None = None


Registration = KubeClient | CustomSigner


def signer_problem(signer: str) -> str:
    """Why no addon may have a signer of this name; empty when one may. Who somebody is to Kubernetes, or to the hub's gRPC server,
    is not for an addon to say."""
    domain = signer.partition("/")[0]
    if signer == GRPC_SIGNER or domain in _RESERVED_DOMAINS or domain.endswith(_RESERVED_SUFFIXES):
        return f"{signer!r} is a signer of Kubernetes or of the hub itself; an addon names one of its own domain"
    return ""


class HealthMode(Enum):
    LEASE = "Lease"
    """The registration agent reports by the addon's lease."""
    NONE = "None"
    """Somebody else reports."""
    WORK = "Work"
    """Available as soon as its works are applied and available."""
    WORKLOADS = "Workloads"
    """Available while its Deployments and DaemonSets are."""
    FEEDBACK = "Feedback"
    """By `Health.probe`, from what works report back."""


Feedback = Mapping[tuple[str, str, str, str], Mapping[str, object]]
"""By group, resource, namespace and name of a manifest: the values that its feedback rules brought."""


@dataclass(frozen=True)
class Health:
    mode: HealthMode = HealthMode.LEASE
    probe: Callable[[Feedback], str] | None = None
    """What is wrong; empty if nothing is."""


@dataclass(frozen=True)
class Agent:
    """What an addon's agent is on one cluster."""

    manifests: tuple[Object, ...] = ()
    """Hooks and hosted manifests among them are told by their annotations."""
    manifest_configs: tuple[ManifestConfig, ...] = ()
    registrations: tuple[Registration, ...] = ()
    namespace: str = ""
    """Where it runs; the default of the ManagedClusterAddOn if empty."""
    health: Health = Health()
    warnings: tuple[str, ...] = ()
    """What is odd but holds nothing up, such as variables that nobody defined."""
    paused: str = ""
    """Why what is deployed is to stay as it is, and not to become what is rendered; empty if it is to. Credentials are renewed."""


class AgentAddon(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def config_kinds(self) -> Sequence[ConfigGroupResource]:
        """Kinds of configuration that it reads."""
        ...

    @property
    def hosted(self) -> bool:
        """Whether it can run on another cluster than the one it is for."""
        ...

    @property
    def needs_configuration(self) -> bool:
        """Whether nothing is deployed before its configurations are there (template addons: the template is one)."""
        ...

    @property
    def neighbours(self) -> Sequence[str]:
        """Other addons whose being enabled on the same cluster changes what its agent is."""
        ...

    def agent(self, installation: Installation) -> Agent:
        """Raises AddonError."""
        ...


class AddonRegistry(Protocol):
    """Which addons this process serves; template addons come and go with their ClusterManagementAddOns."""

    def find(self, addon: str) -> AgentAddon | None: ...


@dataclass
class StaticAddons:
    """The addons of a process that serves a fixed list."""

    addons: Mapping[str, AgentAddon] = field(default_factory=dict)

    @classmethod
    def of(cls, *addons: AgentAddon) -> StaticAddons:
        return cls({addon.name: addon for addon in addons})

    def find(self, addon: str) -> AgentAddon | None:
        return self.addons.get(addon)
