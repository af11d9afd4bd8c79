"""What a driver says of itself to those who install it, configure it and look after it: operators, `clusteradm`, other drivers.

Nobody else knows a driver's name, its marks on objects, the rights it takes, its fields in CRs or its flags. All of it has a
default that does for a driver without wishes: its clusters carry its name as an annotation, what is said to it travels as the CRs'
`driverOptions` and reaches its processes as `--driver-option`, and its agents need no rights but those that all agents have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from muster.registration.names import DRIVER_ANNOTATION

if TYPE_CHECKING:
    from muster.api.cluster.v1 import ManagedCluster
    from muster.api.operator.v1 import ClusterManagerSpec, HubRegistrationDriver, SpokeRegistrationConfiguration
    from muster.api.resource import Document
    from muster.machinery.authorization import AccessAttributes

DriverOptions = Mapping[str, Sequence[str]]
"""What the command line says to a driver, by option name without dashes; repeatable options have several values."""

PROXY_URL: Final = "proxy-url"
PROXY_CA: Final = "proxy-ca"
"""By which `join` tells a driver whose agents have a server of their own (`MemberSetup.server`) of the proxy that leads there, and
who vouches for the proxy, in PEM."""


@dataclass(frozen=True)
class HubRules:
    """Rights that the hub's controllers need by a driver, beside those that they always have: RBAC's rules."""

    own: tuple[Document, ...] = ()
    """In the hub's own namespace."""
    elsewhere: Mapping[str, tuple[Document, ...]] = field(default_factory=dict)
    """By namespace."""


@dataclass(frozen=True)
class AccountToken:
    """A token of the account that a process runs as, in a file that is replaced before it expires."""

    volume: str
    directory: str
    file: str
    audience: str
    seconds: int


@dataclass(frozen=True)
class Process:
    """How operators start a process that works by a driver."""

    arguments: tuple[str, ...] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)
    """Of the account that it runs as."""
    secrets: Mapping[str, str] = field(default_factory=dict)
    """Of its namespace, which it reads as files: name to directory."""
    scratch: Mapping[str, str] = field(default_factory=dict)
    """Directories of its own that it writes to: volume to path."""
    rules: HubRules = HubRules()
    tokens: tuple[AccountToken, ...] = ()
    """Of the account that it runs as, for others than its own cluster."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Of its environment."""


@dataclass(frozen=True)
class AgentFiles:
    """Files that a driver's own flags name, as the command line has them."""

    bootstrap: tuple[str, ...] = ()
    """What the agent introduces its cluster with, in order of preference."""
    hub: str = ""
    """Where others find the agent's own way to its hub."""


@dataclass(frozen=True)
class HubSetup:
    """What `init` writes for a driver."""

    entry: Document = field(default_factory=dict)
    """Of the ClusterManager's `registrationDrivers`, beside `authType`."""
    spec: Document = field(default_factory=dict)
    """What else the ClusterManager's spec says."""
    objects: tuple[Document, ...] = ()
    """ConfigMaps that have to be there, and that are made where they are missing; what is there is left alone."""
    remarks: tuple[str, ...] = ()
    """What the administrator may not expect."""


@dataclass(frozen=True)
class MemberSetup:
    """What `join` writes for a driver, and has to know of it."""

    entry: Document = field(default_factory=dict)
    """Of the Klusterlet's `registrationDriver`, beside `authType`."""
    files: Mapping[str, str] = field(default_factory=dict, repr=False)
    """In the bootstrap Secret. If the entry that leads the driver's agents to their hub is among them, no kubeconfig is there."""
    dialled: tuple[str, ...] = ()
    """Where its agents have to get through, beside the hub's API server."""
    identity: str = ""
    """What the cluster is called where its identity comes from."""
    server: str = ""
    """Where its agents reach the hub, if not at its API server; then `ca` and `hashes` are what the administrator told of it."""
    ca: bytes = field(default=b"", repr=False)
    hashes: tuple[str, ...] = ()
    """`sha256:<hex>`, of the authority's public key."""


class Profile:
    """`name` is the authentication type in CRs and on command lines; `aliases` are further spellings of it."""

    name: str
    aliases: tuple[str, ...] = ()
    certificates: bool = False
    """Whether agents ask for certificates by signing requests on the hub: `accept` approves these then."""
    kubernetes_signs: bool = False
    """Whether Kubernetes itself has to sign these certificates, which not every cluster does."""

    addon_driver: str = ""
    """How agents of addons are to prove themselves where clusters register so, if nobody says; empty leaves it to the agent."""
    several_hubs: bool = True
    """Whether one agent may be given several hubs to choose from."""
    grpc_server: bool = False
    """Whether agents reach the hub through its gRPC server: operators deploy one then, and keep an authority for its clients."""

    def marks(self, cluster: ManagedCluster) -> bool:
        """Whether the cluster says that it registers by this driver. Cheap, no side effect, never raises on odd objects."""
        return cluster.metadata.annotations.get(DRIVER_ANNOTATION) in (self.name, *self.aliases)

    def identity_of(self, cluster: ManagedCluster) -> str:
        """What a cluster of this driver is called where its identity comes from; empty when nothing tells."""
        return ""

    def identity_marks(self, identity: str, configured: HubRegistrationDriver) -> Mapping[str, str]:
        """The annotations of a cluster that is called so where its identity comes from, on a hub that is set up so; none where
        clusters of this driver have no identity elsewhere. Raises Unfit."""
        return {}

    def bootstrap_rights(self) -> tuple[AccessAttributes, ...]:
        """What whoever introduces a cluster needs on the hub, beyond making its ManagedCluster."""
        return ()

    def agent_rights(self) -> tuple[AccessAttributes, ...]:
        """What a registered agent needs on the hub, beyond what all agents do."""
        return ()

    def hub_process(self, entry: HubRegistrationDriver) -> Process:
        """For `muster hub`. Raises BadField, with a path below this entry of `registrationDrivers`."""
        return Process(self._carried(entry.driver_options))

    def hub_rules(self, options: DriverOptions) -> HubRules:
        """What `muster hub`, told this, needs beyond what every hub may."""
        return HubRules()

    def agent_process(self, configured: SpokeRegistrationConfiguration) -> Process:
        """For `muster agent`. Raises BadField, with a path below `registrationConfiguration`."""
        return Process(self._carried(configured.registration_driver.driver_options))

    def agent_files(self, options: DriverOptions) -> AgentFiles:
        """What `muster agent` was told by flags of this driver, where all drivers have flags for it too: the driver's win."""
        return AgentFiles()

    def hub_defaults(self, called: str) -> DriverOptions:
        """What follows for `init` from what the administrator's kubeconfig calls the hub, where nothing else is said."""
        return {}

    def member_defaults(self, called: str) -> DriverOptions:
        """The same for `join`, and the managed cluster."""
        return {}

    def hub_setup(self, options: DriverOptions) -> HubSetup:
        """Raises Unfit."""
        return HubSetup(carrying(options))

    def member_setup(self, options: DriverOptions, token: str, ca: bytes) -> MemberSetup:
        """`token` and `ca` are what agents reach the hub with, where that is the setup's own server, or else its API server. Raises
        Unfit."""
        return MemberSetup(carrying(options))

    def join_flags(self, hub: ClusterManagerSpec, authority: bytes = b"") -> tuple[str, ...]:
        """What `join` has to be told to register by this driver on such a hub; `authority` (PEM) is what vouches for the servers
        that the hub's operator has deployed, where that is known."""
        return ()

    def _carried(self, options: DriverOptions) -> tuple[str, ...]:
        pairs = ((option, value) for option, values in sorted(options.items()) for value in values)
        return tuple(f"--driver-option={self.name}.{option}={value}" for option, value in pairs)


def carrying(options: DriverOptions, *elsewhere: str) -> Document:
    """The part of a CR that carries options; those that go `elsewhere` have fields of their own."""
    carried = {option: list(values) for option, values in options.items() if option not in elsewhere}
    return {"driverOptions": carried} if carried else {}


def last(options: DriverOptions, name: str) -> str:
    """The one value of an option that has no use for several; empty when there is none."""
    return next(reversed(options.get(name, ())), "")
