"""Finalizers, as in controller-runtime's controllerutil.

A finalizer is added before anything is created that needs cleanup, and removed when all of that is gone. Both are merge patches of
the list with the resourceVersion that was read: a merge patch replaces lists, and a list from an older version would remove
finalizers of others. In that case the write fails with `Conflict`, and the reconcile is repeated.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from muster.api import TypedObject
from muster.machinery.objects import Object
from muster.runtime.client.base import KubeClient
from muster.runtime.client.patches import patch_object

R = TypeVar("R", bound=TypedObject)


def has_finalizer(obj: TypedObject, finalizer: str) -> bool:
    return finalizer in obj.metadata.finalizers


def with_finalizer(obj: R, finalizer: str) -> R:
    """The object with this finalizer. Servers refuse new finalizers on objects that are being deleted."""
    return obj if has_finalizer(obj, finalizer) else _with(obj, (*obj.metadata.finalizers, finalizer))


def without_finalizer(obj: R, finalizer: str) -> R:
    return _with(obj, tuple(one for one in obj.metadata.finalizers if one != finalizer)) if has_finalizer(obj, finalizer) else obj


async def add_finalizer(client: KubeClient, obj: R, finalizer: str) -> Object | None:
    """Returns the response; None if the finalizer is set already, or the object is gone."""
    return await patch_object(client, obj, with_finalizer(obj, finalizer))


async def remove_finalizer(client: KubeClient, obj: R, finalizer: str) -> Object | None:
    """Returns the response; None if the finalizer is not set, or the object is gone."""
    return await patch_object(client, obj, without_finalizer(obj, finalizer))


def removal_patch(obj: Object, finalizer: str) -> Object | None:
    """For documents: the merge patch that removes a finalizer; None if it is not set."""
    metadata = obj["metadata"]
    finalizers = metadata.get("finalizers") or ()
    if finalizer not in finalizers:
        return None
    left = [one for one in finalizers if one != finalizer]
    return {"metadata": {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"], "finalizers": left}}


def _with(obj: R, finalizers: tuple[str, ...]) -> R:
    return msgspec.structs.replace(obj, metadata=msgspec.structs.replace(obj.metadata, finalizers=finalizers))
