"""What is remembered of objects that were applied, so that what a manifest no longer says can be taken away, and nothing is written
for ever to a server that will not have it so.

Of each (work, object) only the digest of the last manifest that was written or found to be so, the shape of what it said (one
string for all that say the same), and for the odd ones a fingerprint: how the object was after a write that a server answered
with something else, because a webhook changed it. As long as it is still so, writing again would change nothing. Forgetting is
safe: it costs a needless write, or leaves a field that was said before a restart and no longer after it.
"""

from __future__ import annotations

import hashlib
import sys
from collections import OrderedDict
from typing import Any, Final, NamedTuple

import orjson

from muster.machinery.objects import Object
from muster.work.agent.applying.comparison import drop_nulls, shape
from muster.work.agent.applying.kinds import content_of, rules_of
from muster.work.agent.interfaces import Manifest, ManifestOwner

CAPACITY: Final = 100_000
_METADATA: Final = ("labels", "annotations", "ownerReferences")


class _Entry(NamedTuple):
    digest: bytes
    shape: str
    settled: bytes


class AppliedShapes:
    def __init__(self, capacity: int = CAPACITY) -> None:
        self._entries: OrderedDict[bytes, _Entry] = OrderedDict()
        self._capacity = capacity

    def before(self, manifest: Manifest, owner: ManifestOwner) -> Any:
        """The shape of what this work said last, if that was something else."""
        entry = self._entries.get(_key(manifest, owner))
        return orjson.loads(entry.shape) if entry is not None and entry.digest != manifest.digest else None

    def confirmed(self, manifest: Manifest, owner: ManifestOwner) -> bool:
        """Whether this very manifest was written or found to be so before."""
        entry = self._entries.get(_key(manifest, owner))
        return entry is not None and entry.digest == manifest.digest

    def settled(self, manifest: Manifest, owner: ManifestOwner, live: Object) -> bool:
        """Whether the object is as the server left it after this very manifest was written."""
        entry = self._entries.get(_key(manifest, owner))
        return entry is not None and entry.digest == manifest.digest and entry.settled == fingerprint(live)

    def keep(self, manifest: Manifest, owner: ManifestOwner, settled: Object | None = None) -> None:
        """The manifest is so now, or as near as the server lets it be."""
        key = _key(manifest, owner)
        entry = self._entries.get(key)
        if entry is None or entry.digest != manifest.digest or settled is not None or entry.settled:
            desired = shape(drop_nulls(content_of(manifest.document)), rules_of(manifest.ref.resource).fields)
            outline = sys.intern(orjson.dumps(desired).decode())
            self._entries[key] = _Entry(manifest.digest, outline, b"" if settled is None else fingerprint(settled))
        self._entries.move_to_end(key)
        if len(self._entries) > self._capacity:
            self._entries.popitem(last=False)


def _key(manifest: Manifest, owner: ManifestOwner) -> bytes:
    ref = manifest.ref
    name = "\0".join((owner.name, ref.resource.group, ref.resource.plural, ref.namespace, ref.name))
    return hashlib.blake2b(name.encode(), digest_size=16).digest()


def fingerprint(live: Object) -> bytes:
    """Of all that can be said of an object; not of its status and its versions."""
    metadata = live.get("metadata") or {}
    compared = [content_of(live), [metadata.get(field) for field in _METADATA]]
    return hashlib.blake2b(orjson.dumps(compared, option=orjson.OPT_SORT_KEYS), digest_size=16).digest()
