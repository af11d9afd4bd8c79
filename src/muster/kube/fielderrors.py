"""Validation errors of fields, with the API's texts (clients and users match on them).

A validator returns a list of `FieldError`; the server turns it into a 422 Status with one cause each. A client may send any number
of errors, so a validation within `counted` ends with `TooManyErrors` once it has found `MOST`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final

from muster.machinery.golang.formatting import number
from muster.machinery.golang.json import encode_json
from muster.machinery.golang.quoting import quote

REQUIRED: Final = "FieldValueRequired"
INVALID: Final = "FieldValueInvalid"
NOT_SUPPORTED: Final = "FieldValueNotSupported"
FORBIDDEN: Final = "FieldValueForbidden"
DUPLICATE: Final = "FieldValueDuplicate"
NOT_FOUND: Final = "FieldValueNotFound"
TOO_LONG: Final = "FieldValueTooLong"
TOO_MANY: Final = "FieldValueTooMany"
TYPE_INVALID: Final = "FieldValueTypeInvalid"
INTERNAL: Final = "InternalError"

_PHRASE: Final = {
    REQUIRED: "Required value",
    INVALID: "Invalid value",
    NOT_SUPPORTED: "Unsupported value",
    FORBIDDEN: "Forbidden",
    DUPLICATE: "Duplicate value",
    NOT_FOUND: "Not found",
    TOO_LONG: "Too long",
    TOO_MANY: "Too many",
    TYPE_INVALID: "Invalid value",
    INTERNAL: "Internal error",
}
MOST: Final = 1_000
"""Errors that one validation reports."""
_WITHOUT_VALUE: Final = frozenset({REQUIRED, FORBIDDEN, TOO_LONG, INTERNAL})


class Omitted:
    """The value of an error whose text shows none (rules on whole objects)."""


OMITTED: Final = Omitted()


@dataclass(frozen=True, slots=True)
class Rendered:
    """A value whose text is known already (a Go struct with its order of fields)."""

    text: str


def _shown(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, Rendered):
        return value.text
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return number(value)
    if isinstance(value, int):
        return str(value)
    return encode_json(value)


@dataclass(frozen=True, slots=True)
class FieldError:
    """One problem: `reason` is the cause's reason, `field` a path such as `spec.containers[0].name`."""

    reason: str
    field: str
    value: Any = None
    detail: str = ""

    @property
    def body(self) -> str:
        """The cause's message: the error without the field."""
        text = _PHRASE[self.reason]
        if self.reason not in _WITHOUT_VALUE and self.value is not OMITTED:
            text = f"{text}: {_shown(self.value)}"
        return f"{text}: {self.detail}" if self.detail else text

    def __str__(self) -> str:
        return f"{self.field}: {self.body}" if self.field else self.body


class TooManyErrors(Exception):
    """A validation was ended because of too many errors; `errors` are those found."""

    def __init__(self, errors: list[FieldError]) -> None:
        super().__init__(f"more than {MOST} errors")
        self.errors = errors


_counted: ContextVar[list[FieldError] | None] = ContextVar("counted", default=None)


@contextmanager
def counted() -> Iterator[None]:
    """Errors made inside are counted. Raises TooManyErrors above the limit."""
    token = _counted.set([])
    try:
        yield
    finally:
        _counted.reset(token)


@contextmanager
def uncounted() -> Iterator[None]:
    """For a check whose errors may be dropped, and that has its own limit."""
    token = _counted.set(None)
    try:
        yield
    finally:
        _counted.reset(token)


def field_error(reason: str, field: str, value: Any = None, detail: str = "") -> FieldError:
    error = FieldError(reason, field, value, detail)
    found = _counted.get()
    if found is not None:
        found.append(error)
        if len(found) >= MOST:
            raise TooManyErrors(found)
    return error


def required(field: str, detail: str = "") -> FieldError:
    return field_error(REQUIRED, field, None, detail)


def invalid(field: str, value: Any, detail: str) -> FieldError:
    return field_error(INVALID, field, value, detail)


def choices_text(supported: Sequence[str]) -> str:
    return "supported values: " + ", ".join(quote(s) for s in supported)


def not_supported(field: str, value: Any, supported: Sequence[str]) -> FieldError:
    return field_error(NOT_SUPPORTED, field, value, choices_text(supported))


def forbidden(field: str, detail: str) -> FieldError:
    return field_error(FORBIDDEN, field, None, detail)


def duplicate(field: str, value: Any) -> FieldError:
    return field_error(DUPLICATE, field, value)


def too_long(field: str, limit: int) -> FieldError:
    return field_error(TOO_LONG, field, None, f"may not be more than {limit} {'byte' if limit == 1 else 'bytes'}")


def too_many(field: str, count: int, limit: int) -> FieldError:
    return field_error(TOO_MANY, field, count, f"must have at most {limit} {'item' if limit == 1 else 'items'}")
