"""Objects read by name or label selector, and the watch that keeps them current.

A selection is known once it was listed *and* the server has accepted the watch that continues from there: a client that may list
but not watch gets the refusal, not a state that becomes stale. A known state remains while the server is unreachable. It is dropped
when the server refuses it (forbidden, unauthorized, no such kind, no watches); the refusal holds until the server answers
otherwise, and the watch is retried with increasing pauses.

Invariant: `objects` are as the server showed them to this client, and the server has not refused them since.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, cast

import msgspec
import orjson

from muster.machinery.clock import Clock, Random
from muster.machinery.logs import get_logger
from muster.machinery.objects import GVR, Object, ObjectKey
from muster.runtime.cache.observed import head
from muster.runtime.cache.reflector import Reflector, is_outdated
from muster.runtime.client.base import KubeClient
from muster.runtime.client.errors import Forbidden, KubeError, NotFound, StatusError, Unauthorized

log = get_logger("muster.runtime.cache.selections")

RETRY_INTERVAL: Final = 1.0
"""Seconds after a failed attempt before a reader starts the next one."""
LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"


@dataclass(frozen=True, slots=True)
class Selection:
    """One object by name, or the objects of a kind that match a label selector, in one namespace or in all."""

    resource: GVR
    namespace: str = ""
    """Ignored for kinds without namespaces."""
    name: str = ""
    label_selector: str = ""

    def __post_init__(self) -> None:
        if self.namespace and not self.resource.namespaced:
            object.__setattr__(self, "namespace", "")


class SelectionWatch(Reflector):
    """Keeps the objects of one selection. `changed` is called when the value of `outcome` changes."""

    def __init__(
        self, client: KubeClient, selection: Selection, changed: Callable[[Selection], None], clock: Clock, random: Random
    ) -> None:
        # A list comes first: a refusal then names the missing verb, and aggregated servers that do not support WatchList, and do
        # not report that, work too.
        super().__init__(
            client,
            selection.resource,
            selection.namespace,
            label_selector=selection.label_selector,
            field_selector=f"metadata.name={selection.name}" if selection.name else "",
            watch_list=False,
            clock=clock,
            random=random,
        )
        self.selection = selection
        self._changed = changed
        self._objects: dict[ObjectKey, Object] = {}
        self._ordered: tuple[Object, ...] | None = None
        self._known = False
        self._error: KubeError | None = None
        self._failed_at = float("-inf")
        self._attempted = asyncio.Event()
        """Set when the attempt that readers wait for has ended, with or without success."""

    @property
    def known(self) -> bool:
        return self._known

    @property
    def error(self) -> KubeError | None:
        """Why the state is unknown: the last refusal of the server, or that there is no answer."""
        return self._error

    @property
    def objects(self) -> tuple[Object, ...]:
        """Ordered by namespace and name; shared by all who read."""
        if self._ordered is None:
            self._ordered = tuple(self._objects[key] for key in sorted(self._objects))
        return self._ordered

    def loggable(self, error: KubeError) -> str:
        """Names and selectors may contain what templates have read from Secrets, and the server repeats them: the reader of the
        selection gets the text, and decides what may be shown."""
        return type(error).__name__

    @property
    def where(self) -> dict[str, str]:
        return {"resource": str(self.resource), "server": self.client.server}

    async def attempt(self) -> None:
        """Wait until the state is known, or until a recent attempt has failed."""
        if self._error is not None and self._clock.monotonic() - self._failed_at >= RETRY_INTERVAL:
            self._attempted.clear()
            self.end_pause()
        await self._attempted.wait()

    def take(self, raw: bytes, found: set[ObjectKey] | None) -> None:
        metadata = self._glance(raw)
        if metadata is None:
            return
        key, version = metadata
        if found is not None:
            found.add(key)
        else:
            self.resource_version = version
        old = self._objects.get(key)
        if old is None or old["metadata"].get("resourceVersion") != version:
            self._objects[key] = trimmed_document(cast(Object, orjson.loads(raw)), self.resource)
            self._differs()

    def drop(self, raw: bytes, found: set[ObjectKey] | None) -> None:
        metadata = self._glance(raw)
        if metadata is None:
            return
        key, version = metadata
        if found is not None:
            found.discard(key)
        else:
            self.resource_version = version
        if self._objects.pop(key, None) is not None:
            self._differs()

    def complete(self, found: set[ObjectKey], version: str) -> None:
        gone = self._objects.keys() - found
        for key in gone:
            del self._objects[key]
        if gone:
            self._differs()

    def accepted(self) -> None:
        if not self._known:
            self._known = True
            self._error = None
            self._changed(self.selection)
        self._attempted.set()

    def should_retry(self, error: KubeError) -> bool:
        if is_outdated(error):
            return True
        self._failed_at = self._clock.monotonic()
        if is_refusal(error):
            self._refuse(error)
        elif not self._known and not is_refusal(self._error):
            self._error = error
        self._attempted.set()
        return True

    def _refuse(self, error: KubeError) -> None:
        self.resource_version = ""
        same = not self._known and self._error is not None and str(self._error) == str(error)
        self._known, self._error = False, error
        self._objects.clear()
        self._ordered = None
        if not same:
            self._changed(self.selection)

    def _differs(self) -> None:
        self._ordered = None
        if self._known:
            self._changed(self.selection)

    def _glance(self, raw: bytes) -> tuple[ObjectKey, str] | None:
        try:
            metadata = head(raw)
        except msgspec.DecodeError as error:
            log.error("cannot read object", resource=str(self.resource), error=str(error))
            return None
        return ObjectKey(metadata.namespace, metadata.name), metadata.resourceVersion


def is_refusal(error: KubeError | None) -> bool:
    """Whether the server has refused the selection, as opposed to not answering."""
    if isinstance(error, Forbidden | Unauthorized | NotFound):
        return True
    return isinstance(error, StatusError) and error.code == 405


def trimmed_document(document: Object, resource: GVR) -> Object:
    """A decoded document, without the fields that only writers need."""
    metadata = document["metadata"]
    metadata.pop("managedFields", None)
    (metadata.get("annotations") or {}).pop(LAST_APPLIED, None)
    # Items of built-in lists come without their type.
    return {"apiVersion": resource.api_version, "kind": resource.kind, **document}
