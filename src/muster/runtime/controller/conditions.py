"""Conditions of typed objects: one observation each, dated by when its status last changed (as apimachinery's SetStatusCondition).

`with_condition` gives the object as it should be, `set_condition` writes it: only what differs, valid for the version read only.
Times move with the status alone, so saying the same again changes nothing and costs no request. A condition that is about the
object's spec carries the generation it is about (`observed_generation`), which is for whoever makes it to say.
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
    """Put a condition on an object; False when it has it already, or is gone. Raises Conflict when somebody wrote in between."""
    return await patch_object(client, obj, with_condition(obj, condition, now), status=True) is not None
