"""Small words for writing to a store and saying what was seen, shared by the store's tests."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from muster.store import ABSENT, ANY_REVISION, Entry, Event, Store

PODS = "/pods"
Seen = tuple[str, str, int, str | None, str | None]
"""kind, key, revision, value before, value now."""


async def put(store: Store, key: str, value: str, expect: int = ANY_REVISION, cluster: str = "c", resource: str = PODS) -> Entry:
    return await store.commit(cluster, resource, key, lambda revision: value.encode(), expect)


async def create(store: Store, key: str, value: str, cluster: str = "c", resource: str = PODS) -> Entry:
    return await put(store, key, value, ABSENT, cluster, resource)


async def delete(
    store: Store, key: str, expect: int = ANY_REVISION, cluster: str = "c", resource: str = PODS, value: str = "gone"
) -> Entry:
    return await store.commit(cluster, resource, key, lambda revision: value.encode(), expect, delete=True)


def contents(entries: Sequence[Entry]) -> list[tuple[str, str]]:
    return [(entry.key, entry.value.decode()) for entry in entries]


def seen(event: Event) -> Seen:
    kind = "DELETED" if event.deleted else "ADDED" if event.previous is None else "MODIFIED"
    before = event.previous.value.decode() if event.previous is not None else None
    return kind, event.entry.key, event.entry.revision, before, event.entry.value.decode()


class Watcher:
    """Notes everything a subscription brings."""

    def __init__(self, store: Store, cluster: str | None, resource: str | None, from_revision: int | None) -> None:
        self.events: list[Event] = []
        self.lost = False
        self._changed = asyncio.Event()
        self.subscription = store.subscribe(cluster, resource, from_revision, self._heard, self._lost)

    def _heard(self, events: Sequence[Event]) -> None:
        self.events.extend(events)
        self._changed.set()

    def _lost(self) -> None:
        self.lost = True
        self._changed.set()

    @property
    def seen(self) -> list[Seen]:
        return [seen(event) for event in self.events]

    async def until(self, revision: int) -> None:
        """Wait for the first event at or after `revision`, or for the loss of the subscription."""
        async with asyncio.timeout(20):
            while not self.lost and (not self.events or self.events[-1].entry.revision < revision):
                self._changed.clear()
                await self._changed.wait()
