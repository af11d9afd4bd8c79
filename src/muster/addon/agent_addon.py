"""The interface of an addon on its hub, implemented by template addons, Muster's own addons and those of other Python processes.

Each reconcile calls an `AgentAddon` once for one cluster, with all its inputs (`Installation`), and gets a description of the
addon's agent there (`Agent`): manifests, credentials, permissions on the hub, namespace, health. It is a pure function without
requests or state: the same installation has the same agent. If it cannot be rendered, it raises an `AddonError`, which is shown on
that ManagedClusterAddOn and affects no other.
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
    """Why an addon has no agent for a cluster; the message has the cause, where it is, and the remedy."""


@dataclass(frozen=True)
class ConfigObject:
    """A configuration object as the hub serves it."""

    group: str
    resource: str
    document: Object
    spec_hash: str


@dataclass(frozen=True)
class Installation:
    """An addon on a cluster, with its configurations there, in the order of its references."""

    cluster: ManagedCluster
    addon: ManagedClusterAddOn
    configs: tuple[ConfigObject, ...] = ()
    neighbours: Mapping[str, ManagedClusterAddOn] = field(default_factory=dict)
    """By name, those of `AgentAddon.neighbours` that are enabled on the same cluster and not being deleted."""

    def config(self, group: str, resource: str) -> ConfigObject | None:
        """The first of this kind, which is the one that is used."""
        return next((config for config in self.configs if (config.group, config.resource) == (group, resource)), None)


@dataclass(frozen=True)
class RoleBindingRequest:
    """A role on the hub to which this cluster's agent of the addon is bound, in one namespace.

    The subject is the agent's own user, computed by the hub. `kind` is Role or ClusterRole; without `namespace` the role is bound
    in the cluster's namespace.
    """

    kind: str
    role: str
    namespace: str = ""
    whole_addon: bool = False
    """Binds the group of the addon's agents on all clusters instead: the agent of every cluster then has these permissions here."""


@dataclass(frozen=True)
class KubeClient:
    """A credential for the hub's API and its permissions."""

    agent: str = ""
    """The name of the agent in its identity; `<addon>-agent` if empty."""
    permissions: tuple[RoleBindingRequest, ...] = ()

    def identity(self, cluster: str, addon: str) -> AddonIdentity:
        return AddonIdentity(cluster, addon, self.agent or agent_name(addon))


@dataclass(frozen=True)
class CustomSigner:
    """A certificate of the addon's own signer; `signing_ca` is the Secret with the CA, None if another controller signs."""

    signer: str
    user: str = ""
    groups: tuple[str, ...] = ()
    organization_units: tuple[str, ...] = ()
    signing_ca: SecretReference | None = None


Registration = KubeClient | CustomSigner


def signer_problem(signer: str) -> str:
    """Why no addon may have a signer of this name; empty if it may. Signers for identities of Kubernetes or of the hub's gRPC
    server are not permitted."""
    domain = signer.partition("/")[0]
    if signer == GRPC_SIGNER or domain in _RESERVED_DOMAINS or domain.endswith(_RESERVED_SUFFIXES):
        return f"{signer!r} is a signer of Kubernetes or of the hub itself; an addon names one of its own domain"
    return ""


class HealthMode(Enum):
    LEASE = "Lease"
    """The registration agent reports the addon's lease."""
    NONE = "None"
    """Another program reports."""
    WORK = "Work"
    """Available once its works are applied and available."""
    WORKLOADS = "Workloads"
    """Available while its Deployments and DaemonSets are."""
    FEEDBACK = "Feedback"
    """By `Health.probe`, from the status feedback of works."""


Feedback = Mapping[tuple[str, str, str, str], Mapping[str, object]]
"""By group, resource, namespace and name of a manifest: the values of its feedback rules."""


@dataclass(frozen=True)
class Health:
    mode: HealthMode = HealthMode.LEASE
    probe: Callable[[Feedback], str] | None = None
    """Returns the problem; empty if there is none."""


@dataclass(frozen=True)
class Agent:
    """The agent of an addon on one cluster."""

    manifests: tuple[Object, ...] = ()
    """Hooks and hosted manifests among them are identified by their annotations."""
    manifest_configs: tuple[ManifestConfig, ...] = ()
    registrations: tuple[Registration, ...] = ()
    namespace: str = ""
    """Its namespace; the default of the ManagedClusterAddOn if empty."""
    health: Health = Health()
    warnings: tuple[str, ...] = ()
    """Problems that do not block the deployment, such as undefined variables."""
    paused: str = ""
    """Why the deployed manifests are kept instead of the rendered ones; empty if they are not. Credentials are renewed."""


class AgentAddon(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def config_kinds(self) -> Sequence[ConfigGroupResource]:
        """The kinds of its configurations."""
        ...

    @property
    def hosted(self) -> bool:
        """Whether it can be hosted on another cluster."""
        ...

    @property
    def needs_configuration(self) -> bool:
        """Whether nothing is deployed before its configurations exist (template addons: the template is one)."""
        ...

    @property
    def neighbours(self) -> Sequence[str]:
        """Other addons that change its agent if they are enabled on the same cluster."""
        ...

    def agent(self, installation: Installation) -> Agent:
        """Raises AddonError."""
        ...


class AddonRegistry(Protocol):
    """The addons that this process serves; template addons come and go with their ClusterManagementAddOns."""

    def find(self, addon: str) -> AgentAddon | None: ...


@dataclass
class StaticAddons:
    """A fixed list of addons."""

    addons: Mapping[str, AgentAddon] = field(default_factory=dict)

    @classmethod
    def of(cls, *addons: AgentAddon) -> StaticAddons:
        return cls({addon.name: addon for addon in addons})

    def find(self, addon: str) -> AgentAddon | None:
        return self.addons.get(addon)
