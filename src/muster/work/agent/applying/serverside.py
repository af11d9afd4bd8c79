"""Server-side apply: the server merges, and knows which fields are the manifest's by its field manager.

Fields to be ignored are left out of what is applied, but not when the object is created. What is left has a hash, kept in an
annotation of the object: as long as it is the same nothing is applied, so fields changed on the cluster stay changed until the
manifest changes. The hash is that of upstream's agent, so that neither agent applies anew what the other has applied.

Without such fields nothing is applied as long as all that is said is so and this process has applied it once: only then it is
known that the fields are ours.
"""

from __future__ import annotations

import hashlib
from typing import Any, Final

from muster.api.work.v1 import ServerSideApply
from muster.kube import gotext
from muster.runtime.errors import Conflict
from muster.runtime.resource import Object
from muster.runtime.verbs import KubeClient
from muster.work.agent.applying.ignoring import without_ignored
from muster.work.agent.applying.memory import Memory
from muster.work.agent.applying.merging import agreed
from muster.work.agent.applying.owners import owners_wanted, works_among
from muster.work.agent.manifests import cleaned
from muster.work.agent.seam import ApplyProblem, Manifest, Owner
from muster.work.names import CONFIG_HASH

CONFLICT: Final = "ApplyConflict"
_DEFAULT: Final = ServerSideApply()


class ServerSide:
    def __init__(self, client: KubeClient, memory: Memory) -> None:
        self._client = client
        self._memory = memory

    async def apply(self, manifest: Manifest, owner: Owner, live: Object | None) -> tuple[Object, bool]:
        """The object afterwards, and whether it was written. Whose it is may still be wrong."""
        options = manifest.strategy.server_side_apply or _DEFAULT
        document = without_null_times(manifest.document)
        if options.ignore_fields:
            kept = without_ignored(document, options.ignore_fields)
            mark = config_hash(kept)
            if live is not None and ((live["metadata"].get("annotations") or {}).get(CONFIG_HASH)) == mark:
                return live, False
            document = _marked(document if live is None else kept, mark)
        elif live is not None and self._is_so(manifest, owner, live):
            return live, False
        document = cleaned(document)
        # One field manager speaks for all works: who is left out would no longer be an owner.
        owners = works_among(owners_wanted(live or {}, owner, manifest.owned))
        if owners:
            document["metadata"]["ownerReferences"] = owners
        applied = await self._send(manifest, options, document)
        if live is not None and not options.ignore_fields and not agreed(manifest, applied):
            # Of a map that has lost its last entry servers make nothing at first, though an empty one is said.
            applied = await self._send(manifest, options, document)
        odd = not agreed(manifest, applied)
        self._memory.keep(manifest, owner, applied if odd else None)
        return applied, live is None or applied["metadata"]["resourceVersion"] != live["metadata"]["resourceVersion"]

    async def _send(self, manifest: Manifest, options: ServerSideApply, document: Object) -> Object:
        try:
            return await self._client.apply(manifest.ref.resource, document, manager=options.field_manager, force=options.force)
        except Conflict as error:
            # Without causes nobody else owns anything: it was only written at the same time.
            if not error.causes:
                raise
            raise ApplyProblem(CONFLICT, error.message) from error

    def _is_so(self, manifest: Manifest, owner: Owner, live: Object) -> bool:
        if agreed(manifest, live):
            return self._memory.confirmed(manifest, owner)
        return self._memory.settled(manifest, owner, live)


def config_hash(document: Object) -> str:
    """Go's `%v` of an unstructured object, digested."""
    return hashlib.md5(f"&{{{gotext.text(document)}}}".encode(), usedforsecurity=False).hexdigest()


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
