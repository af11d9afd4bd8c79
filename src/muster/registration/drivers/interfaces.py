"""The two Protocols behind which a way of proving an agent's identity hides: one for the hub's side, one for the agent's.

A *spoke driver* is a state machine whose whole memory is in the agent's Secrets. `advance` looks at the credential, at what is
pending and at the hub and does one thing: it says what to remember next, or creates or reads something on the hub, or has got a
credential, and how long to wait. What it says is stored before it is called again. So an agent may die between any two steps and
goes on where it was, with the same key and the same request: no second identity, nothing lost, nothing piling up on the hub.

A *hub driver* says which clusters are its own, votes on accepting them unasked, and makes and takes away what an accepted cluster
needs beyond the RBAC that all drivers share. `grant` and `revoke` are called again and again: what is there already, or gone
already, is success. They report step by step: done, under way, or failed. A problem is a result, not an exception, so that the
condition on the ManagedCluster can say what is missing; and what takes its time is under way in the driver's own tasks (`run`), so
that a slow provider of identities holds up nobody else's clusters. For clusters that it does not own a driver does nothing and
abstains.

How an agent reaches its hub is the driver's business too (`endpoints.py`): nobody else looks into what leads there, nor knows how
to ask there whether an agent is let in. Drivers whose agents talk to the hub's own API server take the bases in `kubeconfigs.py`.

A `Driver` bundles both sides under the name that `--registration-auth` and `--enabled-registration-drivers` take, with what others
have to know of it (`profile.py`). Drivers of other distributions are found by the entry point group `muster.registration.drivers`,
see `drivers/__init__.py`.
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
    """What a driver says to accepting a cluster without an administrator. One ALLOW and no DENY accept."""

    ALLOW = "allow"
    DENY = "deny"
    ABSTAIN = "abstain"


@dataclass(frozen=True)
class GrantStep:
    """One thing done for a cluster outside the shared RBAC, and why it failed if it did.

    A driver that takes its time works on it by itself and says what it waits for; it calls for a new look (`HubContext.reconsider`)
    when something has come of it.
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
        """What is being worked on, and not done yet."""
        return tuple(f"{step.name}: {step.waiting}" for step in self.steps if step.waiting)

    @property
    def ok(self) -> bool:
        """Whether all of it is done."""
        return not self.problems and not self.pending


NOTHING_TO_DO = GrantResult()


@dataclass(frozen=True, kw_only=True)
class HubContext(ControllerContext):
    """What the hub hands to a driver, for controllers of its own.

    `reconsider` asks for a new look at a cluster when the driver would vote otherwise, name other agents of it, or has got further
    with what it grants or revokes; `claimed` tells of a cluster whether another driver, enabled or not, has marked it as its own.
    `namespace` is the hub's own, where a driver may keep what it has to remember; `process_env` is the environment of the process.
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
        """Whether this cluster's identity is this driver's business. Cheap, no side effect, never raises on odd objects."""
        ...

    def vote(self, cluster: ManagedCluster) -> Vote: ...

    def agents(self, cluster: ManagedCluster) -> frozenset[str] | None:
        """The users that were given credentials under this very ManagedCluster, as far as is known now: what was named once is
        remembered. None when agents are told apart by nothing but the group `system:open-cluster-management:<cluster>`, which is
        then bound: whoever has a credential of that group from an earlier cluster of this name is let in with them."""
        ...

    async def grant(self, cluster: ManagedCluster) -> GrantResult: ...

    async def revoke(self, cluster: ManagedCluster) -> GrantResult: ...

    async def run(self) -> None:
        """The driver's own controllers, until cancelled; one without any waits."""
        ...


@dataclass(frozen=True)
class AcceptanceContext:
    """An administrator who is about to accept a cluster, and what is at hand."""

    client: KubeClient
    """Of the hub, with the administrator's rights."""
    configured: HubRegistrationDriver | None
    """What the ClusterManager says of this driver; None where there is no ClusterManager, or it says nothing."""
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
"""A token of the account that agents run as, for an audience. Raises KubeError."""


@dataclass(frozen=True)
class WatchTarget:
    """An object on the hub whose change wakes the spoke driver."""

    resource: GVR
    name: str


@dataclass(frozen=True)
class CredentialReport:
    """What the agent tells about its credential: condition ClusterCertificateRotated once registered, and an event."""

    status: bool
    reason: str
    message: str
    event: str = ""
    """The event's reason, where it is not the condition's."""


@dataclass(frozen=True)
class StepResult:
    """What follows from one step; it is stored before anything else happens."""

    pending: Mapping[str, bytes | None] = field(default_factory=dict, repr=False)
    """Changes to what the driver has to remember of what it has begun; None removes a key."""
    credential: Mapping[str, bytes] | None = field(default=None, repr=False)
    """A whole credential, which takes the place of the one in use; with it everything pending is forgotten. It is stored first: an
    agent that dies in between finds what was pending beside the credential that came of it."""
    again: float | None = None
    """Seconds until the next step; 0 at once, None when only a change wakes the driver."""
    report: CredentialReport | None = None
    watch: WatchTarget | None = None


@dataclass(frozen=True)
class SpokeContext:
    """What the agent hands to a driver."""

    identity: AgentIdentity
    clock: Clock
    random: Random
    metrics: Metrics
    options: DriverOptions = field(default_factory=dict)
    directory: Path | None = None
    """Where the credential's entries are files for other processes too; None when they are for this one alone."""
    process_env: ProcessEnv = field(default_factory=ProcessEnv)
    """What decides who the agent's process is on AWS."""

    @property
    def surroundings(self) -> ProcessEnv:
        """The former name of `process_env`."""
        return self.process_env


class SpokeDriver(Protocol):
    def decorate(self, cluster: Document) -> Document:
        """What a new or existing ManagedCluster must say for the hub's side: annotations, mostly."""
        ...

    def way_to(self, hub: HubAddress) -> Mapping[str, bytes]:
        """The entries beside the credential that make it a way to this hub, in the driver's own format."""
        ...

    def problem(self, stored: Mapping[str, bytes]) -> str:
        """Why the stored credential cannot be used for this identity now; empty when it can. Cheap, no side effect."""
        ...

    async def advance(
        self, hub: KubeClient, stored: Mapping[str, bytes], pending: Mapping[str, bytes], seen: Document | None = None
    ) -> StepResult:
        """One step towards a good credential, or towards the next one when this one ages.

        `stored` is the credential in use with all that is kept beside it, empty when there is none for this hub; `pending` is
        what earlier steps said to remember.

        `seen` is the object that the last step asked to watch, as the watch knows it now: what is seen need not be asked for.
        None when it is not watched, not there, or not known. Raises KubeError when the hub cannot be asked or does not let us:
        nothing is lost then, the same step is to be tried again later.
        """
        ...


def is_derived(driver: SpokeDriver) -> bool:
    """Whether what a driver gives as credential is made of what the agent knows anyway, and proves nothing by itself: an identity
    that the agent has elsewhere does. Then it does not end, a hub that refuses it does not make it worse, and another one would be
    the same. A driver says so by an attribute `derived`; those that say nothing have credentials that somebody has to give."""
    return bool(getattr(driver, "derived", False))


class Driver(Profile, ABC):
    """A way of registering: both sides, and what its profile says to everybody else.

    One of another distribution may be any object that has `name`, `aliases`, `hub` and `spoke`: where it does not inherit from this
    class, the defaults of `Profile` hold for it.
    """

    @property
    @abstractmethod
    def endpoints(self) -> EndpointFormat:
        """How ways to a hub are written, those that agents are given and those that they make of them."""

    async def missing_to_register(self, hub: KubeClient, cluster: str) -> tuple[str, ...]:
        """What a hub does not let whoever asks do and would have to, to introduce this cluster; empty when all of it is allowed.

        The hub itself is asked, in the way that agents of this driver reach it: where that is its API server, by access reviews.
        Raises KubeError when it does not answer, or knows nobody by this credential."""
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
        """An agent's credential in a form that is of use outside of its pods too, for whoever may have tokens of the account that
        it runs as; as it is, where it is that anyway. Raises Unfit."""
        return stored

    async def prepare_acceptance(self, cluster: ManagedCluster, accepting: AcceptanceContext) -> Undo | None:
        """What an administrator's tool does for a cluster before it is accepted, with the administrator's own means; what takes
        it back if the cluster is not accepted after all, or None where there is nothing. Raises Unfit, and KubeError."""
        return None

    def acceptance_plan(self, cluster: ManagedCluster, configured: HubRegistrationDriver | None) -> tuple[str, ...]:
        """What `prepare_acceptance` would have made, in words for a dry run. Raises Unfit."""
        return ()

    async def awaits(self, hub: KubeClient, cluster: str, configured: SpokeRegistrationConfiguration) -> str:
        """What somebody has to do on the hub before an agent that is configured so gets on there, as far as whoever may register
        can see; empty when nothing is known of. Raises KubeError."""
        return ""

    @abstractmethod
    def hub(self, context: HubContext) -> HubDriver:
        """Raises DriverConfigError."""

    @abstractmethod
    def spoke(self, context: SpokeContext) -> SpokeDriver:
        """Raises DriverConfigError."""
