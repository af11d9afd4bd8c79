"""Completion of a work or of one of its manifests: a condition rule reports Complete, and nothing more is applied for it.

It counts for the generation for which it was reported, and only for manifests that were applied in that generation: an object may
be complete although the cluster would refuse the manifest now, or next to one that failed; neither is a reason to stop retrying.
"""

from __future__ import annotations

import asyncio

import orjson

from muster.api.meta import Conditions, condition_of
from muster.api.work.v1 import ManifestWork
from muster.runtime.cache import ObservedObject, Presence
from muster.work.agent.interfaces import Manifest
from muster.work.agent.reporting import completes
from muster.work.names import APPLIED, COMPLETE


def is_finished(work: ManifestWork) -> bool:
    return _complete(work.status.conditions, work.metadata.generation)


def finished_manifests(work: ManifestWork) -> frozenset[int]:
    """Those that have reached their end, though the work may not have."""
    return frozenset(
        entry.resource_meta.ordinal
        for entry in work.status.resource_status.manifests
        if _complete(entry.conditions, work.metadata.generation)
    )


def _complete(conditions: Conditions, generation: int) -> bool:
    return all(is_current(conditions, kind, generation) for kind in (COMPLETE, APPLIED))


def is_current(conditions: Conditions, kind: str, generation: int) -> bool:
    """Whether a condition is True, and of this generation."""
    condition = condition_of(conditions, kind)
    return condition is not None and condition.status == "True" and condition.observed_generation == generation


async def ended(manifest: Manifest, observed: ObservedObject) -> bool:
    """Whether an object has gone because it had reached its end: a Job may be removed the moment that it is complete."""
    if (
        observed.presence is not Presence.ABSENT
        or not observed.raw
        or all(rule.condition != COMPLETE for rule in manifest.conditions)
    ):
        return False
    return await asyncio.to_thread(completes, manifest.ref.resource, orjson.loads(observed.raw), manifest.conditions)
