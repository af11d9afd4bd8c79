"""Deletion of objects that a work no longer contains, in the reverse order of applying.

An object belongs to a work if it has the work's record, by uid, among its owner references; without that reference it is left
alone, whatever was recorded. If other records own it too, only our reference is removed. Deletes carry uid and resourceVersion as
preconditions, so an object that was recreated or adopted by another work in between stays: a manifest may move between works. Each
rank waits for the previous one to be gone, with its finalizers and pods.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

import orjson

from muster.api.work.v1 import GROUP, AppliedResource
from muster.machinery.objects import GVR, Object, ObjectRef
from muster.runtime.cache import Presence
from muster.runtime.client import Conflict, KubeClient, KubeError, NotFound
from muster.work.agent.apply_plan import rank_of
from muster.work.agent.interfaces import ManifestOwner, Observer
from muster.work.kinds import APPLIED_WORKS

ATTEMPTS: Final = 4
"""How often an object is read again after a conflict with another writer."""
Locate = Callable[[str, str, str], Awaitable[GVR | None]]
"""Where objects of a group, version and plural are served; None: nowhere."""


@dataclass(frozen=True)
class Pending:
    """An object that is still there, and what keeps it, if that is an error."""

    entry: AppliedResource
    problem: str = ""

    def __str__(self) -> str:
        entry = self.entry
        kind = f"{entry.resource}.{entry.group}" if entry.group else entry.resource
        key = f"{entry.namespace}/{entry.name}" if entry.namespace else entry.name
        return f"{kind} {key} ({self.problem})" if self.problem else f"{kind} {key}"


@dataclass(frozen=True)
class Removal:
    """What came of it; entries that are neither `gone` nor `pending` wait for their rank's turn."""

    gone: tuple[AppliedResource, ...]
    pending: tuple[Pending, ...]

    @property
    def failed(self) -> bool:
        return any(one.problem for one in self.pending)


def owned_by(document: Object, owner: ManifestOwner) -> bool:
    return any(reference.get("uid") == owner.uid for reference in _owners(document))


def _owners(document: Object) -> list[Any]:
    return list(document["metadata"].get("ownerReferences") or ())


def _is_record(reference: Any) -> bool:
    return reference.get("kind") == APPLIED_WORKS.kind and str(reference.get("apiVersion", "")).partition("/")[0] == GROUP


class Remover:
    def __init__(self, client: KubeClient, observer: Observer, locate: Locate, *, writers: int = 8) -> None:
        self._client = client
        self._observer = observer
        self._locate = locate
        self._writers = writers

    async def ref(self, entry: AppliedResource) -> ObjectRef:
        """As manifests of the same kind have it, so that one watch serves both."""
        try:
            resource = await self._locate(entry.group, entry.version, entry.resource)
        except KubeError:
            resource = None
        if resource is None:
            api_version = f"{entry.group}/{entry.version}" if entry.group else entry.version
            resource = GVR(api_version, entry.resource, "", namespaced=bool(entry.namespace))
        return ObjectRef(resource, entry.namespace if resource.namespaced else "", entry.name)

    async def remove(self, entries: Iterable[AppliedResource], owner: ManifestOwner) -> Removal:
        """One round; the caller repeats it while something is pending."""
        ranks: dict[int, list[AppliedResource]] = {}
        for entry in entries:
            ranks.setdefault(rank_of(entry.resource), []).append(entry)
        gone: list[AppliedResource] = []
        pending: list[Pending] = []
        turn = asyncio.Semaphore(self._writers)
        for rank in sorted(ranks, reverse=True):
            results = await asyncio.gather(*(self._guarded(entry, owner, turn) for entry in ranks[rank]))
            gone += [entry for entry, left in zip(ranks[rank], results, strict=True) if left is None]
            pending += [left for left in results if left is not None]
            if pending:
                break
        return Removal(tuple(gone), tuple(pending))

    async def live(self, ref: ObjectRef, *, read_live: bool = False) -> Object | None:
        """The object as it is: from the caches, or from the cluster if they do not know it or with `read_live`."""
        observed = self._observer.get(ref)
        if not read_live and observed.presence is not Presence.UNKNOWN:
            return orjson.loads(observed.raw) if observed.presence is Presence.PRESENT else None
        try:
            found = await self._client.get(ref.resource, ref.name, ref.namespace)
        except NotFound:
            self._observer.record_write(ref, None)
            return None
        self._observer.record_write(ref, found)
        return found

    async def _guarded(self, entry: AppliedResource, owner: ManifestOwner, turn: asyncio.Semaphore) -> Pending | None:
        async with turn:
            try:
                return await self._remove(entry, await self.ref(entry), owner)
            except KubeError as error:
                return Pending(entry, str(error))

    async def _remove(self, entry: AppliedResource, ref: ObjectRef, owner: ManifestOwner) -> Pending | None:
        for attempt in range(ATTEMPTS):
            document = await self.live(ref, read_live=attempt > 0)
            if document is None or not owned_by(document, owner):
                return None
            if any(_is_record(one) and one.get("uid") != owner.uid for one in _owners(document)):
                step = self._disown(ref, document, owner)
            elif document["metadata"].get("deletionTimestamp"):
                return Pending(entry)
            else:
                step = self._delete(ref, document)
            try:
                return None if await step else Pending(entry)
            except NotFound:
                self._observer.record_write(ref, None)
                return None
            except Conflict:
                continue
        return Pending(entry, "it keeps changing")

    async def let_go(self, ref: ObjectRef, owner: ManifestOwner) -> None:
        """Take our mark from an object that is to stay. Raises KubeError where it may still bear it."""
        for attempt in range(ATTEMPTS):
            document = await self.live(ref, read_live=attempt > 0)
            if document is None or not owned_by(document, owner):
                return
            try:
                await self._disown(ref, document, owner)
            except NotFound:
                return
            except Conflict:
                if attempt + 1 == ATTEMPTS:
                    raise

    async def _disown(self, ref: ObjectRef, document: Object, owner: ManifestOwner) -> bool:
        metadata = document["metadata"]
        others = [reference for reference in _owners(document) if reference.get("uid") != owner.uid]
        patch = {"metadata": {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"], "ownerReferences": others}}
        answer = await self._client.patch(ref.resource, ref.name, patch, ref.namespace)
        self._observer.record_write(ref, answer)
        return True

    async def _delete(self, ref: ObjectRef, document: Object) -> bool:
        """Whether it is gone at once."""
        seen = document["metadata"]
        answer = await self._client.delete(
            ref.resource,
            ref.name,
            ref.namespace,
            uid=seen["uid"],
            resource_version=seen["resourceVersion"],
            propagation="Background",
        )
        metadata = answer.get("metadata") or {}
        if answer.get("kind") != "Status" and (metadata.get("deletionTimestamp") or metadata.get("finalizers")):
            self._observer.record_write(ref, answer)
            return False
        self._observer.record_write(ref, None)
        return True
