"""The profile of a driver, for code that installs, configures and inspects it: operators, `clusteradm`, other drivers.

No other code knows a driver's name, its annotations on objects, its permissions, its fields in custom resources or its flags. All
of it has defaults that suffice for a simple driver: its clusters have its name as an annotation, its options are stored in the CRs'
`driverOptions` and passed to its processes as `--driver-option`, and its agents need only the permissions that all agents have.
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
"""The options of a driver, by option name without dashes; repeatable options have several values."""

PROXY_URL: Final = "proxy-url"
PROXY_CA: Final = "proxy-ca"
"""The option by which `join` passes the CA (PEM) of a proxy to a driver whose agents use a server of their own
(`MemberSetup.server`).
"""


@dataclass(frozen=True)
class HubRules:
    """RBAC rules that the hub's controllers need for a driver, beside those that they always have."""

    own: tuple[Document, ...] = ()
    """Rules in the hub's own namespace."""
    elsewhere: Mapping[str, tuple[Document, ...]] = field(default_factory=dict)
    """Rules in other namespaces, by namespace."""


@dataclass(frozen=True)
class AccountToken:
    """A token of the process' service account, in a file that is replaced before it expires."""

    volume: str
    directory: str
    file: str
    audience: str
    seconds: int


@dataclass(frozen=True)
class Process:
    """How operators deploy a process that uses a driver."""

    arguments: tuple[str, ...] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)
    """Annotations of its service account."""
    secrets: Mapping[str, str] = field(default_factory=dict)
    """Secrets of its namespace that are mounted: name to directory."""
    scratch: Mapping[str, str] = field(default_factory=dict)
    """Writable directories of its own: volume to path."""
    rules: HubRules = HubRules()
    tokens: tuple[AccountToken, ...] = ()
    """Tokens of its service account for audiences other than its own cluster."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Environment variables."""


@dataclass(frozen=True)
class AgentFiles:
    """Files that a driver's own flags name, as on the command line."""

    bootstrap: tuple[str, ...] = ()
    """The bootstrap credentials, in order of preference."""
    hub: str = ""
    """Where other processes have the agent's own endpoint of its hub."""


@dataclass(frozen=True)
class HubSetup:
    """What `init` writes for a driver."""

    entry: Document = field(default_factory=dict)
    """The fields of the entry in the ClusterManager's `registrationDrivers`, beside `authType`."""
    spec: Document = field(default_factory=dict)
    """Further fields of the ClusterManager's spec."""
    objects: tuple[Document, ...] = ()
    """ConfigMaps that are created if they are missing; existing ones are left alone."""
    remarks: tuple[str, ...] = ()
    """Remarks for the administrator."""


@dataclass(frozen=True)
class MemberSetup:
    """What `join` writes for a driver, and checks for it."""

    entry: Document = field(default_factory=dict)
    """The fields of the Klusterlet's `registrationDriver`, beside `authType`."""
    files: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Files in the bootstrap Secret. If the driver's endpoint is among them, the Secret has no kubeconfig."""
    dialled: tuple[str, ...] = ()
    """Addresses that its agents must be able to reach, beside the hub's API server."""
    identity: str = ""
    """The cluster's name at its identity provider."""
    server: str = ""
    """The server that its agents use instead of the hub's API server; then `ca` and `hashes` are those that the administrator gave.
    """
    ca: bytes = field(default=b"", repr=False)
    hashes: tuple[str, ...] = ()
    """`sha256:<hex>` hashes of the authority's public key."""


class Profile:
    """`name` is the authentication type in CRs and on command lines; `aliases` are further spellings of it."""

    name: str
    aliases: tuple[str, ...] = ()
    certificates: bool = False
    """Whether agents request certificates by signing requests on the hub: `accept` then approves these."""
    kubernetes_signs: bool = False
    """Whether Kubernetes itself has to sign these certificates, which not every cluster does."""

    addon_driver: str = ""
    """How agents of addons authenticate by default on clusters of this driver; empty leaves it to the agent."""
    several_hubs: bool = True
    """Whether one agent may be given several hubs to choose from."""
    grpc_server: bool = False
    """Whether agents reach the hub through its gRPC server: operators then deploy one and create an authority for its clients."""

    def marks(self, cluster: ManagedCluster) -> bool:
        """Whether the cluster has this driver's annotations. Cheap, no side effect, never raises on malformed objects."""
        return cluster.metadata.annotations.get(DRIVER_ANNOTATION) in (self.name, *self.aliases)

    def identity_of(self, cluster: ManagedCluster) -> str:
        """The cluster's name at its identity provider; empty if unknown."""
        return ""

    def identity_marks(self, identity: str, configured: HubRegistrationDriver) -> Mapping[str, str]:
        """The annotations of a cluster with this identity, on a hub with this configuration; none if clusters of this driver have
        no identity provider. Raises Unfit.
        """
        return {}

    def bootstrap_rights(self) -> tuple[AccessAttributes, ...]:
        """The permissions on the hub that introducing a cluster needs, beyond creating its ManagedCluster."""
        return ()

    def agent_rights(self) -> tuple[AccessAttributes, ...]:
        """The permissions on the hub that a registered agent needs, beyond those of all agents."""
        return ()

    def hub_process(self, entry: HubRegistrationDriver) -> Process:
        """The process of `muster hub`. Raises BadField, with a path below this entry of `registrationDrivers`."""
        return Process(self._carried(entry.driver_options))

    def hub_rules(self, options: DriverOptions) -> HubRules:
        """The RBAC rules that `muster hub` needs for these options, beyond those of every hub."""
        return HubRules()

    def agent_process(self, configured: SpokeRegistrationConfiguration) -> Process:
        """The process of `muster agent`. Raises BadField, with a path below `registrationConfiguration`."""
        return Process(self._carried(configured.registration_driver.driver_options))

    def agent_files(self, options: DriverOptions) -> AgentFiles:
        """The files that this driver's own flags of `muster agent` name; they override the flags that all drivers share."""
        return AgentFiles()

    def hub_defaults(self, called: str) -> DriverOptions:
        """The default options of `init` that follow from the hub's name in the administrator's kubeconfig."""
        return {}

    def member_defaults(self, called: str) -> DriverOptions:
        """The same for `join` and the managed cluster."""
        return {}

    def hub_setup(self, options: DriverOptions) -> HubSetup:
        """Raises Unfit."""
        return HubSetup(carrying(options))

    def member_setup(self, options: DriverOptions, token: str, ca: bytes) -> MemberSetup:
        """`token` and `ca` are the agents' credentials for the setup's own server, or else for the hub's API server.

        Raises Unfit.
        """
        return MemberSetup(carrying(options))

    def join_flags(self, hub: ClusterManagerSpec, authority: bytes = b"") -> tuple[str, ...]:
        """The flags of `join` that a cluster needs to register with this driver on this hub; `authority` (PEM) is the CA of the
        servers that the hub's operator has deployed, if known.
        """
        return ()

    def _carried(self, options: DriverOptions) -> tuple[str, ...]:
        pairs = ((option, value) for option, values in sorted(options.items()) for value in values)
        return tuple(f"--driver-option={self.name}.{option}={value}" for option, value in pairs)


def carrying(options: DriverOptions, *elsewhere: str) -> Document:
    """The part of a CR that stores options; those in `elsewhere` have fields of their own."""
    carried = {option: list(values) for option, values in options.items() if option not in elsewhere}
    return {"driverOptions": carried} if carried else {}


def last(options: DriverOptions, name: str) -> str:
    """The value of an option that takes only one; empty if there is none."""
    return next(reversed(options.get(name, ())), "")
