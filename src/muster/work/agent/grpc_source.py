"""Works as a hub sends them over gRPC: specs come, statuses go, and nothing else of a work can be written.

Why this is no `KubeWorkSource` over the transport's client: the hub sends neither a work's status with its changes nor its
resourceVersion, and an agent cannot patch its metadata. So the status that was last told is kept here, and the two writes of
metadata that an agent needs are said by a status, as OCM does it:

- `hold`: the hub puts the agent's finalizer on a work when it takes the work's first status, before it stores that. Its OK is the
  confirmation, and counts for the generation that was reported: whatever the hub sends of the work later says whether the
  finalizer is there. So nothing is applied that could go unnoticed.
- `release`: the hub takes the finalizer away when the status says `Deleted`. From then on the work is forgotten, and no message
  that is late brings it back (`mirror.Mirror.forget`): a work that is deleted is never applied again.

A report carries the generation that it is about, and a number that grows with every report, so that an older one never takes the
place of a newer. One that says nothing new is not sent.

What was told before the agent was started is known to the hub alone, and a work that had reached its end is not to be applied again
though nothing is left of it. So the first resync brings each work's status, with the number of that report, from which the numbers
of this process go on; upstream's servers do not know of that, and to them all is reported anew.
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
        """By uid: what the hub was last told, by this process or by one before it."""
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
        """None where nothing is known to have been told."""
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
