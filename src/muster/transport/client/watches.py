"""Lists and watches of a mirror: selection of objects, and events for slow readers.

A reader has no queue of events: its last reported state is compared with the mirror, for the objects that changed since. So it may
skip versions, but never the last, and a slow reader costs no more than the mirror itself.

A broken stream does not end a watch at once: most recover a moment later, with what was missed. Only an outage longer than
`OUTAGE_GRACE` ends it, and a refusal at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Any, Final, TypeVar

import orjson

from muster.kube.selectors import SelectorError, parse_field_selector, parse_label_selector
from muster.machinery.clock import Clock, pause
from muster.machinery.objects import GVR, ObjectKey
from muster.runtime.client import BadRequest, Kind, WatchEvent
from muster.transport.client.connection import is_refusal
from muster.transport.client.mirror import Entry
from muster.transport.client.subscriptions import Subscription

T = TypeVar("T")

OUTAGE_GRACE: Final = 10.0
_FIELDS: Final = ("metadata.name", "metadata.namespace")
_INITIAL_END: Final = "k8s.io/initial-events-end"

Selected = Callable[[Entry], bool]


def selection(namespace: str, label_selector: str, field_selector: str) -> Selected:
    """Raises BadRequest."""
    try:
        labels, fields = parse_label_selector(label_selector), parse_field_selector(field_selector)
    except SelectorError as error:
        raise BadRequest(400, "BadRequest", str(error)) from None
    unknown = next((term.path for term in fields if term.path not in _FIELDS), "")
    if unknown:
        raise BadRequest(400, "BadRequest", f"field selector {unknown!r}: this hub supports {' and '.join(_FIELDS)} only")

    def selected(entry: Entry) -> bool:
        if namespace and entry.key.namespace != namespace:
            return False
        for term in fields:
            value = entry.key.name if term.path == "metadata.name" else entry.key.namespace
            if (value == term.value) is (term.operator == "!="):
                return False
        if labels.everything:
            return True
        found = entry.document["metadata"].get("labels")
        return labels.matches(found if isinstance(found, dict) else {})

    return selected


class MirrorWatch:
    """The state that was reported to one reader."""

    def __init__(self, subscription: Subscription, selected: Selected, clock: Clock) -> None:
        self._subscription = subscription
        self._mirror = subscription.mirror
        self._selected = selected
        self._clock = clock
        self._sent: dict[ObjectKey, Entry] = {}
        self._changed: dict[ObjectKey, None] = {}
        self._news = asyncio.Event()

    async def events(self, kind: Kind[T], resource: GVR, initial: bool) -> AsyncGenerator[WatchEvent[T], None]:
        ignore = self._mirror.on_change(self._note)
        try:
            for entry in self._mirror:
                if self._selected(entry):
                    self._sent[entry.key] = entry
                    if initial:
                        yield WatchEvent("ADDED", entry.raw, kind)
            if initial:
                yield WatchEvent("BOOKMARK", bookmark(resource, collection_version(self._mirror.revision), end=True), kind)
            while True:
                while self._changed:
                    key = next(iter(self._changed))
                    del self._changed[key]
                    for event in self._differences(key, kind):
                        yield event
                await self._wait()
        finally:
            ignore()

    def _note(self, old: Entry | None, new: Entry | None) -> None:
        entry = new or old
        assert entry is not None, "one of them is there"
        self._changed[entry.key] = None
        self._news.set()

    def _differences(self, key: ObjectKey, kind: Kind[T]) -> list[WatchEvent[T]]:
        sent, now = self._sent.get(key), self._mirror.get(key)
        if now is not None and not self._selected(now):
            now = None
        if sent == now:
            return []
        events: list[WatchEvent[T]] = []
        if sent is not None and (now is None or now.uid != sent.uid):
            del self._sent[key]
            events.append(WatchEvent("DELETED", sent.raw, kind))
        if now is not None:
            events.append(WatchEvent("MODIFIED" if key in self._sent else "ADDED", now.raw, kind))
            self._sent[key] = now
        return events

    async def _wait(self) -> None:
        """Wait for a change. Raises KubeError if the subscription has failed."""
        subscription = self._subscription
        while not self._changed:
            left = None
            if subscription.lost_at is not None:
                problem = subscription.problem
                left = subscription.lost_at + OUTAGE_GRACE - self._clock.monotonic()
                if problem is not None and (left <= 0 or is_refusal(problem)):
                    raise problem
            forget = subscription.on_news(self._news.set)
            try:
                await pause(self._clock, self._news, left)
            finally:
                forget()


def collection_version(revision: int) -> str:
    """The resourceVersion of a list: distinct from those of objects, which are the hub's."""
    return f"mirror-{revision}"


def bookmark(resource: GVR, version: str, *, end: bool) -> bytes:
    metadata: dict[str, Any] = {"resourceVersion": version}
    if end:
        metadata["annotations"] = {_INITIAL_END: "true"}
    return orjson.dumps({"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata})
