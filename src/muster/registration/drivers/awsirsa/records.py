"""Records of what is granted on AWS, written before it is created: a ConfigMap per role in the hub's namespace, named like the
role.

Only the record, never an object that an agent can write, decides what is to be removed, from which AWS objects, and for which
ManagedCluster (by its uid); it outlives the hub's process and the cluster. A role's name is the record's name, so if two clusters
ask for the same role, only one gets a record: the API server decides which.

`phase` is the progress. In phase GRANTING the objects may or may not exist; in GRANTED they existed at the last check (`verified`);
in REVOKING they may or may not be deleted, and LEFT means that this hub could not delete them for lack of an AWS identity: an
administrator's `clusteradm aws cleanup` does.

Every driver is asked for every cluster whether it has records, so this is answered by an index by cluster. It is fed by the watch
and by this process' own writes; it contains at least every role that is recorded for a cluster, and each result is read again.
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
"""Label of records; the data of a record is in its only entry."""
ENTRY: Final = "identity.json"
HUB: Final = "hub"
ADMINISTRATOR: Final = "administrator"


class Phase(Enum):
    GRANTING = "Granting"
    GRANTED = "Granted"
    REVOKING = "Revoking"
    LEFT = "Left"


class Mapping(Enum):
    """How EKS maps a role to a user of the hub."""

    AWS_AUTH = "aws-auth"
    ACCESS_ENTRY = "access-entry"


class Record(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    role: str
    """The role's name, in the hub's account."""
    role_arn: str
    cluster: str
    uid: str
    """The uid of the ManagedCluster."""
    arn: str
    """The ARN of the managed cluster."""
    mapping: Mapping
    phase: Phase
    other: Mapping | None = None
    """A second mapping that may exist: the one that it is being moved to, or the former one that is not removed yet."""
    made_by: str = HUB
    role_id: str = ""
    """The id of the role for which the mapping is known to have been created; empty if unknown."""
    verified: str = ""
    """When the hub last found all parts correct."""


def beginning(pair: RoleNames, cluster: str, uid: str, mapping: Mapping, made_by: str = HUB) -> Record:
    """The record to write before the identity of a cluster is created."""
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
    """The mappings that may exist for the role on the hub."""
    return {record.mapping} | ({record.other} if record.other is not None else set())


class Records:
    """The cached records, including this process' own writes."""

    def __init__(self, context: ControllerContext, namespace: str) -> None:
        self._client = context.client
        self._namespace = namespace
        self.informer: Informer[Snapshot] = context.informers.of(CONFIG_MAPS, namespace, label_selector=RECORD_LABEL)
        self._cache = MutationCache(self.informer, clock=context.clock)
        self._roles: dict[str, dict[str, None]] = {}
        """By cluster: roles with a record for it; some of the records may just have been deleted."""
        self.informer.on_change(self._index)

    def on_change(self, changed: Callable[[str], None]) -> None:
        """Register a callback that gets the cluster's name whenever one of its records is added, updated or deleted."""

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
        """Raises AlreadyExists if the role has a record already, and KubeError."""
        self._cache.record_write(await self._client.create(CONFIG_MAPS, document(record, self._namespace)))
        self._enter(record.cluster, record.role)

    async def update(self, record: Record) -> None:
        """Raises Conflict if the record has changed since it was read, and KubeError."""
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
        """Index the role under the cluster of its current record: the watch may deliver a version before one that this process has
        written.
        """
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
    """The record in a ConfigMap; None if it has none, or one that cannot be parsed."""
    name = config_map["metadata"]["name"]
    try:
        record = msgspec.json.decode((config_map.get("data") or {}).get(ENTRY, ""), type=Record)
    except (msgspec.DecodeError, AttributeError, TypeError) as error:
        log.warning("a record of an AWS identity cannot be read; its role is left alone", record=name, error=str(error))
        return None
    # A record is valid only for the role after which its ConfigMap is named.
    return record if record.role == name else None
