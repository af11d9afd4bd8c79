"""Interfaces between the parts of the work agent.

`WorkSource` reads works and writes their status: the hub's API, or gRPC. `Observer` has the live objects of works, `Applier` writes
one of them, `Gate` checks the executor's permissions. The pass over a work (`reconcile`) combines them and is the only one that
depends on all.

The gate checks exactly what the applier sends, because both use the same `ManifestWrite`: before anything is written the gate
receives all writes (`Drafts`), and each one again just before it is sent (`Consent`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from muster.api.work.v1 import (
    ConditionRule,
    ExecutorServiceAccount,
    FeedbackRule,
    ManifestResourceMeta,
    ManifestWork,
    ManifestWorkStatus,
    UpdateStrategy,
)
from muster.machinery.objects import Object, ObjectRef
from muster.runtime.cache import ObservedObject


@dataclass(frozen=True)
class Manifest:
    """One manifest of a work, understood: where it goes and how it is treated."""

    ordinal: int
    """Its place in the spec."""
    rank: int
    """Lower ones are applied first and deleted last."""
    ref: ObjectRef
    document: Object
    """What to apply; without uid, with the namespace it goes to. Nobody may change it."""
    digest: bytes
    """Of the document and of how it is to be applied: equal digests mean that nothing is to be done anew."""
    strategy: UpdateStrategy
    owned: bool
    """Whether it goes when the work goes."""
    feedback: tuple[FeedbackRule, ...] = ()
    conditions: tuple[ConditionRule, ...] = ()

    @property
    def meta(self) -> ManifestResourceMeta:
        resource = self.ref.resource
        return ManifestResourceMeta(
            ordinal=self.ordinal,
            group=resource.group,
            version=resource.version,
            kind=resource.kind,
            resource=resource.plural,
            name=self.ref.name,
            namespace=self.ref.namespace,
        )


@dataclass(frozen=True)
class InvalidManifest:
    """A manifest that cannot be applied whatever is done: not an object, or of a kind that the cluster does not serve."""

    meta: ManifestResourceMeta
    problem: str
    unserved: bool = False
    """The kind may be served one day."""
    nowhere: bool = False
    """No object of the cluster can be the one that is meant."""


class Observer(Protocol):
    """Follows the objects that works are about with a few watches, and forgets the others."""

    def follow(self, follower: str, refs: frozenset[ObjectRef]) -> None:
        """From now on `follower`, a work, follows these objects: it is notified of their changes, but not of writes to objects
        that it alone follows. Empty: it follows none."""

    async def settle(self, refs: Iterable[ObjectRef], timeout: float) -> None:
        """Until what there is of these is known, or until it is clear that it cannot be; never longer than `timeout`."""

    def get(self, ref: ObjectRef) -> ObservedObject:
        """UNKNOWN if no work follows it (yet); then it has to be read from the cluster."""

    def record_write(self, ref: ObjectRef, document: Object | None) -> None:
        """The result of a write or read (None: the object is missing). Older events that arrive later are ignored. If several
        works follow the object, they are notified: one of them wrote it, and the others do not know."""

    def on_change(self, handler: Callable[[str], None]) -> None:
        """`handler` is called with a work's name."""

    async def run(self) -> None: ...


@dataclass(frozen=True)
class ManifestOwner:
    """The AppliedManifestWork that applied objects belong to."""

    name: str
    uid: str


@dataclass(frozen=True)
class Applied:
    """How an object is after applying: `document` is None only for one that is read only and absent."""

    document: Object | None
    wrote: bool


class ApplyProblem(Exception):
    """A manifest that could not be applied, with the reason for its condition; API errors stay what they are."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


@dataclass(frozen=True)
class ManifestWrite:
    """A request that makes or changes an object, as it is sent."""

    verb: Literal["create", "update", "apply"]
    document: Object
    manager: str
    force: bool = False
    """For `apply`: what other field managers have is taken from them."""


class RightsChanged(Exception):
    """The executor's permissions have changed since the check."""


class NotPermitted(Exception):
    """The executor may not have this written; the text is that of a refusal."""


class Consent(Protocol):
    """The executor's, to the writes of one pass over a work."""

    @property
    def is_valid(self) -> bool:
        """Whether its rights are those by which the work was judged."""

    async def to(self, manifest: Manifest, write: ManifestWrite, live: Object | None) -> None:
        """Asked before each write to an object that is so, or that is not there. Raises Overtaken, NotPermitted, and KubeError
        where it cannot be found out or the write would fail so."""


class Applier(Protocol):
    async def apply(
        self, manifest: Manifest, owner: ManifestOwner, observed: ObservedObject, consent: Consent | None = None
    ) -> Applied:
        """Make the object agree with the manifest by its strategy. Raises KubeError and ApplyProblem, and what `consent` raises."""

    def intended(self, manifest: Manifest, owner: ManifestOwner, live: Object | None) -> ManifestWrite | None:
        """The first that `apply` would send to an object that is so; None: nothing but perhaps whose it is. Raises ApplyProblem."""


@dataclass(frozen=True)
class Drafts:
    """What would be sent for a work's manifests if they were applied now."""

    applier: Applier
    owner: ManifestOwner
    observed: Callable[[ObjectRef], ObservedObject]

    def write(self, manifest: Manifest, live: Object | None) -> ManifestWrite | None:
        """To an object that is so, or that is not there; None: nothing would be. Raises ApplyProblem."""
        return self.applier.intended(manifest, self.owner, live)


@dataclass(frozen=True)
class Refusal:
    """Why the executor may not have a manifest applied: what it lacks, or that another manifest of the work was refused."""

    message: str
    verb: str = ""
    """That it lacks, where it is one."""
    withheld: bool = False
    """Nothing is wrong with this manifest: it waits for another one of the work."""
    failure: bool = False
    """Not a refusal: the check failed and is to be retried soon."""
    hidden: str = ""
    """Why nothing of the object may be reported to the hub: the executor may not even read it."""


class Gate(Protocol):
    """Says what an executor may."""

    async def check(
        self, executor: ExecutorServiceAccount, manifests: Sequence[Manifest], invalid: Sequence[InvalidManifest], drafts: Drafts
    ) -> Mapping[int, Refusal]:
        """The refused manifests by ordinal; empty: all may be written. Never raises for what the cluster answers."""

    def consent(self, executor: ExecutorServiceAccount, manifests: Sequence[Manifest]) -> Consent:
        """To be created before `check` of the same manifests: it is valid until the executor's permissions change."""

    def on_change(self, handler: Callable[[ExecutorServiceAccount], None]) -> None:
        """`handler` is called when the permissions of an executor that were checked before may have changed."""

    async def run(self) -> None: ...


class WorkSource(Protocol):
    """The works of one managed cluster."""

    @property
    def hub_hash(self) -> str:
        """Names the hub: part of the names of AppliedManifestWorks."""

    @property
    def synced(self) -> bool: ...

    async def until_synced(self) -> None:
        """Until it is known which works there are."""

    def get(self, name: str) -> ManifestWork | None: ...

    def has(self, name: str) -> bool:
        """Whether the hub has it, though it may not be known how it is."""

    def names(self) -> list[str]: ...

    def on_change(self, handler: Callable[[str], None]) -> None:
        """`handler` is called with the name of a work that came, changed or went; also for all that are there already."""

    async def hold(self, work: ManifestWork) -> ManifestWork:
        """Put our finalizer on it."""

    async def release(self, work: ManifestWork) -> None:
        """Take our finalizer away."""

    async def report(self, work: ManifestWork, status: ManifestWorkStatus) -> ManifestWork:
        """Write its status; raises Conflict if another client has written meanwhile. Nothing is sent if nothing differs."""

    async def run(self) -> None: ...
