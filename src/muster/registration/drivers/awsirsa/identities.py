"""Creates, checks and deletes the AWS identities of clusters: the work queue behind `hub.py`.

A key is a cluster's name. `grant` or `revoke` set the desired state; records of clusters that were deleted, perhaps while no hub
ran, are to be revoked. Each step is repeated until it succeeds; a failed step is kept with its name for the cluster's condition and
retried with backoff, for each cluster separately. All AWS calls pass one rate limiter.

Granting: first the record; then the role with its trust policy; its policies; the mapping; then the record is marked as granted.
Revoking goes the other way: mapping, policies, role, record. Granted identities are checked every twelve hours, each cluster at its
own time.

If the kind of mapping is reconfigured, existing clusters are moved: the record names both, then the new mapping is created, and
only then the old one is removed, so that a cluster's agents are authenticated all the time. Revoking removes every mapping that the
record names.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Final, Literal, TypeVar

import msgspec

from muster.api.cluster.v1 import ManagedCluster
from muster.aws.errors import AccessDenied, AwsError, InvalidParameter, Malformed, NoIdentity, NotFound
from muster.aws.rate_limit import rate_limited
from muster.aws.role_names import RoleNames
from muster.machinery.golang.timestamps import format_time, parse_time
from muster.machinery.logs import get_logger
from muster.registration.drivers.awsirsa import access_entries
from muster.registration.drivers.awsirsa.authentication_mode import chosen_mapping
from muster.registration.drivers.awsirsa.aws_auth_map import AwsAuthMap, MapProblem
from muster.registration.drivers.awsirsa.awsauth import NAME, NAMESPACE
from muster.registration.drivers.awsirsa.options import HubSide, IdentityChoice, MappingChoice
from muster.registration.drivers.awsirsa.records import ADMINISTRATOR, Phase, Record, Records, beginning, mappings_of
from muster.registration.drivers.awsirsa.records import Mapping as MappingKind
from muster.registration.drivers.awsirsa.roles import AnothersRole, HubRole, remove_role
from muster.registration.drivers.interfaces import GrantStep, HubContext
from muster.registration.kinds import MANAGED_CLUSTERS
from muster.runtime.client import AlreadyExists, KubeError

if TYPE_CHECKING:
    from muster.aws.arns import EksCluster
    from muster.aws.interfaces import Aws
    from muster.aws.process_env import ProcessEnv
    from muster.runtime.cache import Informer

log = get_logger("muster.registration.drivers.awsirsa")

Connect = Callable[["ProcessEnv", "EksCluster"], "Aws"]
T = TypeVar("T")

CALLS_PER_SECOND: Final = 10.0
WORKERS: Final = 8
STEP_SECONDS: Final = 120.0
MAX_DELAY: Final = 300.0
VERIFIED_EVERY: Final = timedelta(hours=12)
RECORD: Final = "record"
ROLE: Final = "role"
POLICY: Final = "access policy"
MAPPING: Final = "mapping"
_CLEANUP: Final = "clusteradm aws cleanup"


@dataclass(frozen=True)
class DesiredIdentity:
    """The desired identity of a cluster: none if `pair` is None."""

    uid: str
    pair: RoleNames | None


class Unfinished(Exception):
    """A step has failed; its name and the reason are kept for the condition."""


class Identities:
    def __init__(self, context: HubContext, side: HubSide, connect: Connect | None = None) -> None:
        self._context = context
        self._side = side
        self._connect = connect or _botocore
        self._connected: Aws | None = None
        self._mapping_found: MappingKind | None = None
        self._mapping_lock = asyncio.Lock()
        self.records = Records(context, context.namespace)
        self._map = None if side.mapping is MappingChoice.ACCESS_ENTRY else AwsAuthMap(context, self.records)
        self._clusters: Informer[ManagedCluster] = context.informers.of(MANAGED_CLUSTERS, decode=ManagedCluster.decode)
        self._desired: dict[str, DesiredIdentity] = {}
        self._troubles: dict[str, tuple[DesiredIdentity, GrantStep]] = {}
        self._controller = context.controller(
            "aws-identities", self._reconcile, workers=WORKERS, timeout=STEP_SECONDS, max_delay=MAX_DELAY
        )
        self._controller.depend(self.records.informer)
        self._controller.depend(self._clusters)
        self.records.on_change(self._controller.enqueue)
        self._clusters.on_change(self._went)

    # Called by the driver

    def want(self, cluster: str, desired: DesiredIdentity) -> GrantStep:
        """Set the desired identity, start working on it, and return its present state."""
        if self._desired.get(cluster) != desired:
            self._desired[cluster] = desired
            self._troubles.pop(cluster, None)
            self._controller.enqueue(cluster)
        troubled = self._troubles.get(cluster)
        if troubled is not None and troubled[0] == desired:
            return troubled[1]
        return GrantStep(ROLE, waiting="being made" if desired.pair else "being removed")

    def keep(self, cluster: str, desired: DesiredIdentity, record: Record) -> None:
        """The identity is as desired; check it again when it is due."""
        self._desired[cluster] = desired
        self._controller.queue.add_after(cluster, self._due(record))

    def forget(self, cluster: str) -> None:
        self._desired.pop(cluster, None)
        self._troubles.pop(cluster, None)

    def runnables(self) -> Mapping[str, Callable[[], Awaitable[None]]]:
        return {"aws-identities": self._controller.run, **({"aws-auth": self._map.run} if self._map else {})}

    async def close(self) -> None:
        if self._connected is not None:
            await self._connected.close()
            self._connected = None

    # The queue

    def _went(self, old: ManagedCluster | None, new: ManagedCluster | None) -> None:
        if old is not None and new is None:
            self._controller.enqueue(old.metadata.name)

    async def _reconcile(self, cluster: str) -> float | None:
        desired = self._desired.get(cluster)
        try:
            again = await self._fulfil(cluster, desired)
        except Unfinished:
            self._context.reconsider(cluster)
            raise
        if desired is not None and self._desired.get(cluster) == desired:
            self._troubles.pop(cluster, None)
            if desired.pair is None:
                self.forget(cluster)
        return again

    async def _fulfil(self, cluster: str, desired: DesiredIdentity | None) -> float | None:
        before = self.records.of(cluster)
        for record in before:
            if self._is_unwanted(record, desired):
                await self._revoke(record, desired)
        again = None
        if desired is not None and desired.pair is not None:
            again = await self._grant(cluster, desired, desired.pair)
        if self.records.of(cluster) != before:
            self._context.reconsider(cluster)
        return again

    def _is_unwanted(self, record: Record, desired: DesiredIdentity | None) -> bool:
        if record.phase is Phase.LEFT:
            return False
        if desired is not None:
            return desired.pair is None or desired.pair.hub_role != record.role
        known = self._clusters.cache.named(record.cluster)
        return known is None or known.metadata.uid != record.uid

    # Granting

    async def _grant(self, cluster: str, desired: DesiredIdentity, pair: RoleNames) -> float | None:
        record = self.records.get(pair.hub_role)
        if record is None:
            record = await self._on_record(cluster, desired, pair)
        elif record.cluster != cluster:
            raise self._trouble(cluster, desired, RECORD, f"role {record.role} is cluster {record.cluster}'s")
        elif record.uid != desired.uid or record.phase in (Phase.REVOKING, Phase.LEFT):
            # The same identity under another ManagedCluster, or granted again: all steps are repeated.
            record = await self._noted(cluster, desired, record, uid=desired.uid, phase=Phase.GRANTING, verified="")
        if record.phase is Phase.GRANTED:
            return await self._maintain(cluster, desired, pair, record)
        if record.made_by != ADMINISTRATOR and (wanted := self._desired_mapping(record)) is not record.mapping:
            record = await self._noted(cluster, desired, record, mapping=wanted, other=record.mapping)
        role = HubRole(pair, cluster, self._side.tags)
        made_here = record.made_by != ADMINISTRATOR
        role_id = await (self._make if made_here else self._mend)(cluster, desired, role, record)
        return self._due(await self._noted(cluster, desired, record, phase=Phase.GRANTED, role_id=role_id, verified=self._now()))

    async def _on_record(self, cluster: str, desired: DesiredIdentity, pair: RoleNames) -> Record:
        if self._side.identity is IdentityChoice.ADMINISTRATOR:
            raise self._trouble(
                cluster, desired, ROLE, f"is created by the administrator who accepts the cluster: {self._command(cluster)}"
            )
        mapping = await self._step(cluster, desired, MAPPING, self._mapping())
        record = beginning(pair, cluster, desired.uid, mapping)
        await self._step(cluster, desired, RECORD, self.records.create(record))
        return record

    async def _make(self, cluster: str, desired: DesiredIdentity, role: HubRole, record: Record) -> str:
        """Create all parts; returns the role's id."""
        aws, record_step = self._aws(), partial(self._record_event, record)
        found = await self._step(cluster, desired, ROLE, role.ensure(aws, record_step))
        await self._step(cluster, desired, POLICY, role.ensure_access(aws))
        await self._step(cluster, desired, MAPPING, self._map_in(record, role, found.role_id))
        return found.role_id

    async def _inspect(self, cluster: str, desired: DesiredIdentity, role: HubRole, record: Record) -> str:
        """Check what exists, or what an administrator created, as far as the hub is allowed to read it; aws-auth it writes itself.

        Returns the role's id, if known.
        """
        aws, record_step = self._aws(), partial(self._record_event, record)
        role_id = record.role_id
        try:
            role_id = (await role.correct(aws, record_step)).role_id
            await role.correct_access(aws, record_step)
        except (NoIdentity, AccessDenied) as error:
            log.info("what was made on AWS cannot be seen from here", cluster=cluster, error=str(error))
        except NotFound as error:
            raise self._trouble(cluster, desired, ROLE, f"{error}; it is made again by {self._command(cluster)}") from None
        except (AwsError, AnothersRole) as error:
            raise self._trouble(cluster, desired, ROLE, _explained(error)) from None
        if record.mapping is MappingKind.AWS_AUTH:
            await self._step(cluster, desired, MAPPING, self._map_in(record, role, role_id))
            return role_id
        entry = access_entries.entry_of(record, role.all_tags)
        try:
            if record.role_id in ("", role_id):
                await access_entries.correct_entry(aws, self._side.hub.name, entry)
            else:
                await access_entries.ensure_entry(aws, self._side.hub.name, entry, is_of_this_role=False)
        except (NoIdentity, AccessDenied) as error:
            log.info("the access entry cannot be seen from here", cluster=cluster, error=str(error))
            return record.role_id
        except AwsError as error:
            raise self._trouble(cluster, desired, MAPPING, _explained(error)) from None
        return role_id

    async def _map_in(self, record: Record, role: HubRole, role_id: str | None) -> None:
        """Create the mapping.

        `role_id` is the id of the current role; None if it is unknown for which role an existing entry was created.
        """
        if record.mapping is MappingKind.AWS_AUTH:
            await self._aws_auth().put(record)
        else:
            entry = access_entries.entry_of(record, role.all_tags)
            is_of_this_role = role_id is not None and record.role_id == role_id
            await access_entries.ensure_entry(self._aws(), self._side.hub.name, entry, is_of_this_role=is_of_this_role)

    async def _maintain(self, cluster: str, desired: DesiredIdentity, pair: RoleNames, record: Record) -> float:
        """Check a granted identity periodically."""
        if self._map is not None:
            self._map.settled(record)
        role = HubRole(pair, cluster, self._side.tags)
        if self._is_to_move(record):
            record = await self._move(cluster, desired, role, record)
        due = self._due(record)
        if due > 0:
            return due
        role_id = await self._mend(cluster, desired, role, record)
        return self._due(await self._noted(cluster, desired, record, role_id=role_id, verified=self._now()))

    async def _mend(self, cluster: str, desired: DesiredIdentity, role: HubRole, record: Record) -> str:
        """Correct all parts; returns the role's id."""
        try:
            return await self._inspect(cluster, desired, role, record)
        except Unfinished as error:
            # Another client deleted a part, or an administrator never completed it: all steps are repeated by whichever side is
            # allowed.
            log.warning("what was granted on AWS is not as it should be", cluster=cluster, error=str(error))
            if self._side.identity is IdentityChoice.ADMINISTRATOR:
                raise
            return await self._make(cluster, desired, role, record)

    def _command(self, cluster: str) -> str:
        return f"clusteradm accept --clusters {cluster}, with an AWS identity of account {self._side.hub.account}"

    # Moving from one mapping to the other

    def _is_to_move(self, record: Record) -> bool:
        return self._desired_mapping(record) is not record.mapping or (record.other is not None and self._removes(record.other))

    def _desired_mapping(self, record: Record) -> MappingKind:
        """The configured kind of mapping; if none is configured, the recorded one stays."""
        choice = self._side.mapping
        return record.mapping if choice is MappingChoice.AUTO else MappingKind(choice.value)

    def _removes(self, mapping: MappingKind) -> bool:
        """Whether this hub is allowed to remove such a mapping."""
        return mapping is MappingKind.ACCESS_ENTRY or self._map is not None

    async def _move(self, cluster: str, desired: DesiredIdentity, role: HubRole, record: Record) -> Record:
        wanted, before = self._desired_mapping(record), record.mapping
        if wanted is not before:
            record = await self._noted(cluster, desired, record, other=wanted)
            moved = msgspec.structs.replace(record, mapping=wanted, other=before)
            await self._step(cluster, desired, MAPPING, self._map_in(moved, role, None))
            record = await self._noted(cluster, desired, record, mapping=wanted, other=before)
            log.info("cluster mapped anew", cluster=cluster, mapping=wanted.value)
            if not self._removes(before):
                note = f"{record.role_arn} has an access entry now; its entry in ConfigMap {NAMESPACE}/{NAME} is left: {_CLEANUP}"
                self._record_event(record, "AwsMappingMoved", note, kind="Warning")
        if record.other is not None and self._removes(record.other):
            await self._step(cluster, desired, MAPPING, self._map_out(record, record.other))
            record = await self._noted(cluster, desired, record, other=None)
        if self._map is not None:
            self._map.settled(record)
        return record

    async def _map_out(self, record: Record, mapping: MappingKind) -> None:
        if mapping is MappingKind.AWS_AUTH:
            await self._aws_auth().take(record)
        else:
            await access_entries.remove_entry(self._aws(), self._side.hub.name, record.role_arn)

    async def _mapping(self) -> MappingKind:
        """The kind of mapping by default, determined once for all clusters, even when they ask concurrently."""
        async with self._mapping_lock:
            if self._mapping_found is None:
                self._mapping_found = await chosen_mapping(self._side, self._aws())
        return self._mapping_found

    # Revoking

    async def _revoke(self, record: Record, desired: DesiredIdentity | None) -> None:
        desired = desired or DesiredIdentity(record.uid, None)
        if record.phase is not Phase.REVOKING:
            record = await self._noted(record.cluster, desired, record, phase=Phase.REVOKING)
        mappings = mappings_of(record)
        if MappingKind.AWS_AUTH in mappings and self._map is not None:
            await self._step(record.cluster, desired, MAPPING, self._map_out(record, MappingKind.AWS_AUTH))
        try:
            if MappingKind.ACCESS_ENTRY in mappings:
                await self._map_out(record, MappingKind.ACCESS_ENTRY)
            await remove_role(self._aws(), record.role, partial(self._record_event, record))
        except (NoIdentity, AccessDenied) as error:
            if isinstance(error, AccessDenied) and record.made_by != ADMINISTRATOR:
                raise self._trouble(record.cluster, desired, ROLE, _explained(error)) from None
            await self._leave(record, desired, f"role {record.role_arn} could not be removed ({_explained(error)})")
            return
        except AwsError as error:
            raise self._trouble(record.cluster, desired, ROLE, _explained(error)) from None
        if MappingKind.AWS_AUTH in mappings and self._map is None:
            await self._leave(
                record, desired, f"the entry for {record.role_arn} in ConfigMap {NAMESPACE}/{NAME} is not this hub's to remove"
            )
            return
        await self._step(record.cluster, desired, RECORD, self.records.delete(record))
        log.info("AWS identity removed", cluster=record.cluster, role=record.role)

    async def _leave(self, record: Record, desired: DesiredIdentity, why: str) -> None:
        await self._noted(record.cluster, desired, record, phase=Phase.LEFT)
        log.warning("AWS identity left", cluster=record.cluster, role=record.role, why=why)
        self._record_event(record, "AwsIdentityLeft", f"{why}: {_CLEANUP}, with an AWS identity that may", kind="Warning")

    # Steps

    async def _step(self, cluster: str, desired: DesiredIdentity, name: str, work: Awaitable[T]) -> T:
        """Run a step and keep its failure. Raises Unfinished."""
        try:
            return await work
        except AlreadyExists:
            raise self._trouble(cluster, desired, name, "the role was recorded by another process meanwhile") from None
        except (AwsError, AnothersRole, MapProblem, KubeError) as error:
            raise self._trouble(cluster, desired, name, _explained(error)) from error

    def _trouble(self, cluster: str, desired: DesiredIdentity, step: str, problem: str) -> Unfinished:
        self._troubles[cluster] = (desired, GrantStep(step, problem))
        return Unfinished(f"{step}: {problem}")

    async def _noted(self, cluster: str, desired: DesiredIdentity, record: Record, **changes: object) -> Record:
        changed = msgspec.structs.replace(record, **changes)
        await self._step(cluster, desired, RECORD, self.records.update(changed))
        return changed

    def _record_event(self, record: Record, reason: str, note: str, kind: Literal["Normal", "Warning"] = "Normal") -> None:
        cluster = self._clusters.cache.named(record.cluster)
        about = cluster.document() if cluster is not None else _gone(record)
        self._context.events.event(about, kind, reason, note)

    def _now(self) -> str:
        return format_time(self._context.clock.now())

    def _due(self, record: Record) -> float:
        """Seconds until a granted identity is to be checked, less a random part of up to a quarter, so that not all come due
        together.
        """
        if self._is_to_move(record):
            return 0.0
        try:
            seen = parse_time(record.verified)
        except ValueError:
            return 0.0
        past = (self._context.clock.now() - seen).total_seconds()
        return max(0.0, VERIFIED_EVERY.total_seconds() * (1 - 0.25 * self._context.random()) - past)

    def _aws(self) -> Aws:
        """The AWS clients with the hub's own identity, made when they are first needed. Raises AwsError."""
        if self._connected is None:
            made = self._connect(self._context.process_env, self._side.hub)
            self._connected = rate_limited(made, CALLS_PER_SECOND, self._context.clock)
        return self._connected

    def _aws_auth(self) -> AwsAuthMap:
        if self._map is None:
            raise MapProblem(
                "the cluster is mapped by aws-auth, and the hub is configured to use access entries only (--aws-mapping): "
                "deny the cluster and accept it again"
            )
        return self._map


def _explained(error: Exception) -> str:
    """The error's message, with advice if there is any."""
    match error:
        case Malformed():
            return f"{error}; does the managed cluster's role exist? clusteradm aws prerequisites managed"
        case InvalidParameter():
            return f"{error}; EKS may not see the role yet"
        case NoIdentity():
            return f"the hub has no AWS identity ({error}): clusteradm accept with one of your own, or aws prerequisites hub"
    return str(error) or type(error).__name__


def _gone(record: Record) -> dict[str, object]:
    """A reference to a deleted ManagedCluster, for events about it."""
    metadata = {"name": record.cluster, "uid": record.uid}
    return {"apiVersion": MANAGED_CLUSTERS.api_version, "kind": MANAGED_CLUSTERS.kind, "metadata": metadata}


def _botocore(process_env: ProcessEnv, hub: EksCluster) -> Aws:
    from muster.aws.identity import connect

    return connect(process_env, hub.region)
