"""Conversion between the served and the stored version of an object."""

from __future__ import annotations

import orjson

from muster.apiserver.context import Context
from muster.apiserver.objects import decode
from muster.apiserver.presentation.responses import present, present_all
from muster.apiserver.registry.resource import ServedResource
from muster.apiserver.worker import LARGE
from muster.machinery.objects import Object
from muster.store.api import Entry


async def from_stored(ctx: Context, resource: ServedResource, entry: Entry) -> Object:
    """A private copy of the object in the version of the resource, with the defaults of the present schema."""
    found = await ctx.run_in_worker(_read, resource, entry) if len(entry.value) > LARGE else _read(resource, entry)
    if found is None:
        found = orjson.loads((await present_all(resource, [entry]))[0])
    return found


def _read(resource: ServedResource, entry: Entry) -> Object | None:
    """The decoded object; None if that needs a conversion webhook."""
    if resource.strategy.is_shown_as_stored:
        return decode(entry)
    value = present(resource, entry)
    return None if value is None else orjson.loads(value)


async def to_stored(resource: ServedResource, obj: Object) -> Object:
    """The object in its storage version; the same object if no conversion is needed."""
    if resource.api_version == resource.storage_version:
        return obj
    return await resource.strategy.to_storage(obj)
