"""ControllerRevisions: the pod templates that a StatefulSet or DaemonSet has had, which kubectl's rollout commands restore.

The data of a revision is a strategic merge patch that replaces the present template. Two are the same revision if their templates
are equal, whatever their names.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, Final

from muster.fleet.attached import Attached, reference
from muster.fleet.workloads.claims import claim
from muster.fleet.workloads.podcontrol import selector_of
from muster.fleet.workloads.templates import template_hash
from muster.machinery.objects import GVR, Object
from muster.runtime.client import AlreadyExists, Conflict, NotFound, patch_changes
from muster.runtime.client.builtin import CONTROLLER_REVISIONS

HASH_LABEL: Final = "controller-revision-hash"
"""Label of pods: the name of their revision."""
_LONGEST_PREFIX: Final = 223


async def claimed_revisions(attached: Attached, owner: Object, kind: GVR) -> list[Object]:
    """The owner's revisions, the oldest first."""
    candidates = list(attached.view.scan(CONTROLLER_REVISIONS, owner["metadata"]["namespace"]))
    mine = await claim(attached.controllers, owner, kind, CONTROLLER_REVISIONS, selector_of(owner), candidates)
    return sorted(mine, key=_age)


def _age(revision: Object) -> tuple[Any, ...]:
    metadata = revision["metadata"]
    return revision["revision"], metadata["creationTimestamp"], metadata["name"]


def template_of(revision: Object) -> Object | None:
    """The pod template in it; None in a revision that was not created here."""
    data: Any = revision.get("data")
    for field in ("spec", "template"):
        data = data.get(field) if isinstance(data, dict) else None
    if not isinstance(data, dict) or not isinstance(data.get("spec"), dict):
        return None
    return {name: value for name, value in data.items() if name != "$patch"}


def keeps(revision: Object, template: Object) -> bool:
    kept = template_of(revision)
    return kept is not None and _bare(kept) == _bare(template)


def _bare(template: Object) -> Object:
    """Without fields of older servers that have no effect."""
    metadata = {name: value for name, value in (template.get("metadata") or {}).items() if value is not None}
    return {**template, "metadata": metadata}


Labelled = Callable[[str], dict[str, str]]
"""Labels of a revision by its hash, beside its template's."""


async def create_revision(
    attached: Attached, owner: Object, kind: GVR, number: int, collisions: int, labelled: Labelled
) -> tuple[Object, int]:
    """The revision with the owner's template, and the number of name collisions so far."""
    metadata, template = owner["metadata"], owner["spec"]["template"]
    while True:
        suffix = template_hash(template, collisions)
        name = f"{metadata['name'][:_LONGEST_PREFIX]}-{suffix}"
        revision = {
            "apiVersion": CONTROLLER_REVISIONS.api_version,
            "kind": CONTROLLER_REVISIONS.kind,
            "metadata": {
                "name": name,
                "labels": {**((template.get("metadata") or {}).get("labels") or {}), **labelled(suffix)},
                "annotations": dict(metadata.get("annotations") or {}),
                "ownerReferences": [reference(owner, kind.api_version, kind.kind)],
            },
            "data": {"spec": {"template": {**template, "$patch": "replace"}}},
            "revision": number,
        }
        try:
            return await attached.controllers.create(CONTROLLER_REVISIONS, revision, metadata["namespace"]), collisions
        except AlreadyExists:
            there = await attached.controllers.get(CONTROLLER_REVISIONS, name, metadata["namespace"])
            if keeps(there, template):
                return there, collisions
            collisions += 1


async def renumber(attached: Attached, revision: Object, number: int) -> Object:
    """Make it the newest: the one that was rolled back to."""
    if revision["revision"] == number:
        return revision
    changed = {**revision, "revision": number}
    return await patch_changes(attached.controllers, CONTROLLER_REVISIONS, revision, changed) or changed


async def forget_revisions(attached: Attached, old: Sequence[Object], live: Collection[str], limit: int) -> None:
    """Delete the oldest revisions without pods, down to the limit; `live` has the names that are still needed."""
    dead = [each for each in old if each["metadata"]["name"] not in live]
    for each in dead[: max(len(dead) - limit, 0)]:
        metadata = each["metadata"]
        try:
            await attached.controllers.delete(CONTROLLER_REVISIONS, metadata["name"], metadata["namespace"], uid=metadata["uid"])
        except (NotFound, Conflict):
            continue
