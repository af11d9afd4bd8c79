"""The followed objects of one resource, and the watch that keeps them current.

Objects are kept by namespace. A `CollectionWatch` covers one namespace or all; objects that are not followed are dropped after
their metadata is decoded. One exception: objects for which `prefetch` is true are kept for a while before they are followed, so
that a restarted process gets all its objects from the list.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Set

import msgspec

from muster.machinery.clock import Clock, Timer
from muster.machinery.logs import get_logger
from muster.machinery.objects import GVR, ObjectKey
from muster.runtime.cache.observed import Metadata, ObjectState, Presence, head, older, trimmed
from muster.runtime.cache.reflector import Reflector
from muster.runtime.client.base import KubeClient
from muster.runtime.client.errors import Expired, Forbidden, KubeError, NotFound, StatusError

log = get_logger("muster.runtime.cache.collection")

PREFETCH_SECONDS = 60.0
"""Seconds after a list for which objects are kept that are not followed yet."""
Prefetch = Callable[[Metadata], bool]
"""Whether an object that is not followed will be followed soon."""
ALL = ""
"""The namespace of a watch that covers all namespaces."""


class NamespaceState:
    """A namespace with followed objects; cluster-scoped kinds have a single one, without a name."""

    __slots__ = ("followed", "ready", "states")

    def __init__(self) -> None:
        self.states: dict[str, ObjectState] = {}
        self.followed = 0
        """The number of followed objects."""
        self.ready = asyncio.Event()
        """Set once the state is known, or cannot be known."""


class Collection:
    """The known objects of one resource."""

    def __init__(self, resource: GVR, notify: Callable[[ObjectState], None], prefetch: Prefetch) -> None:
        self.resource = resource
        self.prefetch = prefetch
        self.namespaces: dict[str, NamespaceState] = {}
        self.notify = notify

    def find(self, namespace: str, name: str) -> ObjectState | None:
        local = self.namespaces.get(namespace)
        return None if local is None else local.states.get(name)

    def join(self, follower: str, namespace: str, name: str) -> None:
        local = self.namespace_state(namespace)
        state = local.states.get(name)
        if state is None:
            state = local.states[name] = ObjectState()
        if not state.followers:
            local.followed += 1
        state.followers = (*state.followers, follower)

    def leave(self, follower: str, namespace: str, name: str) -> None:
        local = self.namespaces[namespace]
        state = local.states[name]
        state.followers = tuple(other for other in state.followers if other != follower)
        if not state.followers:
            local.followed -= 1
            del local.states[name]

    def namespace_state(self, namespace: str) -> NamespaceState:
        local = self.namespaces.get(namespace)
        if local is None:
            local = self.namespaces[namespace] = NamespaceState()
        return local

    @property
    def needed(self) -> set[str]:
        """The namespaces with followed objects."""
        return {namespace for namespace, local in self.namespaces.items() if local.followed}

    def covered(self, namespace: str) -> Iterator[tuple[str, NamespaceState]]:
        """The namespaces that a watch of this namespace covers."""
        if namespace == ALL:
            yield from list(self.namespaces.items())
        elif namespace in self.namespaces:
            yield namespace, self.namespaces[namespace]

    def forget_unfollowed(self, namespace: str) -> None:
        for covered, local in self.covered(namespace):
            for name in [name for name, state in local.states.items() if not state.followers]:
                del local.states[name]
            if not local.states:
                del self.namespaces[covered]

    def forget_empty(self, namespaces: Set[str]) -> None:
        """Drop namespaces without followed objects, which a watch over all namespaces adds; only these are kept."""
        for namespace in [name for name, local in self.namespaces.items() if not local.states and name not in namespaces]:
            del self.namespaces[namespace]


class CollectionWatch(Reflector):
    """Keeps a collection current, in one namespace or in all. `run` ends with the error if the cluster refuses the watch."""

    def __init__(self, client: KubeClient, collection: Collection, namespace: str, clock: Clock) -> None:
        super().__init__(client, collection.resource, namespace, clock=clock)
        self._collection = collection
        self._prefetching = True
        self._timer: Timer | None = None
        self._newest = ""
        """The newest resourceVersion that was seen."""
        self.unserved = False
        """The kind was not served at the last attempt."""

    async def run(self) -> None:
        try:
            await super().run()
        finally:
            if self._timer is not None:
                self._timer.cancel()

    def take(self, raw: bytes, found: set[ObjectKey] | None) -> None:
        metadata = self._glance(raw)
        if metadata is None:
            return
        if found is not None:
            found.add(ObjectKey(metadata.namespace, metadata.name))
        else:
            self.resource_version = self._newest = metadata.resourceVersion
        state = self._collection.find(metadata.namespace, metadata.name)
        if state is None:
            if not self._prefetching or not self._collection.prefetch(metadata):
                return
            state = self._collection.namespace_state(metadata.namespace).states[metadata.name] = ObjectState()
        state.seen(metadata.uid, metadata.resourceVersion, lambda: trimmed(raw, self.resource))
        if state.news:
            self._collection.notify(state)

    def drop(self, raw: bytes, found: set[ObjectKey] | None) -> None:
        metadata = self._glance(raw)
        if metadata is None:
            return
        if found is not None:
            found.discard(ObjectKey(metadata.namespace, metadata.name))
        else:
            self.resource_version = self._newest = metadata.resourceVersion
        state = self._collection.find(metadata.namespace, metadata.name)
        if state is None:
            return
        if not state.followers:
            del self._collection.namespaces[metadata.namespace].states[metadata.name]
            return
        state.gone(metadata.uid, metadata.resourceVersion, lambda: trimmed(raw, self.resource))
        if state.news:
            self._collection.notify(state)

    def complete(self, found: set[ObjectKey], version: str) -> None:
        if older(version, self._newest):
            self._set_back()
        self._newest = version
        self.unserved = False
        for namespace, local in self._collection.covered(self.namespace):
            for name, state in local.states.items():
                if ObjectKey(namespace, name) not in found:
                    state.missing(version)
                elif state.presence is Presence.UNKNOWN:
                    # It was listed before it was followed, so it was dropped.
                    state.unread = True
                if state.news:
                    self._collection.notify(state)
            local.ready.set()
        self._prefetching = True
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._clock.call_later(PREFETCH_SECONDS, self._end_prefetch)

    def should_retry(self, error: KubeError) -> bool:
        if isinstance(error, NotFound):
            # The kind is no longer served, so its objects are gone.
            self.complete(set(), "")
            self.unserved = True
            self.resource_version = ""
        return not refused(error)

    def _glance(self, raw: bytes) -> Metadata | None:
        try:
            return head(raw)
        except msgspec.DecodeError as error:
            log.error("cannot read object", resource=str(self.resource), error=str(error))
            return None

    def _set_back(self) -> None:
        """The cluster was restored from a backup: the known state is invalid."""
        for _, local in self._collection.covered(self.namespace):
            for state in local.states.values():
                state.forget()
        self._newest = ""
        raise Expired(410, "Expired", f"{self.resource} were set back to an older state")

    def _end_prefetch(self) -> None:
        self._prefetching = False
        self._collection.forget_unfollowed(self.namespace)


def refused(error: KubeError) -> bool:
    """Whether the cluster will refuse this list or watch every time."""
    return isinstance(error, Forbidden) or (isinstance(error, StatusError) and error.code == 405)
