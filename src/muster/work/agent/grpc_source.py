"""Works over gRPC: the hub sends specs, the agent sends statuses, and nothing else of a work can be written.

This is not a `KubeWorkSource` over the transport's client, because the hub sends neither statuses with changes nor
resourceVersions, and an agent cannot patch metadata. So the last reported status is kept here, and the two metadata writes that an
agent needs are expressed by a status, as OCM does:

- `hold`: the hub adds the agent's finalizer when it receives the first status of the work, before it stores that. Its OK is the
  confirmation, for the reported generation; later events of the work show whether the finalizer is there. So nothing is applied
  that could remain when the work is deleted.
- `release`: the hub removes the finalizer when the status has `Deleted`. From then on the work is forgotten, and late messages do
  not bring it back (`mirror.Mirror.forget`): a deleted work is never applied again.

A report has the generation that it is about and an increasing sequence number, so that an older one never replaces a newer one. A
report without changes is not sent.

Only the hub has the statuses that were reported before the agent started, and a completed work must not be applied again though all
its objects are gone. So the first resync brings each work's status with its sequence number, from which this process continues.
Upstream's servers do not implement this, and receive all statuses anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import msgspec

from muster.api import MalformedObject
from muster.api.meta import Condition, with_condition
from muster.api.work.v1 import ManifestWork, ManifestWorkStatus
from muster.machinery.clock import SYSTEM, Clock
from muster.machinery.golang.timestamps import format_time
from muster.machinery.logs import get_logger
from muster.machinery.objects import Object, ObjectKey
from muster.runtime.client import Conflict, NotFound
from muster.runtime.controller import with_finalizer
from muster.transport.client.client import TransportClient
from muster.transport.client.mirror import Entry, Mirror
from muster.transport.client.subscriptions import Subscription
from muster.transport.codecs.sequence import REPORTED, Sequence, reported_sequence
from muster.transport.codecs.works import CLEANED_UP, encode_status
from muster.transport.contract.rows import WORKS
from muster.work.agent.source import hash_of
from muster.work.names import WORK_FINALIZER

log = get_logger("muster.work.agent")

CLEANED_UP_REASON: Final = "ManifestsDeleted"


class GrpcWorkSource:
    """`url` is the hub's address as the agent's configuration has it; without one, the client's."""

    def __init__(self, client: TransportClient, cluster: str, *, url: str = "", clock: Clock = SYSTEM) -> None:
        self._client = client
        self._cluster = cluster
        self._hub_hash = hash_of(url or client.server)
        self._clock = clock
        self._sequence = Sequence(clock)
        self._statuses: dict[str, ManifestWorkStatus] = {}
        """By uid: the status that was last reported to the hub, by this process or an earlier one."""
        self._decoded: dict[str, tuple[Entry, ManifestWork]] = {}
        """By name: what was last read, and what it was read from."""
        self._recording = False

    @property
    def hub_hash(self) -> str:
        return self._hub_hash

    @property
    def _subscription(self) -> Subscription:
        return self._client.subscription(WORKS)

    @property
    def _mirror(self) -> Mirror:
        return self._subscription.mirror

    @property
    def synced(self) -> bool:
        return self._subscription.synced

    async def until_synced(self) -> None:
        news = asyncio.Event()
        ignore = self._subscription.on_news(news.set)
        try:
            while not self.synced:
                await news.wait()
                news.clear()
        finally:
            ignore()

    def get(self, name: str) -> ManifestWork | None:
        entry = self._mirror.get(ObjectKey(self._cluster, name))
        if entry is None:
            self._decoded.pop(name, None)
            return None
        work = self._read(name, entry)
        status = self._reported_status(entry)
        return work if work is None or status is None else msgspec.structs.replace(work, status=status)

    def _reported_status(self, entry: Entry) -> ManifestWorkStatus | None:
        """None if no status is known to have been reported."""
        sent = self._mirror.take_status(entry.uid)
        if sent and entry.uid not in self._statuses:
            try:
                status = ManifestWork.decode(b'{"status":%s}' % sent.encode()).status
                self._statuses[entry.uid] = self._without_sequence(status)
            except MalformedObject as error:
                log.warning("cannot read the status that the hub has; reporting anew", work=entry.key.name, error=str(error))
        return self._statuses.get(entry.uid)

    def _without_sequence(self, status: ManifestWorkStatus) -> ManifestWorkStatus:
        """The status as it was reported. By what number that was, counts for those that follow."""
        for noted in status.conditions:
            if noted.type == REPORTED:
                self._sequence.go_on_from(reported_sequence(noted.reason))
        return msgspec.structs.replace(
            status, conditions=tuple(condition for condition in status.conditions if condition.type != REPORTED)
        )

    def _read(self, name: str, entry: Entry) -> ManifestWork | None:
        """One that cannot be read leaves its last good version, so that nothing is taken for gone."""
        known = self._decoded.get(name)
        if known is not None and known[0] is entry:
            return known[1]
        try:
            work = ManifestWork.decode(entry.raw)
        except MalformedObject as error:
            log.error("cannot read a work; keeping its last good version", work=name, error=str(error))
            if known is None:
                return None
            work = known[1]
        self._decoded[name] = (entry, work)
        return work

    def has(self, name: str) -> bool:
        return self._mirror.has(ObjectKey(self._cluster, name))

    def names(self) -> list[str]:
        return [entry.key.name for entry in self._mirror]

    def on_change(self, handler: Callable[[str], None]) -> None:
        def changed(old: Entry | None, new: Entry | None) -> None:
            if new is None and old is not None:
                self._statuses.pop(old.uid, None)
            entry = new or old
            if entry is not None and not self._recording:
                handler(entry.key.name)

        self._mirror.on_change(changed)
        for name in self.names():
            handler(name)

    async def hold(self, work: ManifestWork) -> ManifestWork:
        entry = self._entry(work)
        await self._publish(entry, work, work.status)
        recorded = self._recorded(work, _held)
        if recorded is None:
            # It went or changed while we asked, and what the hub answered was about another generation.
            raise Conflict(409, "Conflict", f"the work {work.metadata.name} has changed")
        return with_finalizer(work, WORK_FINALIZER)

    async def release(self, work: ManifestWork) -> None:
        entry = self._mirror.by_uid(work.metadata.uid)
        if entry is None:
            return
        now = format_time(self._clock.now())
        deleted = Condition(
            type=CLEANED_UP,
            status="True",
            reason=CLEANED_UP_REASON,
            message=f"The manifests are deleted from cluster {self._cluster}",
        )
        status = msgspec.structs.replace(work.status, conditions=with_condition(work.status.conditions, deleted, now))
        await self._publish(entry, work, status)
        self._statuses.pop(entry.uid, None)
        self._mirror.forget(entry.uid)

    async def report(self, work: ManifestWork, status: ManifestWorkStatus) -> ManifestWork:
        entry = self._mirror.by_uid(work.metadata.uid)
        if entry is None:
            return work
        if entry.version != work.metadata.generation:
            raise Conflict(409, "Conflict", f"the work {work.metadata.name} has changed")
        if self._statuses.get(entry.uid) != status:
            await self._publish(entry, work, status)
            if self._mirror.by_uid(entry.uid) is not None:
                self._statuses[entry.uid] = status
        return msgspec.structs.replace(work, status=status)

    async def run(self) -> None:
        """The client follows the hub; this is only to be there as long as the source is."""
        _ = self._subscription
        await asyncio.Event().wait()

    def _entry(self, work: ManifestWork) -> Entry:
        entry = self._mirror.by_uid(work.metadata.uid)
        if entry is None:
            raise NotFound(404, "NotFound", f"the work {work.metadata.name} is gone")
        return entry

    async def _publish(self, entry: Entry, work: ManifestWork, status: ManifestWorkStatus) -> None:
        metadata: Object = _held(entry.document)["metadata"]
        del metadata["resourceVersion"]
        metadata["generation"] = work.metadata.generation
        event = encode_status(metadata, status, source=self._client.source, sequence=self._sequence.next(), now=self._clock.now())
        await self._client.connection.publish(event, WORKS.resource, work.metadata.name)

    def _recorded(self, work: ManifestWork, change: Callable[[Object], Object]) -> Entry | None:
        """Note what the hub has agreed to; None if the work is another by now."""
        self._recording = True
        try:
            recorded = self._mirror.record(work.metadata.uid, work.metadata.generation, change)
        finally:
            self._recording = False
        return recorded if recorded is not None and recorded.version == work.metadata.generation else None


def _held(document: Object) -> Object:
    """The work with our finalizer on it."""
    metadata = document["metadata"]
    finalizers = metadata.get("finalizers") or []
    if WORK_FINALIZER not in finalizers:
        finalizers = [*finalizers, WORK_FINALIZER]
    return {**document, "metadata": {**metadata, "finalizers": finalizers}}
