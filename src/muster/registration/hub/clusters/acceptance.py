"""Acceptance of clusters: permissions follow `spec.hubAcceptsClient`, and condition HubAcceptedManagedCluster follows both.

Accepted: the finalizer comes first, so that everything created is cleaned up later; then namespace, role and bindings, then what
the cluster's driver grants, and only when all exist the condition True. A failure is named in the condition, False with reason
`Error`, and retried with backoff; what a driver is still working on is named there with reason `Pending`, and the driver requeues
the cluster when it is done. Edited or deleted objects are restored. Drivers are called again only when the ManagedCluster's labels,
annotations or addresses have changed, or when one has requeued the cluster. A cluster of a driver that this hub has not enabled is
never accepted.

Denied: an accepted cluster, even a half accepted one, loses its permissions at once, whatever its condition and its number of
works: the role is reduced to reading the own ManagedCluster, the registration agent's binding is deleted, the driver revokes, and
the condition becomes False, `HubClusterAdminDenied`, with what remains in its message. Only the work agent's binding is held by its
finalizer until no ManifestWork is left, so that an agent which still has an identity can clean up. The condition's time is the time
of denial, also if the condition was False before for another reason; `removal.py` counts from it.

Deleted: the agent keeps its access until addons and works are deleted (`collection.py`), then the driver revokes, the permissions
are deleted, and the finalizer last. The namespace stays. Permissions of clusters that no longer exist, because a finalizer was
removed by hand or while no hub ran, are deleted by name; those of a ManagedCluster that merely cannot be parsed are left alone.

The roles that all clusters share exist while there is any ManagedCluster; their key is the empty name, which is also the value of
their label.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from muster.api import Condition, condition_of
from muster.api.cluster.v1 import ACCEPTED, ManagedCluster
from muster.machinery.logs import get_logger
from muster.machinery.objects import Object, ObjectKey
from muster.registration import names
from muster.registration.drivers.interfaces import GrantResult, GrantStep, HubDriver
from muster.registration.drivers.ownership import owner_of
from muster.registration.hub.cluster_writer import Change, redated, with_finalizers
from muster.registration.hub.clusters import rbac
from muster.registration.hub.clusters.agents import ClusterAgents
from muster.registration.hub.clusters.permissions import Permissions
from muster.registration.hub.clusters.rbac import DesiredObject
from muster.registration.hub.clusters.remains import Remains
from muster.registration.hub.context import HubControllerContext
from muster.registration.kinds import MANIFEST_WORKS
from muster.runtime.client import Conflict, KubeError, TooManyRequests, Unreachable
from muster.runtime.client.builtin import CLUSTER_ROLES

log = get_logger("muster.registration.acceptance")

COMMON: Final = ""
"""The key of the roles that all clusters share."""
DENIED: Final = "HubClusterAdminDenied"
PENDING: Final = "Pending"
"""Our own reason: nothing has failed, and something is not ready yet."""
TRANSIENT: Final = (Conflict, Unreachable, TooManyRequests)
"""A conflict, or an unreachable or busy server: retried without a report in the cluster's condition."""
LISTED: Final = 5
"""The number of problems that a condition lists; the others are counted."""


class Incomplete(Exception):
    """A cluster is not ready; its condition names what is missing."""

    def __init__(self, cluster: str, problems: tuple[str, ...]) -> None:
        super().__init__("; ".join(problems))
        self.cluster = cluster
        self.problems = problems


@dataclass(frozen=True)
class AcceptanceState:
    """What is missing of a cluster's permissions: failed and pending steps."""

    problems: tuple[str, ...] = ()
    pending: tuple[str, ...] = ()

    def __add__(self, problems: tuple[str, ...]) -> AcceptanceState:
        return AcceptanceState(self.problems + problems, self.pending)

    def __or__(self, other: AcceptanceState) -> AcceptanceState:
        return AcceptanceState(self.problems + other.problems, self.pending + other.pending)

    @property
    def missing(self) -> tuple[str, ...]:
        return self.problems + self.pending

    def check(self, cluster: str) -> None:
        """Raises Incomplete if a step must be retried; for pending ones the driver requeues the cluster."""
        if self.problems:
            raise Incomplete(cluster, self.problems)


class _Driven(NamedTuple):
    """The last call of the drivers without a problem for a cluster, and the state of the cluster at that time."""

    granted: bool
    state: int


class Acceptance:
    def __init__(self, hub: HubControllerContext) -> None:
        self._hub = hub
        self._context = hub.context
        self._labels = hub.options.labels
        self._controller = hub.context.controller("acceptance", self.reconcile)
        self._permissions = Permissions(hub)
        self._agents = ClusterAgents(hub, self._permissions)
        self._remains = Remains(hub, self._controller.enqueue)
        self._clusters = hub.writer
        self._clusters.always(self._held)
        self._driven: dict[str, _Driven] = {}
        self._departed: dict[str, ManagedCluster] = {}
        """The last version of deleted clusters whose drivers had granted something."""
        self._sharing = asyncio.Lock()
        self._controller.watch(hub.clusters, lambda cluster: [cluster.metadata.name])
        for cache in self._permissions.caches.values():
            self._controller.watch(cache, lambda kept: [kept.labels[names.CLUSTER_LABEL]])
        hub.clusters.on_change(self._came_or_went)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            remains = tasks.create_task(self._remains.run())
            try:
                await self._controller.run()
            finally:
                remains.cancel()

    def reconsider(self, cluster: str) -> None:
        """Requeue a cluster, because a driver may name other agents of it now."""
        self._controller.enqueue(cluster)

    def _came_or_went(self, old: ManagedCluster | None, new: ManagedCluster | None) -> None:
        if old is None or new is None:
            self._controller.enqueue(COMMON)
        if old is not None and new is None and (driven := self._driven.get(old.metadata.name)) and driven.granted:
            self._departed[old.metadata.name] = old

    async def reconcile(self, name: str) -> None:
        if name == COMMON:
            await self._share_roles()
            return
        cluster = self._clusters.get(name)
        if cluster is None:
            await self._forget(name)
        elif problem := self._name_problem(cluster):
            await self._refuse(cluster, problem)
        elif cluster.metadata.deletion_timestamp:
            await self._delete(cluster)
        elif cluster.spec.hub_accepts_client:
            await self._accept(cluster)
        else:
            await self._deny(cluster)

    # Accepted

    async def _accept(self, cluster: ManagedCluster) -> None:
        name, labels = cluster.metadata.name, self._labels
        held = await self._hold(cluster)
        if held is None:
            # The decision was changed meanwhile; the change requeues the cluster.
            return
        cluster = held
        problems = await _problems([("common roles", self._share_roles())])
        problems += await self._ensure(rbac.namespace(name, labels), rbac.own_role(name, labels, accepted=True))
        # A binding needs its namespace, and its role too: RBAC demands that its creator has all permissions of the role.
        agents = self._agents.of(cluster)
        problems += await self._ensure(rbac.own_binding(name, labels, agents), *rbac.namespace_bindings(name, labels, agents))
        acceptance = await self._drive(cluster, granted=True) + problems
        if await self._set_condition(cluster, accepted_condition(acceptance)) and not acceptance.missing:
            log.info("cluster accepted", cluster=name)
            self._record_event(cluster, "ManagedClusterAccepted", f"managed cluster {name} is accepted by hub cluster admin")
        if self._permissions.namespace_terminating(name):
            # The agent is needed until its works are deleted; until then the namespace stays because of the binding.
            await self._release(name)
        elif not acceptance.missing:
            self._remains.forget(name)
        acceptance.check(name)

    def _held(self, cluster: ManagedCluster) -> ManagedCluster:
        """What every accepted cluster has: our finalizer."""
        acceptable = cluster.spec.hub_accepts_client and not self._name_problem(cluster)
        return add_finalizer(cluster) if acceptable else cluster

    def _name_problem(self, cluster: ManagedCluster) -> str:
        let_in = names.RESOURCE_CLEANUP in cluster.metadata.finalizers
        return rbac.name_problem(cluster.metadata.name, self._hub.options.namespace, is_new=not let_in)

    async def _hold(self, cluster: ManagedCluster) -> ManagedCluster | None:
        """The cluster with our finalizer; None if it is not to be accepted any more."""
        await self._clusters.change(cluster.metadata.name, unless_changed(cluster, add_finalizer))
        held = self._clusters.get(cluster.metadata.name)
        if held is None or _decision(held) != _decision(cluster) or names.RESOURCE_CLEANUP not in held.metadata.finalizers:
            return None
        return held

    # Denied

    async def _deny(self, cluster: ManagedCluster) -> None:
        name = cluster.metadata.name
        condition = condition_of(cluster.status.conditions, ACCEPTED)
        if condition is None and names.RESOURCE_CLEANUP not in cluster.metadata.finalizers and not self._permissions.of(name):
            # It was never accepted. Kubernetes deletes approved requests within the hour; acceptance may come later.
            self._agents.of(cluster)
            return
        denied = condition is not None and condition.reason == DENIED
        acceptance = await self._shut_out(cluster, unseen=not denied)
        works: list[Object] = []
        try:
            if self._permissions.holds_works(name):
                works = await self._works(name)
            else:
                self._remains.forget(name)
        except KubeError as error:
            acceptance += (f"ManifestWorks in namespace {name}: {error}",)
        if await self._set_condition(cluster, denied_condition(name, works, acceptance.missing)) and not denied:
            log.info("cluster denied", cluster=name, works=len(works))
            self._record_event(cluster, "ManagedClusterDenied", f"managed cluster {name} is denied by hub cluster admin")
        acceptance.check(name)
        if not works:
            await self._permissions.release(name)

    async def _shut_out(self, cluster: ManagedCluster, *, unseen: bool) -> AcceptanceState:
        """Remove all permissions but reading the own ManagedCluster, and those that the work agent needs to clean up."""
        name, labels = cluster.metadata.name, self._labels
        (registration, work, *_) = rbac.own_keys(name)
        problems = await _problems(
            (f"{resource.kind} {key}", self._permissions.remove(resource, key, name, unseen=unseen))
            for resource, key in (registration, work)
        )
        problems += await self._ensure(rbac.own_role(name, labels, accepted=False))
        problems += await self._ensure(rbac.own_binding(name, labels, self._agents.of(cluster)))
        return await self._drive(cluster, granted=False) + problems

    # Deleted

    async def _delete(self, cluster: ManagedCluster) -> None:
        name = cluster.metadata.name
        if names.RESOURCE_CLEANUP not in cluster.metadata.finalizers:
            # The rest is cleaned up when the ManagedCluster is removed.
            return
        if not cluster.spec.hub_accepts_client:
            await self._shut_out(cluster, unseen=False)
        if names.COLLECTION_CLEANUP in cluster.metadata.finalizers or await self._works(name):
            return
        acceptance = await self._drive(cluster, granted=False)
        acceptance += await self._remove_all(name, self._permissions.release, unseen=True)
        if acceptance.missing:
            await self._set_condition(cluster, accepted_condition(acceptance))
            acceptance.check(name)
            return
        await self._clusters.change(name, unless_changed(cluster, remove_finalizer))
        self._driven.pop(name, None)
        self._agents.forget(name)
        log.info("cluster removed", cluster=name)

    async def _forget(self, name: str) -> None:
        """The ManagedCluster does not exist: delete its remaining permissions."""
        if ObjectKey("", name) in self._hub.clusters.malformed or rbac.name_problem(
            name, self._hub.options.namespace, is_new=False
        ):
            return
        acceptance = AcceptanceState()
        if (last := self._departed.get(name)) is not None:
            acceptance |= await self._drive(last, granted=False)
        if self._permissions.of(name):
            log.info("removing permissions of a cluster that is gone", cluster=name)
            acceptance += await self._remove_all(name, self._release, unseen=False)
        else:
            self._remains.forget(name)
        acceptance.check(name)
        if acceptance.pending:
            return
        self._driven.pop(name, None)
        self._departed.pop(name, None)
        self._agents.forget(name)

    async def _remove_all(self, name: str, release: Callable[[str], Awaitable[None]], *, unseen: bool) -> tuple[str, ...]:
        problems = await _problems(
            (f"{resource.kind} {key}", self._permissions.remove(resource, key, name, unseen=unseen))
            for resource, key in rbac.own_keys(name)
        )
        return problems + await _problems([(f"RoleBinding {names.work_binding(name)}", release(name))])

    # Steps that are shared

    async def _refuse(self, cluster: ManagedCluster, problem: str) -> None:
        """Set the condition; nothing is created for a name that must not be accepted, so there is nothing to undo."""
        if cluster.metadata.deletion_timestamp:
            await self._clusters.change(cluster.metadata.name, unless_changed(cluster, remove_finalizer))
        elif cluster.spec.hub_accepts_client and await self._set_condition(
            cluster, accepted_condition(AcceptanceState((problem,)))
        ):
            log.warning("cluster cannot be accepted", cluster=cluster.metadata.name, problem=problem)

    async def _share_roles(self) -> None:
        clusters = self._hub.clusters
        # Many clusters come at once; the first one creates the roles.
        async with self._sharing:
            for wanted in rbac.common_roles(self._labels):
                if len(clusters.cache) or clusters.malformed:
                    await self._permissions.ensure(wanted)
                else:
                    await self._permissions.remove(CLUSTER_ROLES, wanted.key, COMMON)

    async def _ensure(self, *wanted: DesiredObject) -> tuple[str, ...]:
        return await _problems((str(one), self._permissions.ensure(one)) for one in wanted)

    async def _works(self, name: str) -> list[Object]:
        return await self._remains.of(MANIFEST_WORKS, name)

    async def _release(self, name: str) -> None:
        if not await self._works(name):
            await self._permissions.release(name)

    async def _drive(self, cluster: ManagedCluster, *, granted: bool) -> AcceptanceState:
        """Call `grant` or `revoke` of the drivers that own the cluster, unless they succeeded for the same state already."""
        name, wanted = cluster.metadata.name, _Driven(granted, _state(cluster))
        if self._driven.get(name) == wanted:
            return AcceptanceState()
        # Until it has succeeded, something may have been granted.
        self._driven[name] = _Driven(True, 0)
        acceptance = AcceptanceState()
        owners = {name: driver for name, driver in self._hub.drivers.items() if _owns(name, driver, cluster)}
        for driver_name, driver in owners.items():
            outcome = await _drive_one(driver, cluster, granted)
            acceptance |= AcceptanceState(_by(driver_name, outcome.problems), _by(driver_name, outcome.pending))
        if granted and not owners:
            acceptance += (_disabled(cluster, self._hub.options.drivers),)
        if not acceptance.missing:
            self._driven[name] = wanted
        return acceptance

    async def _set_condition(self, cluster: ManagedCluster, condition: Condition) -> bool:
        """Returns whether the condition changed."""
        now = self._context.clock.now()
        change = unless_changed(cluster, lambda newest: redated(newest, condition, now))
        return await self._clusters.change(cluster.metadata.name, change, status=True)

    def _record_event(self, cluster: ManagedCluster, reason: str, note: str) -> None:
        self._context.events.event(cluster.document(), "Normal", reason, note)


def _state(cluster: ManagedCluster) -> int:
    """A hash of the parts of a cluster that drivers may depend on; taints and the like are not included."""
    metadata = cluster.metadata
    marks = (tuple(sorted(metadata.annotations.items())), tuple(sorted(metadata.labels.items())))
    return hash((metadata.uid, marks, cluster.spec.managed_cluster_client_configs))


def unless_changed(seen: ManagedCluster, change: Change) -> Change:
    """The change, applied only if the acceptance of the cluster is still the same as when it was read."""

    def careful(newest: ManagedCluster) -> ManagedCluster:
        return change(newest) if _decision(newest) == _decision(seen) else newest

    return careful


def _decision(cluster: ManagedCluster) -> tuple[str, bool, bool]:
    return cluster.metadata.uid, bool(cluster.metadata.deletion_timestamp), cluster.spec.hub_accepts_client


def add_finalizer(cluster: ManagedCluster) -> ManagedCluster:
    return with_finalizers(cluster, add=names.RESOURCE_CLEANUP)


def remove_finalizer(cluster: ManagedCluster) -> ManagedCluster:
    return with_finalizers(cluster, remove=names.RESOURCE_CLEANUP)


def _owns(name: str, driver: HubDriver, cluster: ManagedCluster) -> bool:
    try:
        return driver.owns(cluster)
    except Exception as error:
        # Code of another distribution, called for a cluster that may not be its own.
        log.error("driver failed", driver=name, cluster=cluster.metadata.name, error=f"{type(error).__name__}: {error}")
        return False


def _by(driver: str, texts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"{driver}: {text}" for text in texts)


def _disabled(cluster: ManagedCluster, enabled: tuple[str, ...]) -> str:
    """The problem of a cluster whose driver is not enabled here: its agents' credentials can be neither granted nor revoked."""
    owner = owner_of(cluster)
    annotation = cluster.metadata.annotations.get(names.DRIVER_ANNOTATION, "")
    name = owner.name if owner is not None else annotation
    return (
        f"the cluster registers by driver {name!r}, which this hub has not enabled (it has: {', '.join(enabled)}): enable it "
        "(clusteradm init --registration-drivers), or join by one that is"
    )


async def _drive_one(driver: HubDriver, cluster: ManagedCluster, granted: bool) -> GrantResult:
    try:
        return await (driver.grant(cluster) if granted else driver.revoke(cluster))
    except TRANSIENT:
        raise
    except Exception as error:
        # Drivers may be of other distributions: an exception is reported in the cluster's condition and the log.
        return GrantResult((GrantStep("grant" if granted else "revoke", f"{type(error).__name__}: {error}"),))


async def _problems(steps: Iterable[tuple[str, Awaitable[None]]]) -> tuple[str, ...]:
    """Run all steps concurrently, and return the failed ones with the reason; transient errors are raised."""
    named = list(steps)
    results = await asyncio.gather(*(step for _, step in named), return_exceptions=True)
    problems: tuple[str, ...] = ()
    for (name, _), result in zip(named, results, strict=True):
        if isinstance(result, KubeError) and not isinstance(result, TRANSIENT):
            problems += (f"{name}: {result}",)
        elif isinstance(result, BaseException):
            raise result
    return problems


def accepted_condition(acceptance: AcceptanceState) -> Condition:
    if acceptance.missing:
        reason = "Error" if acceptance.problems else PENDING
        return Condition(type=ACCEPTED, status="False", reason=reason, message=_listed(acceptance.missing))
    return Condition(type=ACCEPTED, status="True", reason="HubClusterAdminAccepted", message="Accepted by hub cluster admin")


def denied_condition(cluster: str, works: list[Object], problems: tuple[str, ...]) -> Condition:
    message = "Denied by hub cluster admin"
    if works:
        message += f"; ManifestWorks left in namespace {cluster}: {len(works)}"
    if problems:
        message += f"; not yet revoked:\n{_listed(problems)}"
    return Condition(type=ACCEPTED, status="False", reason=DENIED, message=message)


def _listed(problems: tuple[str, ...]) -> str:
    lines = [problem[:2000] for problem in problems[:LISTED]]
    if len(problems) > LISTED:
        lines.append(f"and {len(problems) - LISTED} more")
    return "\n".join(lines)
