"""The followed objects of one resource, and the watch that tells of them.

Objects are kept by namespace. A `Watch` covers one namespace or all; of what it delivers only followed objects are looked at
closely, the others are dropped after a glance at their metadata. One exception: what belongs to an AppliedManifestWork is kept
for a while even before a work asks for it, so that an agent that starts again finds out about all its objects from the list.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Set

import msgspec

from muster.machinery.clock import Clock, Timer
from muster.machinery.logs import get_logger
from muster.machinery.objects import GVR, ObjectKey
from muster.runtime.cache.reflector import Reflector
from muster.runtime.client.base import KubeClient
from muster.runtime.client.errors import Expired, Forbidden, KubeError, NotFound, StatusError
from muster.work.agent.observing.sighting import Metadata, Sighting, head, older, trimmed
from muster.work.agent.seam import Presence
from muster.work.kinds import APPLIED_WORKS

log = get_logger("muster.work.observing")

PATIENCE = 60.0
"""Seconds after taking in a state for which objects of works that have not asked for them are kept."""
ALL = ""
"""The namespace of a watch that covers all of them."""


class Place:
    """A namespace with followed objects; cluster-scoped kinds have one place without a name."""

    __slots__ = ("followed", "ready", "sightings")

    def __init__(self) -> None:
        self.sightings: dict[str, Sighting] = {}
        self.followed = 0
        """How many of the sightings some work is about."""
        self.ready = asyncio.Event()
        """As much is known as can be known."""


class Collection:
    """What is known of one resource."""

    def __init__(self, resource: GVR, tell: Callable[[Sighting], None]) -> None:
        self.resource = resource
        self.places: dict[str, Place] = {}
        self.tell = tell

    def find(self, namespace: str, name: str) -> Sighting | None:
        place = self.places.get(namespace)
        return None if place is None else place.sightings.get(name)

    def join(self, work: str, namespace: str, name: str) -> None:
        place = self.place(namespace)
        sighting = place.sightings.get(name)
        if sighting is None:
            sighting = place.sightings[name] = Sighting()
        if not sighting.works:
            place.followed += 1
        sighting.works = (*sighting.works, work)

    def leave(self, work: str, namespace: str, name: str) -> None:
        place = self.places[namespace]
        sighting = place.sightings[name]
        sighting.works = tuple(other for other in sighting.works if other != work)
        if not sighting.works:
            place.followed -= 1
            del place.sightings[name]

    def place(self, namespace: str) -> Place:
        place = self.places.get(namespace)
        if place is None:
            place = self.places[namespace] = Place()
        return place

    @property
    def needed(self) -> set[str]:
        """The namespaces in which something is followed."""
        return {namespace for namespace, place in self.places.items() if place.followed}

    def covered(self, namespace: str) -> Iterator[tuple[str, Place]]:
        """The places that a watch of this namespace tells about."""
        if namespace == ALL:
            yield from list(self.places.items())
        elif namespace in self.places:
            yield namespace, self.places[namespace]

    def forget_unfollowed(self, namespace: str) -> None:
        for covered, place in self.covered(namespace):
            for name in [name for name, sighting in place.sightings.items() if not sighting.works]:
                del place.sightings[name]
            if not place.sightings:
                del self.places[covered]

    def forget_empty(self, namespaces: Set[str]) -> None:
        """Namespaces come and go under a watch over all of them; only these are kept though nothing in them is followed."""
        for namespace in [name for name, place in self.places.items() if not place.sightings and name not in namespaces]:
            del self.places[namespace]


class Watch(Reflector):
    """Keeps a collection's sightings in step with the cluster, in one namespace or in all. `run` ends with the error when the
    cluster refuses to show them."""

    def __init__(self, client: KubeClient, collection: Collection, namespace: str, clock: Clock) -> None:
        super().__init__(client, collection.resource, namespace, clock=clock)
        self._collection = collection
        self._patient = True
        self._timer: Timer | None = None
        self._newest = ""
        """The newest version that was seen."""
        self.unserved = False
        """The kind was not served when it was last asked for."""

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
        sighting = self._collection.find(metadata.namespace, metadata.name)
        if sighting is None:
            if not self._patient or not _applied(metadata):
                return
            sighting = self._collection.place(metadata.namespace).sightings[metadata.name] = Sighting()
        sighting.seen(metadata.uid, metadata.resourceVersion, lambda: trimmed(raw, self.resource))
        if sighting.news:
            self._collection.tell(sighting)

    def drop(self, raw: bytes, found: set[ObjectKey] | None) -> None:
        metadata = self._glance(raw)
        if metadata is None:
            return
        if found is not None:
            found.discard(ObjectKey(metadata.namespace, metadata.name))
        else:
            self.resource_version = self._newest = metadata.resourceVersion
        sighting = self._collection.find(metadata.namespace, metadata.name)
        if sighting is None:
            return
        if not sighting.works:
            del self._collection.places[metadata.namespace].sightings[metadata.name]
            return
        sighting.gone(metadata.uid, metadata.resourceVersion, lambda: trimmed(raw, self.resource))
        if sighting.news:
            self._collection.tell(sighting)

    def complete(self, found: set[ObjectKey], version: str) -> None:
        if older(version, self._newest):
            self._set_back()
        self._newest = version
        self.unserved = False
        for namespace, place in self._collection.covered(self.namespace):
            for name, sighting in place.sightings.items():
                if ObjectKey(namespace, name) not in found:
                    sighting.missing(version)
                elif sighting.presence is Presence.UNKNOWN:
                    # It came by before somebody asked for it, so it was dropped.
                    sighting.unread = True
                if sighting.news:
                    self._collection.tell(sighting)
            place.ready.set()
        self._patient = True
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._clock.call_later(PATIENCE, self._lose_patience)

    def endures(self, error: KubeError) -> bool:
        if isinstance(error, NotFound):
            # The kind is no longer served, and with it went its objects.
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
        """The cluster was restored from a backup: what is known is of a time that never was."""
        for _, place in self._collection.covered(self.namespace):
            for sighting in place.sightings.values():
                sighting.forget()
        self._newest = ""
        raise Expired(410, "Expired", f"{self.resource} were set back to an older state")

    def _lose_patience(self) -> None:
        self._patient = False
        self._collection.forget_unfollowed(self.namespace)


def refused(error: KubeError) -> bool:
    """Whether the cluster will not list or watch this for the agent, however often it is asked."""
    return isinstance(error, Forbidden) or (isinstance(error, StatusError) and error.code == 405)


def _applied(metadata: Metadata) -> bool:
    owners = metadata.ownerReferences
    return owners is not None and any(
        owner.kind == APPLIED_WORKS.kind and owner.apiVersion == APPLIED_WORKS.api_version for owner in owners
    )
