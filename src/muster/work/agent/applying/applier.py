"""`ClusterApplier` applies one manifest to its object, with as few requests as possible.

An object that is not known to exist is created at once; only if the server answers that it exists, it is read. A known object is
compared with its cached state and written only if it differs, with the resourceVersion that was compared; on a conflict it is read
and compared again. Writes of this process to one object are serialized. If the work has an executor, each write is checked as it
will be sent (`Consent`); owner references are the agent's own.

The strategies are methods of a table; Update's decisions are in `update`, server-side apply is in `serverside`.
"""

from __future__ import annotations

import asyncio
import contextlib
import random as chance
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Final
from weakref import WeakValueDictionary

from muster.machinery.backoff import Backoff
from muster.machinery.clock import SYSTEM, Clock, Random, sleep
from muster.machinery.objects import Object, ObjectRef
from muster.runtime.cache import ObservedObject, Presence
from muster.runtime.client import AlreadyExists, Conflict, Forbidden, Invalid, KubeClient, NotFound, StatusError
from muster.runtime.client.builtin import SECRETS
from muster.work.agent.applying.applied_shapes import AppliedShapes
from muster.work.agent.applying.owners import owners_wanted, reference
from muster.work.agent.applying.permission import explained
from muster.work.agent.applying.serverside import Send, ServerSide
from muster.work.agent.applying.update import creation, merged
from muster.work.agent.interfaces import Applied, ApplyProblem, Consent, Manifest, ManifestOwner, ManifestWrite
from muster.work.agent.writes import seen, send
from muster.work.names import AGENT

ATTEMPTS: Final = 5
"""How often an object is read again after a conflict with another writer."""
_MAYBE_THERE: Final = frozenset((400, 403, 405, 409, 422))
"""Refusals of a create that do not prove that the object is missing: a quota is checked before the name."""


_Attempt = Callable[[Manifest, ManifestOwner, Object | None, bool], Awaitable[Applied]]
_Strategy = Callable[[Send, Manifest, ManifestOwner, Object | None, bool], Awaitable[Applied]]


class _Exists(Exception):
    def __init__(self, live: Object, refusal: StatusError) -> None:
        super().__init__(str(refusal))
        self.live = live
        self.refusal = refusal


class ClusterApplier:
    def __init__(self, client: KubeClient, *, clock: Clock = SYSTEM, random: Random = chance.random) -> None:
        self._client = client
        self._clock = clock
        self._random = random
        self._memory = AppliedShapes()
        self._locks: WeakValueDictionary[ObjectRef, asyncio.Lock] = WeakValueDictionary()
        self._server_side = ServerSide(self._memory)
        self._strategies: Mapping[str, _Strategy] = {
            "Update": self._update,
            "CreateOnly": self._create_only,
            "ServerSideApply": self._apply,
            "ReadOnly": self._read,
        }

    def intended(self, manifest: Manifest, owner: ManifestOwner, live: Object | None) -> ManifestWrite | None:
        strategy = manifest.strategy.type
        if strategy == "ServerSideApply":
            return self._server_side.intended(manifest, owner, live)
        if live is None and strategy in ("Update", "CreateOnly"):
            return ManifestWrite("create", creation(manifest, owner), AGENT)
        if live is None or strategy != "Update":
            return None
        wanted = merged(manifest, live, owner, self._memory.before(manifest, owner))
        return None if wanted is None or self._memory.settled(manifest, owner, live) else ManifestWrite("update", wanted, AGENT)

    async def apply(
        self, manifest: Manifest, owner: ManifestOwner, observed: ObservedObject, consent: Consent | None = None
    ) -> Applied:
        strategy = self._strategies.get(manifest.strategy.type)
        if strategy is None:
            raise ApplyProblem("AppliedManifestFailed", f"update strategy {manifest.strategy.type!r} is not known to this agent")
        lock = self._locks.setdefault(manifest.ref, asyncio.Lock())
        async with lock:
            try:
                return await self._settled(partial(strategy, self._sending(consent)), manifest, owner, observed)
            except Forbidden as error:
                raise await explained(self._client, manifest.ref, error) from error

    async def _settled(
        self,
        strategy: _Attempt,
        manifest: Manifest,
        owner: ManifestOwner,
        observed: ObservedObject,
    ) -> Applied:
        """First with the cached state, then with what is read, until no other client writes in between."""
        live = seen(manifest.ref, observed)
        known = observed.presence is not Presence.UNKNOWN
        backoff = Backoff(0.01, 1.0, random=self._random)
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return await strategy(manifest, owner, live, known)
            except _Exists as found:
                live, known = found.live, True
                if attempt == ATTEMPTS:
                    raise found.refusal from None
                continue
            except AlreadyExists:
                if attempt == ATTEMPTS:
                    raise
            except Conflict:
                if attempt == ATTEMPTS:
                    raise
                await sleep(self._clock, backoff.next())
            except NotFound:
                # What was seen has gone; where nothing was seen there is no place for it (a namespace, a kind).
                if live is None or attempt == ATTEMPTS:
                    raise
            live, known = await self._get(manifest.ref), True
        raise AssertionError("unreachable")

    async def _get(self, ref: ObjectRef) -> Object | None:
        try:
            return await self._client.get(ref.resource, ref.name, ref.namespace)
        except NotFound:
            return None

    def _sending(self, consent: Consent | None) -> Send:
        async def sent(manifest: Manifest, write: ManifestWrite, live: Object | None) -> Object:
            if consent is not None:
                await consent.to(manifest, write, live)
            return await send(self._client, manifest.ref, write)

        return sent

    async def _create(self, sent: Send, manifest: Manifest, owner: ManifestOwner, known: bool) -> Object:
        """Raises `_Exists` when it is there although the server found something else to refuse first."""
        ref = manifest.ref
        try:
            return await sent(manifest, ManifestWrite("create", creation(manifest, owner), AGENT), None)
        except AlreadyExists:
            raise
        except StatusError as refusal:
            if known or refusal.code not in _MAYBE_THERE:
                raise
            try:
                live = await self._get(ref)
            except StatusError:
                raise refusal from None
            if live is None:
                raise
            raise _Exists(live, refusal) from refusal

    async def _update(self, sent: Send, manifest: Manifest, owner: ManifestOwner, live: Object | None, known: bool) -> Applied:
        if live is None:
            created = await self._create(sent, manifest, owner, known)
            self._remember(manifest, owner, created)
            return Applied(created, wrote=True)
        before = self._memory.before(manifest, owner)
        wanted = merged(manifest, live, owner, before)
        if wanted is None:
            self._memory.keep(manifest, owner)
            return Applied(live, wrote=False)
        if self._memory.settled(manifest, owner, live):
            return Applied(live, wrote=False)
        if _must_be_made_anew(manifest, owner, live, wanted):
            written = await self._replace(manifest, live, wanted)
        else:
            written = await self._put(sent, manifest, live, owner, before, wanted)
        self._remember(manifest, owner, written)
        return Applied(written, wrote=written["metadata"]["resourceVersion"] != live["metadata"]["resourceVersion"])

    async def _put(
        self, sent: Send, manifest: Manifest, live: Object, owner: ManifestOwner, before: Object | None, wanted: Object
    ) -> Object:
        try:
            return await sent(manifest, ManifestWrite("update", wanted, AGENT), live)
        except Invalid as error:
            # One alternative beside another that was said or defaulted before: the manifest's must come instead of it.
            instead = merged(manifest, live, owner, before, replacing=True)
            if instead is None or instead == wanted:
                raise
            try:
                return await sent(manifest, ManifestWrite("update", instead, AGENT), live)
            except Invalid:
                raise error from None

    async def _replace(self, manifest: Manifest, live: Object, wanted: Object) -> Object:
        """A replacement that the server would refuse must not delete the existing object: a dry run comes first."""
        ref, metadata = manifest.ref, live["metadata"]
        kept = {key: wanted["metadata"][key] for key in _KEPT if key in wanted["metadata"]}
        anew = ManifestWrite("create", {**wanted, "metadata": kept}, AGENT)
        # That it exists is said only of what nothing else is wrong with.
        with contextlib.suppress(AlreadyExists):
            await send(self._client, ref, anew, dry_run=True)
        await self._client.delete(
            ref.resource, ref.name, ref.namespace, uid=metadata["uid"], resource_version=metadata["resourceVersion"]
        )
        return await send(self._client, ref, anew)

    def _remember(self, manifest: Manifest, owner: ManifestOwner, written: Object) -> None:
        differs = merged(manifest, written, owner) is not None
        self._memory.keep(manifest, owner, written if differs else None)

    async def _create_only(self, sent: Send, manifest: Manifest, owner: ManifestOwner, live: Object | None, known: bool) -> Applied:
        if live is None:
            created = await self._create(sent, manifest, owner, known)
            # Should the work come to keep it, what it said here and says no longer is to go.
            self._memory.keep(manifest, owner)
            return Applied(created, wrote=True)
        return await self._owned(manifest, owner, live)

    async def _owned(self, manifest: Manifest, owner: ManifestOwner, live: Object, wrote: bool = False) -> Applied:
        """Only whose it is."""
        metadata = live["metadata"]
        owners = owners_wanted(live, owner, manifest.owned)
        if owners == (metadata.get("ownerReferences") or []):
            return Applied(live, wrote)
        identity = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
        patch = {"metadata": {**identity, "ownerReferences": owners}}
        ref = manifest.ref
        return Applied(await self._client.patch(ref.resource, ref.name, patch, ref.namespace, manager=AGENT), wrote=True)

    async def _read(self, _: Send, manifest: Manifest, owner: ManifestOwner, live: Object | None, known: bool) -> Applied:
        """What was the work's own before it is only read loses our mark: it would go with the work."""
        if live is None and not known:
            live = await self._get(manifest.ref)
        return Applied(None, wrote=False) if live is None else await self._owned(replace(manifest, owned=False), owner, live)

    async def _apply(self, sent: Send, manifest: Manifest, owner: ManifestOwner, live: Object | None, known: bool) -> Applied:
        if live is None and not known:
            live = await self._get(manifest.ref)
        applied, wrote = await self._server_side.apply(manifest, owner, live, sent)
        return await self._owned(manifest, owner, applied, wrote)


_KEPT: Final = ("name", "namespace", "labels", "annotations", "ownerReferences", "finalizers")


def _must_be_made_anew(manifest: Manifest, owner: ManifestOwner, live: Object, wanted: Object) -> bool:
    """Secrets of another type, and those that were sealed: the server lets nobody change them. Only what is ours is taken away."""
    ours = manifest.owned and reference(owner) in (live["metadata"].get("ownerReferences") or ())
    if not ours or manifest.ref.resource != SECRETS:
        return False
    if wanted.get("type", "Opaque") != live.get("type", "Opaque"):
        return True
    sealed = live.get("immutable") is True
    return sealed and (wanted.get("data") != live.get("data") or wanted.get("immutable") is not True)
