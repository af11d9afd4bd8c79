"""A cluster's AWS identity, created by the administrator who accepts the cluster, with an AWS identity of their own.

It takes the same steps as the hub (`identities.py`) and keeps the same record, marked as made by an administrator: the hub then
inspects what it is allowed to read. If a later step is refused, the earlier ones are undone, so that a user who is not allowed to
accept a cluster leaves nothing on AWS; a call without an answer may have been carried out, so its result is looked up and removed
as well. If an `accept` was killed halfway, the next one completes it. If the caller has no AWS identity, or one of another account
or without the permissions, the hub creates the identity instead, unless the administrator's identity was required.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from muster.aws import errors as aws_errors
from muster.aws.errors import AwsError, NoIdentity, NoLibrary, Unavailable
from muster.registration.drivers.awsirsa import access_entries
from muster.registration.drivers.awsirsa.authentication_mode import chosen_mapping
from muster.registration.drivers.awsirsa.aws_auth_edit import put_in, take_out
from muster.registration.drivers.awsirsa.aws_auth_map import mapped
from muster.registration.drivers.awsirsa.awsauth import NAME, NAMESPACE, Unreadable
from muster.registration.drivers.awsirsa.claims import BadClaim, pair_of
from muster.registration.drivers.awsirsa.options import HubSide, IdentityChoice
from muster.registration.drivers.awsirsa.records import ADMINISTRATOR, Mapping, Phase, Record, beginning, document, recorded
from muster.registration.drivers.awsirsa.roles import AnothersRole, HubRole, remove_role
from muster.registration.drivers.errors import Unfit
from muster.runtime.client import AlreadyExists, KubeError, NotFound
from muster.runtime.client.builtin import CONFIG_MAPS

if TYPE_CHECKING:
    from muster.api.cluster.v1 import ManagedCluster
    from muster.aws.interfaces import Aws, CallerIdentity
    from muster.aws.role_names import RoleNames
    from muster.aws.roles import RoleState
    from muster.registration.drivers.interfaces import AcceptanceContext, Undo

Connect = Callable[[], "Aws"]
Step = Callable[[], Awaitable[None]]
UNFINISHED: Final = (Phase.GRANTING, Phase.LEFT)
"""Phases in which the AWS objects may be incomplete."""


class LeftToTheHub(Exception):
    """Raised with the reason why the hub and not the caller creates the identity."""


async def prepare(cluster: ManagedCluster, side: HubSide, connect: Connect, accepting: AcceptanceContext) -> Undo | None:
    """Create the AWS identity; returns the function that undoes it, None if nothing was done. Raises Unfit and KubeError."""
    pair = claimed_pair(cluster, side)
    if side.identity is IdentityChoice.HUB:
        return None
    try:
        return await _prepared(_Making(cluster, pair, side, accepting), connect)
    except LeftToTheHub as reason:
        if side.identity is IdentityChoice.ADMINISTRATOR:
            remedy = f"use an AWS identity of account {side.hub.account} that may make roles: clusteradm aws prerequisites hub"
            raise Unfit(
                f"cluster {cluster.metadata.name}: the administrator who accepts a cluster creates its AWS identity, and {reason}",
                remedy,
            ) from None
        accepting.report(f"the hub creates the AWS identity: {reason}")
        return None


def claimed_pair(cluster: ManagedCluster, side: HubSide) -> RoleNames:
    """The role names that the annotations of a cluster give. Raises Unfit."""
    try:
        return pair_of(cluster, side.hub)
    except BadClaim as error:
        raise Unfit(f"cluster {cluster.metadata.name}: {error}") from None


async def _prepared(making: _Making, connect: Connect) -> Undo:
    """Take all steps; if one fails, undo the others. Raises LeftToTheHub, Unfit and KubeError."""
    name = making.cluster.metadata.name
    try:
        async with _connected(connect) as making.aws:
            caller = await _caller(making.aws, making.side)
            try:
                await making.run()
            except AwsError as error:
                await making.undo()
                raise LeftToTheHub(f"{caller.arn} was refused ({error})") from None
            except (AnothersRole, Unreadable) as error:
                await making.undo()
                raise Unfit(f"cluster {name}: {error}") from None
            except BaseException:
                await making.undo()
                raise
    except (NoIdentity, NoLibrary) as error:
        raise LeftToTheHub(f"there is no AWS identity here ({error})") from None
    except AwsError as error:
        raise LeftToTheHub(f"AWS cannot be reached ({error})") from None

    async def undo() -> None:
        async with _connected(connect) as making.aws:
            await making.undo()

    return undo


@asynccontextmanager
async def _connected(connect: Connect) -> AsyncIterator[Aws]:
    """The AWS clients, closed at the end. Raises AwsError."""
    aws = connect()
    try:
        yield aws
    finally:
        await aws.close()


async def _caller(aws: Aws, side: HubSide) -> CallerIdentity:
    """The caller's AWS identity. Raises LeftToTheHub and AwsError."""
    caller = await aws.caller_identity()
    if caller.account != side.hub.account:
        raise LeftToTheHub(f"the AWS identity here is of account {caller.account}, and the hub's is {side.hub.account}")
    return caller


@dataclass
class _Making:
    cluster: ManagedCluster
    pair: RoleNames
    side: HubSide
    accepting: AcceptanceContext
    aws: Aws = field(init=False)
    """The AWS clients of the administrator, while steps are taken."""
    _undo: list[Step] = field(default_factory=list)

    async def run(self) -> None:
        name = self.cluster.metadata.name
        mapping = await chosen_mapping(self.side, self.aws)
        record = beginning(self.pair, name, self.cluster.metadata.uid, mapping, ADMINISTRATOR)
        found = await self._on_record(record)
        if found is not None and found.phase not in UNFINISHED:
            self.accepting.report(f"role {record.role} is on record for cluster {name} already")
            return
        role = HubRole(self.pair, name, self.side.tags)
        made = await self._role(role)
        await role.ensure_access(self.aws)
        await self._map(found or record, role, made, is_ours=found is None)

    async def _on_record(self, record: Record) -> Record | None:
        """Write the record; returns the previous one. Raises Unfit if the role belongs to another cluster."""
        client, namespace = self.accepting.client, self.accepting.namespace
        try:
            await client.create(CONFIG_MAPS, {"apiVersion": "v1", "kind": "ConfigMap", **document(record, namespace)})
        except AlreadyExists:
            found = recorded(await client.get(CONFIG_MAPS, record.role, namespace))
            if found is None or found.cluster != record.cluster:
                owner = f"cluster {found.cluster}" if found else "something else"
                raise Unfit(
                    f"{record.arn}: role {record.role} is that of {owner}, see ConfigMap {namespace}/{record.role}"
                ) from None
            return found
        self._undo.append(self._forget(record))
        return None

    async def _role(self, role: HubRole) -> RoleState:
        name = role.pair.hub_role
        try:
            made = await role.ensure(self.aws, self._record_event)
        except (Unavailable, asyncio.CancelledError):
            # The role may have been created although the call failed; its tags show it.
            self._undo.append(lambda: self._remove_if_ours(role))
            raise
        if made.is_new:
            self._undo.append(lambda: remove_role(self.aws, name, self._record_event))
            self.accepting.report(f"role {role.pair.hub_role_arn} made")
        return made

    async def _remove_if_ours(self, role: HubRole) -> None:
        try:
            found = await self.aws.get_role(role.pair.hub_role)
            role.check(found)
        except (aws_errors.NotFound, AnothersRole):
            return
        if role.all_tags.items() <= found.tags.items():
            await remove_role(self.aws, found.name, self._record_event)

    def _forget(self, record: Record) -> Step:
        async def step() -> None:
            with suppress(NotFound):
                await self.accepting.client.delete(CONFIG_MAPS, record.role, self.accepting.namespace)

        return step

    async def _map(self, record: Record, role: HubRole, made: RoleState, *, is_ours: bool) -> None:
        """Map the role on the hub. If the record is the caller's own, it is undone later even if the call has failed."""
        if record.mapping is Mapping.ACCESS_ENTRY:
            hub, entry = self.side.hub.name, access_entries.entry_of(record, role.all_tags)
            if is_ours:
                self._undo.append(lambda: access_entries.remove_entry(self.aws, hub, record.role_arn))
            await access_entries.ensure_entry(self.aws, hub, entry, is_of_this_role=record.role_id == made.role_id)
            self.accepting.report(f"access entry of {record.role_arn} made")
            return
        if is_ours:
            self._undo.append(lambda: take_out(self.accepting.client, record.role_arn))
        await put_in(self.accepting.client, mapped(record))
        self.accepting.report(f"{record.role_arn} is in ConfigMap {NAMESPACE}/{NAME}")

    def _record_event(self, reason: str, note: str) -> None:
        self.accepting.report(note)

    async def undo(self) -> None:
        """Undo the steps, the last one first. A step that cannot be undone is reported, and the others are undone all the same."""
        while self._undo:
            step = self._undo.pop()
            try:
                await step()
            except (AwsError, KubeError, Unreadable) as error:
                self.accepting.report(f"could not be undone: {error}; clusteradm aws cleanup finds it")
