"""Applies a work's manifests: those of one rank concurrently, each on its own, with a result for each.

A manifest that matches its object costs no request; one that has failed is not retried before its backoff. Nothing is written after
the executor's permissions have changed since the check, nor anything to which the gate does not consent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from muster.machinery.backoff import Backoff
from muster.machinery.clock import Clock
from muster.machinery.logs import get_logger
from muster.runtime.cache import ObservedObject, Presence
from muster.runtime.client import KubeError
from muster.runtime.client.builtin import NAMESPACES
from muster.work.agent.apply_plan import ApplyPlan
from muster.work.agent.completion import ended
from muster.work.agent.deletion import Remover
from muster.work.agent.interfaces import (
    Applier,
    ApplyProblem,
    Consent,
    Manifest,
    ManifestOwner,
    NotPermitted,
    Observer,
    Refusal,
    RightsChanged,
)
from muster.work.agent.reporting import ManifestFailure, ManifestResult, failed, refused, unfit
from muster.work.agent.work_state import WorkState

log = get_logger("muster.work.agent")

OVERTAKEN: Final = ManifestFailure("", "")
"""Result of a manifest that is not written because the executor's permissions have changed since the check; never reported, because
the pass ends with it and the next one checks again."""


class ManifestApplier:
    def __init__(
        self, observer: Observer, applier: Applier, remover: Remover, backoff: Backoff, *, writers: int, clock: Clock
    ) -> None:
        """`writers` of one work's manifests are written at once."""
        self._observer = observer
        self._applier = applier
        self._remover = remover
        self._backoff = backoff
        self._writers = writers
        self._clock = clock

    async def apply(
        self,
        plan: ApplyPlan,
        refusals: Mapping[int, Refusal],
        done: frozenset[int],
        owner: ManifestOwner,
        memory: WorkState,
        consent: Consent | None,
    ) -> dict[int, ManifestResult]:
        """By ordinal. `done` are those that are not to be touched any more; `consent` is that of the executor, if there is one."""
        outcomes = {
            invalid_manifest.meta.ordinal: ManifestResult(invalid_manifest, unfit(invalid_manifest))
            for invalid_manifest in plan.invalid
        }
        turn = asyncio.Semaphore(self._writers)

        async def one(manifest: Manifest) -> None:
            refusal = refusals.get(manifest.ordinal)
            hidden = refusal.hidden if refusal is not None else ""
            if manifest.ordinal in done:
                outcome = await self._seen(manifest, hidden=hidden)
            elif refusal is not None:
                outcome = await self._seen(manifest, refused(refusal), hidden)
            else:
                outcome = await self._apply_one(manifest, owner, memory, turn, consent)
            outcomes[manifest.ordinal] = outcome

        for rank in plan.ranks:
            if len(rank) == 1:
                await one(rank[0])
                continue
            async with asyncio.TaskGroup() as tasks:
                for manifest in rank:
                    tasks.create_task(one(manifest))
        return outcomes

    async def _apply_one(
        self, manifest: Manifest, owner: ManifestOwner, memory: WorkState, turn: asyncio.Semaphore, consent: Consent | None
    ) -> ManifestResult:
        observed = self._observer.get(manifest.ref)
        if memory.agrees(manifest, observed):
            return ManifestResult(manifest, live=observed.raw)
        if memory.had(manifest) and await ended(manifest, observed):
            return ManifestResult(manifest, last=observed.raw)
        now = self._clock.monotonic()
        if failure := memory.trouble(manifest, observed, now):
            return await self._seen(manifest, failure)
        if memory.rests(manifest, now):
            return await self._seen(manifest)
        async with turn:
            if consent is not None and not consent.is_valid:
                return ManifestResult(manifest, OVERTAKEN)
            try:
                applied = await self._applier.apply(manifest, owner, observed, consent)
            except RightsChanged:
                return ManifestResult(manifest, OVERTAKEN)
            except (KubeError, ApplyProblem, NotPermitted) as error:
                return await self._failed(manifest, observed, error, memory)
            except Exception as error:
                # A manifest can be wrong in ways that nobody has thought of; its neighbours are not to suffer.
                log.error("applying a manifest failed", object=str(manifest.ref), error=f"{type(error).__name__}: {error}")
                return await self._failed(manifest, observed, error, memory)
        self._observer.record_write(manifest.ref, applied.document)
        if applied.document is not None:
            version = applied.document["metadata"].get("resourceVersion", "")
            memory.applied(manifest, version, self._clock.monotonic(), wrote=applied.wrote)
            if applied.wrote and manifest.ref.resource == NAMESPACES:
                memory.made(manifest.ref.name, self._clock.monotonic())
        return ManifestResult(manifest, live=applied.document)

    async def _failed(self, manifest: Manifest, observed: ObservedObject, error: Exception, memory: WorkState) -> ManifestResult:
        failure = failed(error)
        memory.failed(manifest, observed, error, failure, self._clock.monotonic(), self._backoff)
        return await self._seen(manifest, failure)

    async def _seen(self, manifest: Manifest, failure: ManifestFailure | None = None, hidden: str = "") -> ManifestResult:
        """A manifest that is left as it is, with the object that there is."""
        observed = self._observer.get(manifest.ref)
        if observed.presence is not Presence.UNKNOWN:
            return ManifestResult(
                manifest, failure, live=observed.raw if observed.presence is Presence.PRESENT else None, hidden=hidden
            )
        try:
            return ManifestResult(manifest, failure, live=await self._remover.live(manifest.ref), hidden=hidden)
        except KubeError as error:
            return ManifestResult(manifest, failure, unfetched=str(error))
