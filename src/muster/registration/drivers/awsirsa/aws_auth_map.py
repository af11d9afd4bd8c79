"""The only writer of ConfigMap kube-system/aws-auth in the hub's controllers: adds and removes entries, many in one update.

The desired entries follow from the records (`records.py`): one for each granted record, none for those that are being revoked.
`put` and `take` add to that and return when the ConfigMap agrees. Callers that arrive during a write are served together by the
next one. Changes that others make to our entries are reverted (`run`). Content that cannot be parsed is never overwritten, because
a bad write locks out nodes and administrators.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from muster.machinery.backoff import Backoff
from muster.machinery.clock import sleep
from muster.machinery.logs import get_logger
from muster.machinery.objects import ObjectKey
from muster.registration.drivers.awsirsa.awsauth import KEY, NAME, NAMESPACE, Mapped, Unreadable, edited
from muster.registration.drivers.awsirsa.records import Mapping, Phase, Record, Records
from muster.registration.names import cluster_group, external_group
from muster.runtime.cache import MutationCache, Snapshot
from muster.runtime.client import Conflict, KubeError, NotFound
from muster.runtime.client.builtin import CONFIG_MAPS

if TYPE_CHECKING:
    from muster.runtime.cache import Informer
    from muster.runtime.controller import ControllerContext

log = get_logger("muster.registration.drivers.awsirsa")

MOST_CONFLICTS: Final = 8
_KEY: Final = ObjectKey(NAMESPACE, NAME)


class MapProblem(Exception):
    """A problem of the ConfigMap that an administrator has to correct."""


class AwsAuthMap:
    def __init__(self, context: ControllerContext, records: Records) -> None:
        self._context = context
        self._client = context.client
        self._records = records
        self._informer: Informer[Snapshot] = context.informers.of(CONFIG_MAPS, NAMESPACE, field_selector=f"metadata.name={NAME}")
        self._cache = MutationCache(self._informer, clock=context.clock)
        self._coming: dict[str, Record] = {}
        """By role: records that are being granted and whose role exists."""
        self._writing = asyncio.Lock()
        self._news = asyncio.Event()
        self._informer.on_change(lambda old, new: self._news.set())

    async def put(self, record: Record) -> None:
        """Wait until the entry is written. Raises MapProblem and KubeError."""
        self._coming[record.role] = record
        await self._write()

    async def take(self, record: Record) -> None:
        """Wait until the entry is removed. Raises MapProblem and KubeError."""
        self._coming.pop(record.role, None)
        await self._write(leaving=record.role_arn)

    def settled(self, record: Record) -> None:
        """From now on the stored records alone decide whether this entry is desired."""
        self._coming.pop(record.role, None)

    async def run(self) -> None:
        """Revert changes that other clients make to our entries."""
        backoff = Backoff(1.0, 300.0, random=self._context.random)
        await self._informer.synced()
        while True:
            await self._news.wait()
            self._news.clear()
            try:
                await self._write()
                backoff.reset()
            except (MapProblem, KubeError) as error:
                log.warning("aws-auth cannot be kept", error=str(error))
                self._news.set()
                await sleep(self._context.clock, backoff.next())

    async def _write(self, leaving: str = "") -> None:
        async with self._writing:
            for _ in range(MOST_CONFLICTS):
                try:
                    await self._write_once(leaving)
                    return
                except Conflict:
                    self._cache.record_write(await self._client.get(CONFIG_MAPS, NAME, NAMESPACE))
            raise MapProblem(f"ConfigMap {NAMESPACE}/{NAME} is being changed by others all the time")

    async def _write_once(self, leaving: str) -> None:
        wanted, unwanted = self._entries()
        snapshot = self._cache.snapshot(_KEY)
        if snapshot is None:
            if not wanted:
                return
            snapshot = await self._fetched()
        document = snapshot.decode()
        text = str((document.get("data") or {}).get(KEY) or "")
        try:
            after = edited(text, wanted, [*unwanted, *([leaving] if leaving else [])])
        except Unreadable as error:
            raise MapProblem(f"ConfigMap {NAMESPACE}/{NAME}: {error}; it is left unchanged until it is corrected") from None
        if after == text:
            return
        document["data"] = {**(document.get("data") or {}), KEY: after}
        self._cache.record_write(await self._client.update(CONFIG_MAPS, document))
        log.info("aws-auth updated", entries=len(wanted))

    async def _fetched(self) -> Snapshot:
        """Read the ConfigMap from the server: it may exist and not be in the cache yet."""
        try:
            self._cache.record_write(await self._client.get(CONFIG_MAPS, NAME, NAMESPACE))
        except NotFound:
            raise MapProblem(
                f"ConfigMap {NAMESPACE}/{NAME} is missing: clusteradm init makes it, or kubectl create configmap"
            ) from None
        snapshot = self._cache.snapshot(_KEY)
        assert snapshot is not None, "it was written down a moment ago"
        return snapshot

    def _entries(self) -> tuple[list[Mapped], list[str]]:
        """The desired entries, and the roles whose entries are to be removed."""
        recorded = [record for record in self._records.all() if record.mapping is Mapping.AWS_AUTH]
        granted = {record.role: record for record in recorded if record.phase is Phase.GRANTED} | self._coming
        leaving = [one.role_arn for one in recorded if one.phase in (Phase.REVOKING, Phase.LEFT) and one.role not in granted]
        return [mapped(record) for _, record in sorted(granted.items())], leaving


def mapped(record: Record) -> Mapped:
    return Mapped(record.role_arn, user_of(record.cluster), (cluster_group(record.cluster),))


def user_of(cluster: str) -> str:
    """The user name of a cluster's agents on the hub, the same for both kinds of mapping."""
    return external_group(cluster)
