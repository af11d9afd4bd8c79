"""Between the version a client speaks and the one that is stored, for the few resources served in several versions."""

from __future__ import annotations

import orjson

from muster.apiserver.documents.presentation import present, present_all
from muster.apiserver.objects import decode
from muster.apiserver.registry.resource import Object, Resource
from muster.store.api import Entry


async def from_stored(resource: Resource, entry: Entry) -> Object:
    """A private copy of the object in the resource's version, defaults of a changed schema included."""
    if resource.custom is None and resource.from_storage is None:
        return decode(entry)
    value = present(resource, entry) or (await present_all(resource, [entry]))[0]
    converted: Object = orjson.loads(value)
    return converted


async def to_stored(resource: Resource, obj: Object) -> Object:
    """The object in its storage version; the same object where nothing is to be done."""
    if resource.api_version == resource.storage_version:
        return obj
    if resource.custom is not None:
        stored: Object = await resource.custom.to_storage(obj)
        return stored
    return resource.to_storage(obj) if resource.to_storage is not None else obj
