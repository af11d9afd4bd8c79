"""What a field's type does not say by itself: the keywords that its OpenAPI schema carries.

A field is annotated once, `Annotated[str, one_of("Label", "Claim")]`, and `muster.api.structural` turns the annotation into the
schema of the CustomResourceDefinition. Decoding ignores these keywords on purpose: the API server has enforced its own edition
of them, and an object from a hub with a newer definition must still be readable here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final

import msgspec


@dataclass(frozen=True, eq=False)
class Keywords:
    """OpenAPI keywords laid over the schema that the annotated type has by itself."""

    values: Mapping[str, Any]


class Required:
    """The schema requires this field although the struct has a default for it."""


REQUIRED: Final = Required()


def schema(**values: Any) -> Keywords:
    return Keywords(values)


def one_of(*choices: str) -> Keywords:
    return Keywords({"enum": list(choices)})


def pattern(text: str, maximum: int | None = None, minimum: int | None = None) -> Keywords:
    lengths = {"maxLength": maximum, "minLength": minimum}
    return Keywords({"pattern": text, **{keyword: length for keyword, length in lengths.items() if length is not None}})


def length(minimum: int | None = None, maximum: int | None = None) -> Keywords:
    lengths = {"minLength": minimum, "maxLength": maximum}
    return Keywords({keyword: value for keyword, value in lengths.items() if value is not None})


def default(value: Any) -> Keywords:
    """A default the struct's own does not imply: an empty value, or that of an object. Non-empty scalars need no mark."""
    return Keywords({"default": value})


def keyed_by(*keys: str) -> Keywords:
    """A list whose elements are told apart by these fields."""
    return Keywords({"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)})


ATOMIC_LIST: Final = Keywords({"x-kubernetes-list-type": "atomic"})
NULLABLE: Final = Keywords({"nullable": True})

Int32 = Annotated[int, schema(format="int32")]
Int64 = Annotated[int, schema(format="int64")]
Time = Annotated[str, schema(format="date-time")]
"""RFC 3339, kept as written: a time that loses digits by being read could not be written back."""
Base64 = Annotated[str, schema(format="byte")]
NonEmpty = Annotated[str, length(1)]

_INT_OR_STRING: Final = {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]}
_NUMBER: Final = r"(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"


def int_or_string(text: str) -> Keywords:
    return Keywords({**_INT_OR_STRING, "pattern": text})


Quantity = Annotated[int | str, int_or_string(rf"^(\+|-)?{_NUMBER}(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?{_NUMBER}))?$")]

FreeObject = Annotated[msgspec.Raw, Keywords({"type": "object", "x-kubernetes-preserve-unknown-fields": True})]
"""An object of any shape, kept as the bytes it came in."""
EmbeddedObject = Annotated[
    msgspec.Raw,
    Keywords({"type": "object", "x-kubernetes-preserve-unknown-fields": True, "x-kubernetes-embedded-resource": True}),
]
"""A whole Kubernetes object inside another, kept as the bytes it came in."""

LABEL: Final = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
SUBDOMAIN: Final = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*)$"
QUALIFIED_NAME: Final = (
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
)
HOSTNAME: Final = r"^(([a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9\-]*[a-zA-Z0-9])\.)*([A-Za-z0-9]|[A-Za-z0-9][A-Za-z0-9\-]*[A-Za-z0-9])$"

DnsLabel = Annotated[str, pattern(LABEL, 63)]
QualifiedName = Annotated[str, pattern(QUALIFIED_NAME, 316)]
