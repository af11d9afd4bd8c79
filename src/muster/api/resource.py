"""The base of all our API types: frozen structs to read from, and the bytes they came from.

`TypedObject.decode` reads an object into its struct and keeps the received bytes beside it as `wire`; free-form parts (manifests,
object definitions) are views into the same bytes. A cached object therefore costs its wire size plus a few small structs, and
`document()` gives back everything that was received, fields unknown to us included. Nobody writes a decoded struct back whole: a
change is a `msgspec.structs.replace` that `muster.api.patches` turns into a patch of just that change.

Reading is as tolerant as Go's decoder: unknown fields are passed over and `null` means absent. The status of an object, which its
observers write, is read as far as it can be (`muster.api.salvage`): `unread` names what was left out. What else does not fit is a
`MalformedObject`, one object's problem and nobody else's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Literal, Self, TypeVar, dataclass_transform, get_type_hints

import msgspec
import orjson

from muster.api.markers import Int64, Required, Time
from muster.api.salvage import salvaged

Document = dict[str, Any]


class RecordMeta(msgspec.StructMeta):
    """Makes every record frozen and its fields keywords; said here because msgspec has each class say it anew.

    Frozen records are trees, so the collector of cycles need not look at them: caches hold very many. Whole objects, which
    have room for the bytes they came from, msgspec cannot exempt.
    """

    def __new__(mcls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any) -> RecordMeta:
        whole = "dict" in options or any(base.__dictoffset__ for base in bases)
        options |= {"frozen": True, "kw_only": True, "rename": "camel", "gc": whole}
        return super().__new__(mcls, name, bases, namespace, **options)


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class Record(msgspec.Struct, metaclass=RecordMeta, frozen=True):
    """Part of an object. Field names are snake_case here and camelCase on the wire."""

    keywords: ClassVar[Mapping[str, Any]] = {}
    """OpenAPI keywords of the object itself, wherever it is used."""


class OwnerReference(Record):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False
    block_owner_deletion: bool = False


class ObjectMeta(Record):
    """The metadata that controllers look at; the rest (managedFields, selfLink) stays on the wire."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: Int64 = 0
    creation_timestamp: Time = ""
    deletion_timestamp: Time = ""
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[OwnerReference, ...] = ()


@dataclass(frozen=True)
class Column:
    """A column of `kubectl get`."""

    name: str
    path: str
    type: str = "string"
    description: str = ""


def condition_column(name: str, condition: str, field: str = "status", description: str = "") -> Column:
    return Column(name, f'.status.conditions[?(@.type=="{condition}")].{field}', description=description)


AGE = Column("Age", ".metadata.creationTimestamp", "date")


@dataclass(frozen=True)
class ResourceType:
    """Where a kind is served and how kubectl shows it."""

    group: str
    version: str
    kind: str
    plural: str
    scope: Literal["Cluster", "Namespaced"]
    short_names: tuple[str, ...] = ()
    columns: tuple[Column, ...] = ()
    status: bool = True
    deprecation: str = ""

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}"

    def path(self, name: str = "", namespace: str = "", subresource: str = "") -> str:
        """The URL path of the collection, or of one object in it."""
        parts = ["/apis", self.group, self.version]
        if namespace:
            parts += ["namespaces", namespace]
        return "/".join(part for part in [*parts, self.plural, name, subresource] if part)


class MalformedObject(ValueError):
    """An object that does not have the shape of its kind."""

    def __init__(self, kind: str, name: str, namespace: str, problem: str) -> None:
        self.kind = kind
        self.name = name
        self.namespace = namespace
        self.problem = problem
        where = f"{namespace}/{name}" if namespace else name
        super().__init__(f"{kind} {where or '(unnamed)'} cannot be read: {problem}")


class TypedObject(Record, dict=True):
    """A whole object."""

    resource: ClassVar[ResourceType]
    tolerant: ClassVar[tuple[str, ...]] = ("status",)
    """The parts of which anything that cannot be read is left out, by their names on the wire."""

    metadata: ObjectMeta = ObjectMeta()

    @classmethod
    def decode(cls, data: bytes | Mapping[str, Any]) -> Self:
        """The object in `data`, which is JSON or a document. Raises MalformedObject."""
        wire = data if isinstance(data, bytes) else orjson.dumps(data)
        try:
            read, unread = _read(cls, wire)
        except (msgspec.MsgspecError, orjson.JSONDecodeError, RecursionError) as error:
            name, namespace = _name_in(wire)
            raise MalformedObject(cls.resource.kind, name, namespace, str(error)) from error
        read.__dict__["_wire"] = wire
        if unread:
            read.__dict__["_unread"] = unread
        return read

    @classmethod
    def encode(cls, obj: Self) -> bytes:
        """An object as JSON, for those who have the kind in hand, not the object's type."""
        return obj.wire

    @property
    def unread(self) -> tuple[str, ...]:
        """What was left out of the tolerant parts, because it could not be read."""
        left_out: tuple[str, ...] = self.__dict__.get("_unread", ())
        return left_out

    @property
    def wire(self) -> bytes:
        """The object as JSON: as it was received, or the fields of one made here."""
        received: bytes | None = self.__dict__.get("_wire")
        return orjson.dumps(self._built()) if received is None else received

    def document(self) -> Document:
        """The whole object as a new document, with the fields that are unknown to us."""
        document: Document = orjson.loads(self.wire)
        return document

    def _built(self) -> Document:
        return {"apiVersion": self.resource.api_version, "kind": self.resource.kind, **known_fields(self)}


_R = TypeVar("_R", bound=TypedObject)


@cache
def _decoder(cls: type[Any]) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(cls)


def _read(cls: type[_R], wire: bytes) -> tuple[_R, tuple[str, ...]]:
    """The object, and what of it could not be read."""
    decoder: msgspec.json.Decoder[_R] = _decoder(cls)
    try:
        return decoder.decode(wire), ()
    except msgspec.ValidationError:
        document = _without_nulls(orjson.loads(wire))
    try:
        return decoder.decode(orjson.dumps(document)), ()
    except msgspec.ValidationError:
        if not isinstance(document, dict):
            raise
        known = tuple(part for part in cls.tolerant if part in _wire_names(cls))
        document, unread = salvaged(cls, document, known)
        return decoder.decode(orjson.dumps(document)), unread


@cache
def _wire_names(cls: type[Record]) -> frozenset[str]:
    return frozenset(field.encode_name for field in fields_of(cls))


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(item) for name, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


def _name_in(wire: bytes) -> tuple[str, str]:
    try:
        metadata = orjson.loads(wire)["metadata"]
        return str(metadata.get("name", "")), str(metadata.get("namespace", ""))
    except (ValueError, LookupError, TypeError, AttributeError):
        return "", ""


@cache
def fields_of(cls: type[Record]) -> tuple[msgspec.structs.FieldInfo, ...]:
    """The fields of a record; msgspec would read its annotations anew every time."""
    return msgspec.structs.fields(cls)


@cache
def required_fields(cls: type[Record]) -> frozenset[str]:
    """The fields, by their names here, that an object must have on the wire: those without a default, and those marked so."""
    hints = get_type_hints(cls, include_extras=True)
    return frozenset(
        field.name
        for field in fields_of(cls)
        if field.required or any(isinstance(mark, Required) for mark in getattr(hints[field.name], "__metadata__", ()))
    )


def default_of(field: msgspec.structs.FieldInfo) -> Any:
    """The default of a field that has one."""
    factory = field.default_factory
    return field.default if factory is msgspec.NODEFAULT else factory()


def known_fields(value: Any) -> Any:
    """A struct as a document of its required fields and those that differ from their defaults.

    Equal structs give equal documents.
    """
    if isinstance(value, str):
        # Most values are, and what follows is slow to find that out.
        return value
    if isinstance(value, Record):
        document: Document = {}
        required = required_fields(type(value))
        for field in fields_of(type(value)):
            item = getattr(value, field.name)
            if field.name in required or item != default_of(field):
                document[field.encode_name] = known_fields(item)
        return document
    if isinstance(value, tuple):
        return [known_fields(item) for item in value]
    if isinstance(value, Mapping):
        return {name: known_fields(item) for name, item in value.items()}
    if isinstance(value, msgspec.Raw):
        return orjson.loads(bytes(value))
    return value
