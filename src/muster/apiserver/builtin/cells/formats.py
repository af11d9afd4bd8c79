"""Formats that cells of many kinds share: ages, label selectors, containers, shortened lists."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any

import orjson

from muster.kube.selectors import SelectorError, from_label_selector_object
from muster.machinery.golang.durations import human_duration
from muster.machinery.golang.timestamps import parse_time
from muster.machinery.memo import memoized
from muster.machinery.objects import Object

Cell = Callable[[Object], Any]
UNKNOWN = "<unknown>"
NONE = "<none>"
UNSET = "<unset>"


class Live:
    """A text with an age, e.g. `3 (5m2s ago)`: `form` has one `{}` for the age since `since`."""

    __slots__ = ("form", "since")

    def __init__(self, since: datetime, form: str = "{}") -> None:
        self.since = since
        self.form = form

    def text(self, now: datetime) -> str:
        return self.form.format(human_duration((now - self.since).total_seconds()))

    def render(self, now: datetime) -> bytes:
        """The encoded cell."""
        return orjson.dumps(self.text(now))


@memoized(4096)
def instant(text: str) -> datetime | None:
    try:
        return parse_time(text)
    except ValueError:
        return None


def since(text: str | None, form: str = "{}", absent: str = UNKNOWN) -> Live | str:
    """The age of a timestamp."""
    moment = instant(text) if text else None
    return absent if moment is None else Live(moment, form)


def at(*keys: str, absent: Any = "") -> Cell:
    """A function that returns the value at a path, `absent` if it is missing."""

    def read(obj: Object) -> Any:
        value: Any = obj
        for key in keys:
            value = value.get(key) if isinstance(value, dict) else None
            if value is None:
                return absent
        return value

    return read


def spec(obj: Object) -> Object:
    return obj.get("spec") or {}


def status(obj: Object) -> Object:
    return obj.get("status") or {}


def count(*keys: str) -> Cell:
    """A function that returns the number of items of a list or map."""
    read = at(*keys, absent=())
    return lambda obj: len(read(obj))


def labels_text(labels: Mapping[str, str] | None) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted((labels or {}).items())) or NONE


def selector_text(selector: Mapping[str, Any] | None, empty: str = NONE, broken: str = "<error>", nothing: str = NONE) -> str:
    """A LabelSelector on one line; `nothing` is shown for an absent one."""
    if selector is None:
        return nothing
    try:
        return str(from_label_selector_object(selector)) or empty
    except SelectorError:
        return broken


def container_names(containers: Iterable[Object] | None) -> str:
    return ",".join(container.get("name", "") for container in containers or ())


def container_images(containers: Iterable[Object] | None) -> str:
    return ",".join(container.get("image", "") for container in containers or ())


def template_cells(*path: str) -> dict[str, Cell]:
    """The Containers and Images columns of a kind whose pod template's spec is at `path`."""
    containers = at(*path, "containers", absent=())
    return {"Containers": lambda obj: container_names(containers(obj)), "Images": lambda obj: container_images(containers(obj))}


def with_more(items: list[str], total: int, limit: int, empty: str) -> str:
    """A list cut to `limit` items."""
    text = ",".join(items[:limit])
    if total > limit:
        return f"{text} + {total - limit} more..."
    return text or empty


def has_condition(conditions: Iterable[Object] | None, kind: str) -> bool:
    return next((c.get("status") == "True" for c in conditions or () if c.get("type") == kind), False)
