"""AppliedManifestWorks: the managed cluster's record of the objects of works, and their owner.

Objects are recorded before they are written, so that an agent that dies in between loses none. A new record has an annotation with
the objects that are about to be applied (`INTENT`, ours; a create cannot set the status); objects that a later version of the work
adds are written into the status before they are applied, still without uid. Such an entry claims nothing: only the owner
references of an object decide whether it belongs to the work.
"""

from __future__ import annotations

import random as chance
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgspec

from muster.api.work.v1 import (
    AppliedManifestWork,
    AppliedManifestWorkSpec,
    AppliedManifestWorkStatus,
    AppliedResource,
    ManifestWork,
)
from muster.machinery.clock import SYSTEM, Clock, Random
from muster.machinery.objects import ObjectKey, ObjectRef
from muster.runtime.cache import Informer, MutationCache
from muster.runtime.client import AlreadyExists, KubeClient, NotFound, Unreachable, patch_object
from muster.runtime.controller import with_finalizer, without_finalizer
from muster.work.agent.apply_plan import Identity
from muster.work.agent.echoes import Echoes
from muster.work.agent.interfaces import ManifestOwner
from muster.work.kinds import APPLIED_WORKS
from muster.work.names import APPLIED_FINALIZER

INTENT: Final = "work.open-cluster-management.io/muster-intent"
"""Annotation of a record: what was about to be applied when it was made, one `version group/resource namespace/name` per line."""
MAX_INTENT: Final = 128 * 1024
"""Annotations together may have 256 KiB; beyond this the status has to do."""


def entry_of(ref: ObjectRef, uid: str = "") -> AppliedResource:
    resource = ref.resource
    return AppliedResource(
        group=resource.group, version=resource.version, resource=resource.plural, namespace=ref.namespace, name=ref.name, uid=uid
    )


def entry_identity(entry: AppliedResource) -> Identity:
    return entry.group, entry.resource, entry.namespace, entry.name


def in_order(entries: Iterable[AppliedResource]) -> tuple[AppliedResource, ...]:
    """As upstream's agent sorts them."""
    return tuple(sorted(entries, key=lambda one: (one.group, one.version, one.resource, one.namespace, one.name)))


def intended(record: AppliedManifestWork) -> list[AppliedResource]:
    """What its annotation names."""
    found = []
    for line in record.metadata.annotations.get(INTENT, "").splitlines():
        version, _, rest = line.partition(" ")
        kind, _, key = rest.partition(" ")
        (group, _, plural), (namespace, _, name) = kind.rpartition("/"), key.rpartition("/")
        if version and plural and name:
            found.append(AppliedResource(group=group, version=version, resource=plural, namespace=namespace, name=name))
    return found


def _intent(refs: Iterable[ObjectRef]) -> dict[str, str]:
    lines = [f"{ref.resource.version} {ref.resource.group}/{ref.resource.plural} {ref.namespace}/{ref.name}" for ref in refs]
    text = "\n".join(sorted(lines))
    return {INTENT: text} if len(text) <= MAX_INTENT else {}


def known(record: AppliedManifestWork) -> dict[Identity, AppliedResource]:
    """All objects that the work may have applied, according to the record."""
    entries = [*intended(record), *record.status.applied_resources]
    return {entry_identity(entry): entry for entry in entries}


def tracks(record: AppliedManifestWork, entries: Iterable[AppliedResource]) -> bool:
    """Whether exactly these are its applied resources."""
    return record.status.applied_resources == in_order(entries)


def owner_of(record: AppliedManifestWork) -> ManifestOwner:
    return ManifestOwner(record.metadata.name, record.metadata.uid)


class Records:
    """The records of the managed cluster, of whichever hub and agent."""

    def __init__(
        self, client: KubeClient, hub_hash: str, agent_id: str, *, clock: Clock = SYSTEM, random: Random = chance.random
    ) -> None:
        self._client = client
        self._hub_hash = hub_hash
        self.agent_id = agent_id or hub_hash
        self._informer: Informer[AppliedManifestWork] = Informer(
            client, APPLIED_WORKS, decode=AppliedManifestWork.decode, clock=clock, random=random
        )
        self._latest = MutationCache(self._informer, clock=clock)
        self._echoes = Echoes()
        self._doubtful: set[str] = set()
        """Records that were to be made when the cluster did not answer."""
        self._informer.on_change(self._seen)

    @property
    def synced(self) -> bool:
        return self._informer.has_synced

    async def until_synced(self) -> None:
        await self._informer.synced()

    async def run(self) -> None:
        await self._informer.run()

    def on_change(self, handler: Callable[[str], None]) -> None:
        """`handler` is called with the name of a record that another client has changed."""
        self._echoes.on_change(handler)
        for key in self._informer.cache.all_keys():
            handler(key.name)

    def name_for(self, work: str) -> str:
        return f"{self._hub_hash}-{work}"

    def work_of(self, record: str) -> str:
        """The work of our hub that a record is about; empty for records of other hubs."""
        prefix = f"{self._hub_hash}-"
        return record.removeprefix(prefix) if record.startswith(prefix) else ""

    def get(self, name: str) -> AppliedManifestWork | None:
        return self._latest.get(ObjectKey("", name))

    def of(self, work: str) -> AppliedManifestWork | None:
        return self.get(self.name_for(work))

    async def sure_of(self, work: str) -> AppliedManifestWork | None:
        """The record of a work; read from the cluster if the cache may not have it yet."""
        name = self.name_for(work)
        record = self.get(name)
        if record is None and name in self._doubtful:
            try:
                record = await self._client.get(AppliedManifestWork, name)
            except NotFound:
                record = None
        self._doubtful.discard(name)
        return record

    def ours(self, record: AppliedManifestWork) -> bool:
        """Whether it was made by this agent, or by one that had its name."""
        return record.spec is not None and record.spec.agent_id == self.agent_id

    async def ensure(self, work: ManifestWork, refs: Iterable[ObjectRef]) -> AppliedManifestWork:
        """The record of a work, with the work's labels; a new one intends `refs`."""
        spec = AppliedManifestWorkSpec(hub_hash=self._hub_hash, manifest_work_name=work.metadata.name, agent_id=self.agent_id)
        record = self.of(work.metadata.name)
        if record is None:
            return await self._create(spec, work.metadata.labels, refs)
        metadata = msgspec.structs.replace(record.metadata, labels=work.metadata.labels)
        wanted = msgspec.structs.replace(record, spec=spec, metadata=metadata)
        return await self._write(record, with_finalizer(wanted, APPLIED_FINALIZER))

    async def _create(
        self, spec: AppliedManifestWorkSpec, labels: Mapping[str, str], refs: Iterable[ObjectRef]
    ) -> AppliedManifestWork:
        name = self.name_for(spec.manifest_work_name)
        document = {
            "apiVersion": APPLIED_WORKS.api_version,
            "kind": APPLIED_WORKS.kind,
            "metadata": {"name": name, "labels": dict(labels), "annotations": _intent(refs), "finalizers": [APPLIED_FINALIZER]},
            "spec": {"hubHash": spec.hub_hash, "agentID": spec.agent_id, "manifestWorkName": spec.manifest_work_name},
        }
        with self._echoes.writing(name) as wrote:
            try:
                answer = await self._client.create(APPLIED_WORKS, document)
            except AlreadyExists:
                # Our watch is late.
                answer = await self._client.get(APPLIED_WORKS, name)
            except Unreachable:
                self._doubtful.add(name)
                raise
            wrote(answer["metadata"]["resourceVersion"])
            self._latest.record_write(answer)
        return AppliedManifestWork.decode(answer)

    async def track(self, record: AppliedManifestWork, entries: Iterable[AppliedResource]) -> AppliedManifestWork:
        """Make `entries` the applied resources."""
        status = msgspec.structs.replace(record.status, applied_resources=in_order(entries))
        return await self.report(record, status)

    async def report(self, record: AppliedManifestWork, status: AppliedManifestWorkStatus) -> AppliedManifestWork:
        return await self._write(record, msgspec.structs.replace(record, status=status), status=True)

    async def delete(self, record: AppliedManifestWork) -> None:
        """Of the very record that was read; its objects go before it does."""
        metadata = record.metadata
        with self._echoes.writing(metadata.name):
            try:
                answer = await self._client.delete(APPLIED_WORKS, metadata.name, uid=metadata.uid, propagation="Background")
            except NotFound:
                answer = {"kind": "Status"}
            self._latest.record_delete(ObjectKey("", metadata.name), metadata.uid, answer)

    async def release(self, record: AppliedManifestWork) -> None:
        """Take our finalizer away: nothing of what it records is left."""
        await self._write(record, without_finalizer(record, APPLIED_FINALIZER))

    async def _write(
        self, record: AppliedManifestWork, wanted: AppliedManifestWork, *, status: bool = False
    ) -> AppliedManifestWork:
        with self._echoes.writing(record.metadata.name) as wrote:
            answer = await patch_object(self._client, record, wanted, status=status)
            if answer is None:
                return record
            wrote(answer["metadata"]["resourceVersion"])
            self._latest.record_write(answer)
        return AppliedManifestWork.decode(answer)

    def _seen(self, old: AppliedManifestWork | None, new: AppliedManifestWork | None) -> None:
        if new is not None:
            self._echoes.came(new.metadata.name, new.metadata.resource_version)
        elif old is not None:
            self._latest.confirm_delete(ObjectKey("", old.metadata.name), old.metadata.uid)
            self._echoes.went(old.metadata.name)
