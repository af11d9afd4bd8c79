"""The Protocols of registration drivers: one for the hub's side, one for the agent's.

A *spoke driver* is a state machine whose whole state is in the agent's Secrets. `advance` reads the credential, the pending entries
and the hub, and does one thing: it returns what to store, or creates or reads an object on the hub, or returns a new credential,
and how long to wait. The result is stored before the next call. So an agent may stop between any two steps and continues with the
same key and the same request: no second identity, nothing lost, no requests piling up on the hub.

A *hub driver* reports which clusters it owns, votes on accepting them automatically, and creates and removes what an accepted
cluster needs beyond the RBAC that all drivers share. `grant` and `revoke` are idempotent and called repeatedly. They report each
step: done, pending, or failed. A failure is a result, not an exception, so that the condition on the ManagedCluster can name it;
slow work runs in the driver's own tasks (`run`), so that a slow identity provider does not delay other clusters. For clusters that
it does not own a driver does nothing and abstains.

The driver also decides how an agent reaches its hub (`endpoints.py`): no other code reads the endpoint's configuration, or knows
how to check there whether an agent is accepted. Drivers whose agents use the hub's own API server take the base classes in
`kubeconfigs.py`.

A `Driver` has both sides under the name that `--registration-auth` and `--enabled-registration-drivers` take, and its profile for
other code (`profile.py`). Drivers of other distributions are found by the entry point group `muster.registration.drivers`, see
`drivers/__init__.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Protocol

from muster.api.cluster.v1 import ManagedCluster
from muster.api.operator.v1 import HubRegistrationDriver, SpokeRegistrationConfiguration
from muster.api.resource import Document
from muster.aws.process_env import ProcessEnv
from muster.machinery.clock import Clock, Random
from muster.machinery.metrics import Metrics
from muster.machinery.objects import GVR
from muster.registration.drivers.endpoints import EndpointFormat, HubAddress
from muster.registration.drivers.errors import DriverConfigError as DriverConfigError
from muster.registration.drivers.errors import DriverError as DriverError
from muster.registration.drivers.profile import DriverOptions, Profile
from muster.registration.drivers.rights import needed_to_register, needed_to_serve
from muster.registration.names import HUB_NAMESPACE, AgentIdentity
from muster.runtime.auth import missing_rights
from muster.runtime.client import KubeClient
from muster.runtime.controller import ControllerContext


class Vote(Enum):
    """A driver's vote on accepting a cluster without an administrator. One ALLOW and no DENY accept it."""

    ALLOW = "allow"
    DENY = "deny"
    ABSTAIN = "abstain"


@dataclass(frozen=True)
class GrantStep:
    """One step for a cluster outside the shared RBAC, and why it failed if it did.

    A slow step is worked on in the driver's own tasks and names what it waits for; the driver calls `HubContext.reconsider` when it
    has a result.
    """

    name: str
    problem: str = ""
    waiting: str = ""


@dataclass(frozen=True)
class GrantResult:
    steps: tuple[GrantStep, ...] = ()

    @property
    def problems(self) -> tuple[str, ...]:
        return tuple(f"{step.name}: {step.problem}" for step in self.steps if step.problem)

    @property
    def pending(self) -> tuple[str, ...]:
        """The steps that are being worked on."""
        return tuple(f"{step.name}: {step.waiting}" for step in self.steps if step.waiting)

    @property
    def ok(self) -> bool:
        """Whether all steps are done."""
        return not self.problems and not self.pending


NOTHING_TO_DO = GrantResult()


@dataclass(frozen=True, kw_only=True)
class HubContext(ControllerContext):
    """What the hub passes to a driver, for controllers of its own.

    `reconsider` requeues a cluster when the driver would vote otherwise, name other agents of it, or has a new result of `grant` or
    `revoke`; `claimed` is whether another driver, enabled or not, has annotated a cluster as its own. `namespace` is the hub's own,
    where a driver may store objects; `process_env` is the environment of the process.
    """

    reconsider: Callable[[str], None]
    auto_approval: bool = False
    options: DriverOptions = field(default_factory=dict)
    claimed: Callable[[ManagedCluster], bool] = lambda cluster: False
    namespace: str = HUB_NAMESPACE
    process_env: ProcessEnv = field(default_factory=ProcessEnv)

    @property
    def surroundings(self) -> ProcessEnv:
        """The former name of `process_env`."""
        return self.process_env


class HubDriver(Protocol):
    def owns(self, cluster: ManagedCluster) -> bool:
        """Whether this driver is responsible for the cluster's identity.

        Cheap, no side effect, never raises on malformed objects.
        """
        ...

    def vote(self, cluster: ManagedCluster) -> Vote: ...

    def agents(self, cluster: ManagedCluster) -> frozenset[str] | None:
        """The users that got credentials under this very ManagedCluster, as far as is known now: each one is remembered after it
        was returned once. None if the agents are told apart only by the group `system:open-cluster-management:<cluster>`, which
        is then bound: that includes every holder of a credential with that group from an earlier cluster of this name.
        """
        ...

    async def grant(self, cluster: ManagedCluster) -> GrantResult: ...

    async def revoke(self, cluster: ManagedCluster) -> GrantResult: ...

    async def run(self) -> None:
        """Run the driver's own controllers until cancelled; without any, wait."""
        ...


@dataclass(frozen=True)
class AcceptanceContext:
    """What a driver gets when an administrator is about to accept a cluster."""

    client: KubeClient
    """A client of the hub, with the administrator's permissions."""
    configured: HubRegistrationDriver | None
    """The ClusterManager's entry for this driver; None without a ClusterManager or entry."""
    process_env: ProcessEnv
    report: Callable[[str], None]
    """Shows the administrator what was done or found."""
    namespace: str = HUB_NAMESPACE

    @property
    def surroundings(self) -> ProcessEnv:
        """The former name of `process_env`."""
        return self.process_env

    @property
    def say(self) -> Callable[[str], None]:
        """The former name of `report`."""
        return self.report


Undo = Callable[[], Awaitable[None]]
AccountToken = Callable[[str], Awaitable[str]]
"""Requests a token of the agents' service account for an audience. Raises KubeError."""


@dataclass(frozen=True)
class WatchTarget:
    """An object on the hub whose changes wake the spoke driver."""

    resource: GVR
    name: str


@dataclass(frozen=True)
class CredentialReport:
    """The agent's report about its credential: condition ClusterCertificateRotated once registered, and an event."""

    status: bool
    reason: str
    message: str
    event: str = ""
    """The event's reason, if it differs from the condition's."""


@dataclass(frozen=True)
class StepResult:
    """The result of one step; it is stored before anything else happens."""

    pending: Mapping[str, bytes | None] = field(default_factory=dict, repr=False)
    """Changes to the driver's pending entries; None removes a key."""
    credential: Mapping[str, bytes] | None = field(default=None, repr=False)
    """A complete credential that replaces the one in use, after which all pending entries are removed.

    It is stored first: an agent that stops in between finds the pending entries beside the credential that they led to.
    """
    again: float | None = None
    """Seconds until the next step; 0 is at once, with None only a change wakes the driver."""
    report: CredentialReport | None = None
    watch: WatchTarget | None = None


@dataclass(frozen=True)
class SpokeContext:
    """What the agent passes to a driver."""

    identity: AgentIdentity
    clock: Clock
    random: Random
    metrics: Metrics
    options: DriverOptions = field(default_factory=dict)
    directory: Path | None = None
    """Where other processes have the credential's entries as files; None if only this process uses them."""
    process_env: ProcessEnv = field(default_factory=ProcessEnv)
    """The environment that determines the AWS identity of the agent's process."""

    @property
    def surroundings(self) -> ProcessEnv:
        """The former name of `process_env`."""
        return self.process_env


class SpokeDriver(Protocol):
    def decorate(self, cluster: Document) -> Document:
        """Add what the hub's side needs to a new or existing ManagedCluster: annotations, mostly."""
        ...

    def way_to(self, hub: HubAddress) -> Mapping[str, bytes]:
        """The entries beside the credential that make it an endpoint of this hub, in the driver's own format."""
        ...

    def problem(self, stored: Mapping[str, bytes]) -> str:
        """Why the stored credential is unusable for this identity now; empty if it is usable. Cheap, no side effect."""
        ...

    async def advance(
        self, hub: KubeClient, stored: Mapping[str, bytes], pending: Mapping[str, bytes], seen: Document | None = None
    ) -> StepResult:
        """One step towards a credential, or towards its renewal.

        `stored` is the credential in use with all entries beside it, empty if there is none for this hub; `pending` has the entries
        that earlier steps stored.

        `seen` is the object that the last step asked to watch, from the cache: it need not be read. None if it is not watched,
        missing, or not known. Raises KubeError if the hub is unreachable or refuses: nothing is lost, and the same step is retried
        later.
        """
        ...


def is_derived(driver: SpokeDriver) -> bool:
    """Whether a driver's credential is derived from the agent's configuration and proves nothing by itself: the agent's identity is
    elsewhere. Such a credential does not expire, a hub that refuses it does not invalidate it, and a new one would be the same.
    A driver declares this by an attribute `derived`; without it, credentials are issued.
    """
    return bool(getattr(driver, "derived", False))


class Driver(Profile, ABC):
    """A registration driver: both sides, and its profile for other code.

    A driver of another distribution may be any object that has `name`, `aliases`, `hub` and `spoke`: without inheriting from this
    class it gets the defaults of `Profile`.
    """

    @property
    @abstractmethod
    def endpoints(self) -> EndpointFormat:
        """The format of hub endpoints, of those that agents are given and of those that they make."""

    async def missing_to_register(self, hub: KubeClient, cluster: str) -> tuple[str, ...]:
        """The permissions to introduce this cluster that the hub denies the caller; empty if it has all.

        The hub itself is asked, over the transport of this driver's agents: if that is its API server, by access reviews. Raises
        KubeError if it does not answer, or does not authenticate this credential.
        """
        return tuple(map(str, await missing_rights(hub, needed_to_register(self))))

    async def missing_to_serve(self, hub: KubeClient, cluster: str) -> tuple[str, ...]:
        """The same, for an agent of the cluster that has registered."""
        return tuple(map(str, await missing_rights(hub, needed_to_serve(self, cluster))))

    async def portable(
        self,
        stored: Mapping[str, bytes],
        configured: SpokeRegistrationConfiguration,
        account_token: AccountToken,
        process_env: ProcessEnv,
    ) -> Mapping[str, bytes]:
        """An agent's credential in a form that is usable outside of its pods, for a user who may request tokens of its service
        account; unchanged if it is usable anyway. Raises Unfit.
        """
        return stored

    async def prepare_acceptance(self, cluster: ManagedCluster, accepting: AcceptanceContext) -> Undo | None:
        """What an administrator's tool does for a cluster before it is accepted, with the administrator's own credentials.

        Returns the function that undoes it if the cluster is not accepted after all, or None. Raises Unfit and KubeError.
        """
        return None

    def acceptance_plan(self, cluster: ManagedCluster, configured: HubRegistrationDriver | None) -> tuple[str, ...]:
        """The actions of `prepare_acceptance` in words, for a dry run. Raises Unfit."""
        return ()

    async def awaits(self, hub: KubeClient, cluster: str, configured: SpokeRegistrationConfiguration) -> str:
        """What an administrator has to do on the hub before an agent with this configuration can register, as far as the bootstrap
        identity can see; empty if nothing is known. Raises KubeError.
        """
        return ""

    @abstractmethod
    def hub(self, context: HubContext) -> HubDriver:
        """Raises DriverConfigError."""

    @abstractmethod
    def spoke(self, context: SpokeContext) -> SpokeDriver:
        """Raises DriverConfigError."""
