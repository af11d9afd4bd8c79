"""What was granted on AWS, on record before it is made: a ConfigMap per role in the hub's namespace, called like the role.

The record, and nothing that an agent can write, says what is to be taken away again, from whom, and from which ManagedCluster (by
its uid); it outlives the hub's process, and its cluster. A role's name is the record's name, so of two clusters that come to the
same role only one gets a record: the API server decides which.

`phase` says how far things are. What is GRANTING may or may not be there; what is GRANTED was there when it was last looked at
(`verified`); what is REVOKING may or may not be gone, and LEFT is what this hub could not take away, for want of an AWS identity:
an administrator's `clusteradm aws cleanup` does.

Whether a cluster has records is asked for all of them, of whichever driver, so an index by cluster answers that. The watch and this
process's own writes feed it; it names at least every role that is on record for a cluster, and what it names is read again.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from typing import TYPE_CHECKING, Final

import msgspec

from muster.api.agents import CLUSTER_LABEL
from muster.machinery.logs import get_logger
from muster.machinery.objects import ObjectKey
from muster.runtime.cache import MutationCache, Snapshot
from muster.runtime.client import NotFound
from muster.runtime.client.builtin import CONFIG_MAPS

if TYPE_CHECKING:
    from muster.aws.role_names import RoleNames
    from muster.machinery.objects import Object
    from muster.runtime.cache import Informer
    from muster.runtime.controller import ControllerContext

log = get_logger("muster.registration.drivers.awsirsa")

RECORD_LABEL: Final = "open-cluster-management.io/aws-identity"
"""On records; what they say is in their one entry."""
ENTRY: Final = "identity.json"
HUB: Final = "hub"
ADMINISTRATOR: Final = "administrator"


class Phase(Enum):
    GRANTING = "Granting"
    GRANTED = "Granted"
    REVOKING = "Revoking"
    LEFT = "Left"


class Mapping(Enum):
    """How EKS learns whom a role is on the hub."""

    AWS_AUTH = "aws-auth"
    ACCESS_ENTRY = "access-entry"


class Record(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    role: str
    """Its name, in the hub's account."""
    role_arn: str
    cluster: str
    uid: str
    """Of the ManagedCluster."""
    arn: str
    """Of the managed cluster."""
    mapping: Mapping
    phase: Phase
    other: Mapping | None = None
    """By which its role may be known too: it is being moved there, or was there before and that is not removed yet."""
    made_by: str = HUB
    role_id: str = ""
    """Which role of this name the mapping is known to have been made for; empty where that is not known."""
    verified: str = ""
    """When the hub last saw that all of it is as it should be."""


def beginning(pair: RoleNames, cluster: str, uid: str, mapping: Mapping, made_by: str = HUB) -> Record:
    """The record of what is about to be made for a cluster."""
    return Record(
        role=pair.hub_role,
        role_arn=pair.hub_role_arn,
        cluster=cluster,
        uid=uid,
        arn=str(pair.managed),
        mapping=mapping,
        phase=Phase.GRANTING,
        made_by=made_by,
    )


def mappings_of(record: Record) -> set[Mapping]:
    """By which of them its role may be known on the hub."""
    return {record.mapping} | ({record.other} if record.other is not None else set())


class Records:
    """As this process knows them, with its own writes."""

    def __init__(self, context: ControllerContext, namespace: str) -> None:
        self._client = context.client
        self._namespace = namespace
        self.informer: Informer[Snapshot] = context.informers.of(CONFIG_MAPS, namespace, label_selector=RECORD_LABEL)
        self._cache = MutationCache(self.informer, clock=context.clock)
        self._roles: dict[str, dict[str, None]] = {}
        """By cluster: roles on record for it, perhaps with some that were a moment ago."""
        self.informer.on_change(self._index)

    def on_change(self, changed: Callable[[str], None]) -> None:
        """Tells whose record came, went or changed: the cluster's name."""

        def notify(old: Snapshot | None, new: Snapshot | None) -> None:
            for side in (old, new):
                if side is not None and (record := _read(side)):
                    changed(record.cluster)

        self.informer.on_change(notify)

    def get(self, role: str) -> Record | None:
        snapshot = self._cache.snapshot(self._key(role))
        return None if snapshot is None else _read(snapshot)

    def all(self) -> list[Record]:
        return [record for snapshot in self._cache.snapshots() if (record := _read(snapshot))]

    def of(self, cluster: str) -> list[Record]:
        found = [self.get(role) for role in self._roles.get(cluster, ())]
        return [record for record in found if record is not None and record.cluster == cluster]

    async def create(self, record: Record) -> None:
        """Raises AlreadyExists where the role is somebody's already, and KubeError."""
        self._cache.record_write(await self._client.create(CONFIG_MAPS, document(record, self._namespace)))
        self._enter(record.cluster, record.role)

    async def update(self, record: Record) -> None:
        """Raises Conflict when somebody else has changed it since it was read, and KubeError."""
        snapshot = self._cache.snapshot(self._key(record.role))
        if snapshot is None:
            return
        wanted = document(record, self._namespace)
        wanted["metadata"] |= {"resourceVersion": snapshot.resource_version, "uid": snapshot.uid}
        self._cache.record_write(await self._client.update(CONFIG_MAPS, wanted))

    async def delete(self, record: Record) -> None:
        """Raises KubeError."""
        key = self._key(record.role)
        snapshot = self._cache.snapshot(key)
        if snapshot is None:
            return
        with suppress(NotFound):
            answer = await self._client.delete(CONFIG_MAPS, record.role, self._namespace, uid=snapshot.uid)
            self._cache.record_delete(key, snapshot.uid, answer)

    def _index(self, old: Snapshot | None, new: Snapshot | None) -> None:
        for side in (old, new):
            if side is not None and (record := _read(side)):
                self._enter(record.cluster, record.role)

    def _enter(self, cluster: str, role: str) -> None:
        """By what is on record for the role now: the watch may tell of a version before one that this process has written."""
        now = self.get(role)
        roles = self._roles.setdefault(cluster, {})
        if now is not None and now.cluster == cluster:
            roles[role] = None
        else:
            roles.pop(role, None)
        if not roles:
            del self._roles[cluster]

    def _key(self, role: str) -> ObjectKey:
        return ObjectKey(self._namespace, role)


def document(record: Record, namespace: str) -> Object:
    metadata = {"name": record.role, "namespace": namespace, "labels": {RECORD_LABEL: "", CLUSTER_LABEL: record.cluster}}
    return {"metadata": metadata, "data": {ENTRY: msgspec.json.encode(record).decode()}}


def _read(snapshot: Snapshot) -> Record | None:
    return recorded(snapshot.data)


def recorded(config_map: Object) -> Record | None:
    """What a ConfigMap has on record; None where it is no record, or none that can be read."""
    name = config_map["metadata"]["name"]
    try:
        record = msgspec.json.decode((config_map.get("data") or {}).get(ENTRY, ""), type=Record)
    except (msgspec.DecodeError, AttributeError, TypeError) as error:
        log.warning("a record of an AWS identity cannot be read; its role is left alone", record=name, error=str(error))
        return None
    # A record speaks for the role that it is called by, and for no other.
    return record if record.role == name else None
