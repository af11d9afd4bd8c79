"""What of a manifest goes to the cluster: whoever writes it, and whoever judges what would be written, must mean the same.

Much of the metadata that a manifest may carry is the server's to say, and keys that end in `-` are orders, not content.
"""

from __future__ import annotations

from typing import Final

from muster.machinery.objects import Object

_SERVER_SET: Final = (
    *("uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"),
    *("managedFields", "selfLink", "ownerReferences"),
)
"""Metadata that a manifest cannot decide; owners named in a manifest would be those of another cluster."""


def cleaned(document: Object) -> Object:
    """A manifest without the metadata that the server sets."""
    metadata = {key: value for key, value in (document.get("metadata") or {}).items() if key not in _SERVER_SET}
    return {**document, "metadata": metadata}


def as_new(document: Object) -> Object:
    """A manifest as an object that was not there before."""
    document = cleaned(document)
    metadata = document["metadata"]
    for field in ("labels", "annotations"):
        if isinstance(metadata.get(field), dict):
            metadata[field] = {key: value for key, value in metadata[field].items() if not key.endswith("-")}
    return document
