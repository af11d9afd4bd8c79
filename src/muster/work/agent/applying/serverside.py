"""Server-side apply: the server merges, and tracks the manifest's fields by its field manager.

Ignored fields are omitted from what is applied, except when the object is created. The rest has a hash, stored in an annotation of
the object: as long as it is unchanged nothing is applied, so fields changed on the cluster stay changed until the manifest changes.
The hash is that of upstream's agent, so that neither agent repeats what the other has applied.

Without ignored fields nothing is applied as long as the object has all fields of the manifest and this process has applied it once:
only then the fields are known to be owned by the field manager.

A write to a guarded object carries the resourceVersion that was checked: merged into another version it could grant more.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, Final

from muster.api.work.v1 import ServerSideApply
from muster.machinery.golang import formatting
from muster.machinery.objects import Object
from muster.runtime.client import Conflict
from muster.work.agent.applying.applied_shapes import AppliedShapes
from muster.work.agent.applying.ignored_fields import without_ignored
from muster.work.agent.applying.owners import owners_wanted, works_among
from muster.work.agent.applying.update import agreed
from muster.work.agent.interfaces import ApplyProblem, Manifest, ManifestOwner, ManifestWrite
from muster.work.agent.manifests import cleaned
from muster.work.agent.writes import guarded
from muster.work.names import CONFIG_HASH

CONFLICT: Final = "ApplyConflict"
_DEFAULT: Final = ServerSideApply()


Send = Callable[[Manifest, ManifestWrite, Object | None], Awaitable[Object]]
"""Sends a write to an object that is so, or that is not there."""


class ServerSide:
    def __init__(self, memory: AppliedShapes) -> None:
        self._memory = memory

    def intended(self, manifest: Manifest, owner: ManifestOwner, live: Object | None) -> ManifestWrite | None:
        """What to send to the object, if anything: whose it is may still be wrong. Raises ApplyProblem."""
        options = manifest.strategy.server_side_apply or _DEFAULT
        document = without_null_times(manifest.document)
        if options.ignore_fields:
            kept = without_ignored(document, options.ignore_fields)
            mark = config_hash(kept)
            if live is not None and ((live["metadata"].get("annotations") or {}).get(CONFIG_HASH)) == mark:
                return None
            document = _marked(document if live is None else kept, mark)
        elif live is not None and self._is_so(manifest, owner, live):
            return None
        document = cleaned(document)
        # One field manager speaks for all works: who is left out would no longer be an owner.
        owners = works_among(owners_wanted(live or {}, owner, manifest.owned))
        if owners:
            document["metadata"]["ownerReferences"] = owners
        write = ManifestWrite("apply", document, options.field_manager, options.force)
        return write if live is None else _pinned(manifest, write, live)

    async def apply(self, manifest: Manifest, owner: ManifestOwner, live: Object | None, send: Send) -> tuple[Object, bool]:
        """The object afterwards, and whether it was written."""
        write = self.intended(manifest, owner, live)
        if write is None:
            assert live is not None
            return live, False
        applied = await _sent(send, manifest, write, live)
        ignoring = bool((manifest.strategy.server_side_apply or _DEFAULT).ignore_fields)
        if live is not None and not ignoring and not agreed(manifest, applied):
            # Of a map that has lost its last entry servers make nothing at first, though an empty one is said.
            applied = await _sent(send, manifest, _pinned(manifest, write, applied), applied)
        odd = not agreed(manifest, applied)
        self._memory.keep(manifest, owner, applied if odd else None)
        return applied, live is None or applied["metadata"]["resourceVersion"] != live["metadata"]["resourceVersion"]

    def _is_so(self, manifest: Manifest, owner: ManifestOwner, live: Object) -> bool:
        if agreed(manifest, live):
            return self._memory.confirmed(manifest, owner)
        return self._memory.settled(manifest, owner, live)


async def _sent(send: Send, manifest: Manifest, write: ManifestWrite, live: Object | None) -> Object:
    try:
        return await send(manifest, write, live)
    except Conflict as error:
        # Without causes nobody else owns anything: it was only written at the same time.
        if not error.causes:
            raise
        raise ApplyProblem(CONFLICT, error.message) from error


def _pinned(manifest: Manifest, write: ManifestWrite, live: Object) -> ManifestWrite:
    if not guarded(manifest.ref.resource):
        return write
    version = live["metadata"]["resourceVersion"]
    return replace(write, document={**write.document, "metadata": {**write.document["metadata"], "resourceVersion": version}})


def config_hash(document: Object) -> str:
    """Go's `%v` of an unstructured object, digested."""
    return hashlib.md5(f"&{{{formatting.text(document)}}}".encode(), usedforsecurity=False).hexdigest()


def without_null_times(value: Any) -> Any:
    """A null `creationTimestamp` in any metadata counts as a change for the server, although it says nothing."""
    if isinstance(value, list):
        return [without_null_times(item) for item in value]
    if not isinstance(value, dict):
        return value
    copied = {key: without_null_times(item) for key, item in value.items()}
    metadata = copied.get("metadata")
    if isinstance(metadata, dict) and metadata.get("creationTimestamp", "") is None:
        del metadata["creationTimestamp"]
    return copied


def _marked(document: Object, mark: str) -> Object:
    metadata = document.get("metadata") or {}
    annotations = {**(metadata.get("annotations") or {}), CONFIG_HASH: mark}
    return {**document, "metadata": {**metadata, "annotations": annotations}}
