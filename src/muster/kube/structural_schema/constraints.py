"""One schema node as the validator needs it: every keyword parsed, patterns compiled, children ready.

The node is built once per schema and shared by the fast accept check, the exact walker and the ratchet. It holds what the server
keeps when it turns a CustomResourceDefinition's schema into a validator: `x-kubernetes-int-or-string` becomes the type pair
integer/string, and a format the server does not know is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import orjson

from muster.kube.fielderrors import choices_text
from muster.kube.structural_schema.formats import format_check
from muster.kube.structural_schema.patterns import matcher
from muster.machinery.golang.json import encode_json

INT64_MIN: Final = -(2**63)
INT64_MAX: Final = 2**63 - 1
_SAFE_INTEGER: Final = 2**53 - 1


class Choices:
    """An enumeration: its members, and how errors show it. Both it and the list of invalid values may be long."""

    __slots__ = ("_known", "detail")

    def __init__(self, enum: tuple[Any, ...]) -> None:
        self._known = frozenset(identity(choice) for choice in enum if choice is not None)
        self.detail = choices_text([choice if isinstance(choice, str) else encode_json(choice) for choice in enum])

    def __contains__(self, value: Any) -> bool:
        """Numbers are converted to the choice's type first, null never matches."""
        if identity(value) in self._known:
            return True
        if value.__class__ is int:
            return (float, float(value)) in self._known
        if value.__class__ is float:
            return value == value and abs(value) <= INT64_MAX and (int, int(value)) in self._known
        return False


class Constraints:
    """The constraints of a value at this position."""

    __slots__ = (
        "_choices",
        "additional",
        "all_of",
        "any_of",
        "enum",
        "exclusive_maximum",
        "exclusive_minimum",
        "forbids_additional",
        "format",
        "format_check",
        "items",
        "list_map_keys",
        "list_type",
        "matches",
        "max_items",
        "max_length",
        "max_properties",
        "maximum",
        "min_items",
        "min_length",
        "min_properties",
        "minimum",
        "multiple_of",
        "not_",
        "nullable",
        "one_of",
        "pattern",
        "properties",
        "required",
        "types",
        "unique_items",
    )

    def __init__(self, raw: Mapping[str, Any]) -> None:
        self._choices: Choices | None = None
        if raw.get("x-kubernetes-int-or-string"):
            self.types: tuple[str, ...] = ("integer", "string")
        else:
            self.types = (raw["type"],) if raw.get("type") else ()
        self.nullable = bool(raw.get("nullable"))
        self.format_check = format_check(raw.get("format") or "")
        self.format: str = raw["format"] if self.format_check else ""
        self.enum: tuple[Any, ...] = tuple(raw.get("enum") or ())
        self.pattern: str = raw.get("pattern") or ""
        self.matches: Callable[[str], bool] | None = matcher(self.pattern) if self.pattern else None
        self.min_length: int | None = raw.get("minLength")
        self.max_length: int | None = raw.get("maxLength")
        self.minimum: float | None = raw.get("minimum")
        self.maximum: float | None = raw.get("maximum")
        self.exclusive_minimum = bool(raw.get("exclusiveMinimum"))
        self.exclusive_maximum = bool(raw.get("exclusiveMaximum"))
        self.multiple_of: float | None = raw.get("multipleOf")
        self.min_items: int | None = raw.get("minItems")
        self.max_items: int | None = raw.get("maxItems")
        self.unique_items = bool(raw.get("uniqueItems"))
        self.min_properties: int | None = raw.get("minProperties")
        self.max_properties: int | None = raw.get("maxProperties")
        self.required: tuple[str, ...] = tuple(raw.get("required") or ())
        self.properties = {name: Constraints(child) for name, child in (raw.get("properties") or {}).items()}
        additional = raw.get("additionalProperties")
        self.additional = Constraints(additional) if isinstance(additional, Mapping) else None
        self.forbids_additional = additional is False
        items = raw.get("items")
        self.items = Constraints(items) if isinstance(items, Mapping) else None
        self.all_of = tuple(Constraints(child) for child in raw.get("allOf") or ())
        self.any_of = tuple(Constraints(child) for child in raw.get("anyOf") or ())
        self.one_of = tuple(Constraints(child) for child in raw.get("oneOf") or ())
        self.not_ = Constraints(raw["not"]) if raw.get("not") is not None else None
        self.list_type: str = raw.get("x-kubernetes-list-type") or ""
        self.list_map_keys: tuple[str, ...] = tuple(raw.get("x-kubernetes-list-map-keys") or ())

    @property
    def choices(self) -> Choices:
        if self._choices is None:
            self._choices = Choices(self.enum)
        return self._choices


def as_int64(limit: float) -> int:
    """A bound as integers are compared with it; one beyond 64 bits wraps to the lowest, as the server's conversion does."""
    whole = int(limit)
    return whole if INT64_MIN <= whole <= INT64_MAX else INT64_MIN


def is_whole(value: float) -> bool:
    """Whether a float counts as an integer: within the exactly representable range and integral up to a tiny relative error."""
    if value != value or not -_SAFE_INTEGER <= value <= _SAFE_INTEGER:
        return False
    whole = float(int(value))
    if value == whole:
        return True
    if value == 0 or whole == 0:
        return False
    return abs(value - whole) / (abs(value) + abs(whole)) < 1e-9


def same(left: Any, right: Any) -> bool:
    """Deep equality that distinguishes 1, 1.0 and true, as typed JSON values."""
    if left.__class__ is not right.__class__:
        return False
    if left.__class__ is dict:
        return len(left) == len(right) and all(name in right and same(value, right[name]) for name, value in left.items())
    if left.__class__ is list:
        return len(left) == len(right) and all(map(same, left, right))
    return bool(left == right)


def identity(value: Any) -> Any:
    """What two values have in common if and only if they are `same`."""
    if value.__class__ in (dict, list):
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    return value.__class__, value


def has_repeats(values: list[Any]) -> bool:
    return len(set(map(identity, values))) < len(values)


def breaks_multiple(value: Any, factor: float) -> bool:
    if value.__class__ is int:
        whole = as_int64(factor)
        return whole <= 0 or bool(value % whole)
    if factor <= 0:
        return True
    return not is_whole(1 / factor * value if factor < 1 else value / factor)
