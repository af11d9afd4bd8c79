"""Whose an object is: the reference to an AppliedManifestWork among its owners.

References of others are never touched. Ours is found by its name, not by its uid: an AppliedManifestWork that was made anew takes
the place of the one before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from muster.machinery.objects import Object
from muster.work.agent.interfaces import ManifestOwner
from muster.work.kinds import APPLIED_WORKS


def reference(owner: ManifestOwner) -> Object:
    return {"apiVersion": APPLIED_WORKS.api_version, "kind": APPLIED_WORKS.kind, "name": owner.name, "uid": owner.uid}


def owners_wanted(live: Mapping[str, Any], owner: ManifestOwner, owned: bool) -> list[Object]:
    """The references that the object should have."""
    wanted = reference(owner)
    kept: list[Object] = []
    for entry in (live.get("metadata") or {}).get("ownerReferences") or ():
        if not _ours(entry, owner):
            kept.append(entry)
        elif owned and wanted not in kept:
            kept.append(wanted)
    return kept if not owned or wanted in kept else [*kept, wanted]


def works_among(owners: Iterable[Object]) -> list[Object]:
    """Those that are AppliedManifestWorks."""
    return [entry for entry in owners if _is_work(entry)]


def _ours(entry: Mapping[str, Any], owner: ManifestOwner) -> bool:
    return _is_work(entry) and entry.get("name") == owner.name


def _is_work(entry: Mapping[str, Any]) -> bool:
    group = str(entry.get("apiVersion", "")).partition("/")[0]
    return group == APPLIED_WORKS.group and entry.get("kind") == APPLIED_WORKS.kind
