"""The fields that were applied to each object, so that fields removed from a manifest are removed from the object.

It also prevents endless writes of an object that the server or a webhook changes on every write.

For each (work, object) this keeps the digest of the last manifest that was applied or found to be in effect, the shape of its
fields (one string for all manifests of the same shape), and, if the server stored something else than was sent because a webhook
changed it, a fingerprint of the object after that write: as long as the object has it, another write would change nothing.
Losing an entry is safe: it costs one write, or leaves a field that a manifest lost during a restart.
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
        """The shape that this work applied last, if it differs."""
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
        """The manifest is in effect now, or as far as the server allows."""
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
    """Of the whole object but its status and its versions."""
    metadata = live.get("metadata") or {}
    compared = [content_of(live), [metadata.get(field) for field in _METADATA]]
    return hashlib.blake2b(orjson.dumps(compared, option=orjson.OPT_SORT_KEYS), digest_size=16).digest()
