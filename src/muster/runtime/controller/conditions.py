"""Conditions of typed objects, with the rules of apimachinery's `meta.SetStatusCondition`.

`with_condition` returns the changed object, `set_condition` writes it: only what differs, and only if the object was not written
since it was read. lastTransitionTime changes with the status only, so setting an equal condition sends no request. The caller sets
`observed_generation` of conditions that are about the spec.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, TypeVar

import msgspec

from muster.api import Condition, TypedObject
from muster.api import with_condition as among
from muster.machinery.golang.timestamps import format_time
from muster.runtime.client.base import KubeClient
from muster.runtime.client.patches import patch_object

R = TypeVar("R", bound=TypedObject)


def with_condition(obj: R, condition: Condition, now: datetime) -> R:
    """The object with this condition in its status; its kind must have conditions."""
    status: Any = obj.status  # type: ignore[attr-defined]  # each kind has its own type of it
    conditions = among(status.conditions, condition, format_time(now))
    return msgspec.structs.replace(obj, status=msgspec.structs.replace(status, conditions=conditions))


async def set_condition(client: KubeClient, obj: R, condition: Condition, now: datetime) -> bool:
    """Set a condition on an object; False if it is set already, or the object is gone. Raises Conflict if another client has
    written in between."""
    return await patch_object(client, obj, with_condition(obj, condition, now), status=True) is not None
