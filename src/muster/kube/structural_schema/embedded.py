"""Resources inside resources: `x-kubernetes-embedded-resource` fields carry apiVersion, kind and metadata of their own.

`coerce` runs when an object arrives: it drops what ObjectMeta does not know from embedded metadata (returning the paths, for strict
decoding) and refuses metadata of the wrong shape. `check_embedded` runs with validation and applies the rules every resource's type
and metadata obey. The resource itself is not looked at here, the server does that for all kinds alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from muster.kube import names
from muster.kube.fielderrors import FieldError, invalid, required
from muster.kube.schema_node import Schema
from muster.kube.structural_schema.formats import is_date_time
from muster.machinery.golang.quoting import quote

_STRING_MAP: Final = {"labels", "annotations"}
_TIMES: Final = {"creationTimestamp", "deletionTimestamp"}
_STRINGS: Final = {"name", "generateName", "namespace", "selfLink", "uid", "resourceVersion"} | _TIMES
_INTEGERS: Final = {"generation", "deletionGracePeriodSeconds"}
_LISTS: Final = {"ownerReferences", "finalizers", "managedFields"}
_META_FIELDS: Final = _STRING_MAP | _STRINGS | _INTEGERS | _LISTS
_OWNER_FIELDS: Final = {"apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion"}
_MANAGED_FIELDS: Final = {"manager", "operation", "apiVersion", "time", "fieldsType", "fieldsV1", "subresource"}
_INNER_FIELDS: Final = {"ownerReferences": _OWNER_FIELDS, "managedFields": _MANAGED_FIELDS}
_GO_NAME: Final = {
    "string": "string",
    "int64": "int64",
    "labels": "map[string]string",
    "finalizers": "[]string",
    "ownerReferences": "[]v1.OwnerReference",
    "ownerReference": "v1.OwnerReference",
    "managedFields": "[]v1.ManagedFieldsEntry",
    "managedField": "v1.ManagedFieldsEntry",
}
_PYTHON_TYPE: Final[dict[str, type]] = {
    "string": str,
    "labels": dict,
    "finalizers": list,
    "ownerReferences": list,
    "ownerReference": dict,
    "managedFields": list,
    "managedField": dict,
}
_GO_TYPE: Final = {str: "string", bool: "bool", int: "number", float: "number", list: "array", dict: "object"}

EmbeddedResource = tuple[dict[str, Any], str]
Finder = Callable[[Any, str], Iterator[EmbeddedResource]]


def embedded_resources(obj: dict[str, Any], schema: Schema) -> Iterator[EmbeddedResource]:
    """Every embedded resource in an object together with its path."""
    if "embedded" not in schema.memo:
        schema.memo["embedded"] = _compile(schema, root=True)
    find: Finder | None = schema.memo["embedded"]
    return iter(()) if find is None else find(obj, "")


def coerce(obj: dict[str, Any], schema: Schema) -> tuple[list[str], FieldError | None]:
    """Clean embedded metadata in place: sorted paths of dropped fields, and the first malformed field if there is one."""
    unknown: list[str] = []
    for resource, path in embedded_resources(obj, schema):
        for name in ("apiVersion", "kind"):
            if name in resource and not isinstance(resource[name], str):
                return sorted(unknown), invalid(f"{path}.{name}", resource[name], "must be a string")
        if "metadata" in resource:
            problem = malformed_metadata(resource["metadata"])
            if problem:
                return sorted(unknown), invalid(f"{path}.metadata", resource["metadata"], problem)
            unknown += [f"{path}.metadata.{name}" for name in clean_metadata(resource["metadata"])]
    return sorted(unknown), None


def check_embedded(obj: dict[str, Any], schema: Schema) -> list[FieldError]:
    """Type and metadata rules of embedded resources."""
    return [error for resource, path in embedded_resources(obj, schema) for error in check_resource(resource, path)]


def check_resource(resource: dict[str, Any], path: str) -> list[FieldError]:
    """The rules one resource's apiVersion, kind and metadata obey, wherever it sits."""
    errors = [required(_at(path, name)) for name in ("apiVersion", "kind") if name not in resource]
    if "apiVersion" in resource:
        errors += _check_api_version(resource["apiVersion"], _at(path, "apiVersion"))
    if "kind" in resource:
        errors += _check_kind(resource["kind"], _at(path, "kind"))
    if "metadata" in resource:
        problem = malformed_metadata(resource["metadata"])
        if problem:
            errors.append(invalid(_at(path, "metadata"), resource["metadata"], problem))
        else:
            errors += _check_meta(resource["metadata"], _at(path, "metadata"))
    return errors


def _compile(schema: Schema, root: bool = False) -> Finder | None:
    children = {name: inside for name, node in schema.properties.items() if (inside := _compile(node)) is not None}
    described = schema.additional if schema.raw.get("additionalProperties") is not True else None
    others = None if described is None else _compile(described)
    items = None if schema.items is None else _compile(schema.items)
    here = schema.embedded_resource and not root
    if not children and others is None and items is None and not here:
        return None

    def find(value: Any, path: str) -> Iterator[EmbeddedResource]:
        if value.__class__ is dict:
            if here:
                yield value, path
            for name, field in list(value.items()):
                if name in children:
                    yield from children[name](field, f"{path}.{name}" if path else name)
                elif others is not None and name not in schema.properties:
                    yield from others(field, f"{path}[{name}]")
        elif value.__class__ is list and items is not None:
            for index, item in enumerate(value):
                yield from items(item, f"{path}[{index}]")

    return find


def _at(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def malformed_metadata(metadata: Any) -> str:
    """Why a value cannot be read as ObjectMeta, empty if it can."""
    if metadata is None:
        return ""
    if not isinstance(metadata, dict):
        return f"json: cannot unmarshal {_GO_TYPE[type(metadata)]} into Go value of type v1.ObjectMeta"
    for name, value in metadata.items():
        if value is None or name not in _META_FIELDS:
            continue
        if name in _TIMES and isinstance(value, str) and value and not is_date_time(value):
            return f'parsing time {quote(value)} as "2006-01-02T15:04:05Z07:00": cannot parse {quote(value)} as "2006"'
        for part, expected in _parts(name, value):
            if part is not None and not _fits(part, expected):
                found = _GO_TYPE[type(part)]
                return f"json: cannot unmarshal {found} into Go struct field ObjectMeta.{name} of type {_GO_NAME[expected]}"
    return ""


def _parts(name: str, value: Any) -> Iterator[tuple[Any, str]]:
    """A metadata field and its elements, each with what it has to be."""
    if name in _STRINGS:
        yield value, "string"
    elif name in _INTEGERS:
        yield value, "int64"
    elif name in _STRING_MAP:
        yield value, "labels"
        yield from ((item, "string") for item in value.values())
    else:
        yield value, name
        yield from ((item, "string" if name == "finalizers" else name[:-1]) for item in value)


def _fits(value: Any, expected: str) -> bool:
    if expected == "int64":
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, _PYTHON_TYPE[expected])


def clean_metadata(metadata: dict[str, Any] | None) -> list[str]:
    """Remove unknown, null and empty fields, and make nulls inside of maps and lists empty values, as Go reads them; returns the
    names of the unknown ones."""
    if metadata is None:
        return []
    _fill_nulls(metadata)
    unknown = [name for name in metadata if name not in _META_FIELDS]
    for field, known in _INNER_FIELDS.items():
        for index, entry in enumerate(metadata.get(field) or ()):
            extra = [name for name in entry if name not in known]
            unknown += [f"{field}[{index}].{name}" for name in extra]
            for name in extra:
                del entry[name]
    for name in [name for name, value in metadata.items() if name not in _META_FIELDS or value in (None, "", {}, [])]:
        del metadata[name]
    return unknown


def _fill_nulls(metadata: dict[str, Any]) -> None:
    for name in _STRING_MAP:
        if value := metadata.get(name):
            metadata[name] = {key: "" if item is None else item for key, item in value.items()}
    if value := metadata.get("finalizers"):
        metadata["finalizers"] = ["" if item is None else item for item in value]
    for name in _INNER_FIELDS:
        if value := metadata.get(name):
            metadata[name] = [{} if item is None else item for item in value]


def _check_api_version(value: Any, field: str) -> list[FieldError]:
    if not isinstance(value, str):
        return [invalid(field, value, "must be a string")]
    if not value:
        return [invalid(field, value, "must not be empty")]
    if value.count("/") > 1:
        return [invalid(field, value, f"unexpected GroupVersion string: {value}")]
    return []


def _check_kind(value: Any, field: str) -> list[FieldError]:
    if not isinstance(value, str):
        return [invalid(field, value, "must be a string")]
    if not value:
        return [invalid(field, value, "must not be empty")]
    problems = names.dns1035_label(value.lower())
    return [invalid(field, value, "may have mixed case, but should otherwise match: " + ",".join(problems))] if problems else []


def _check_meta(metadata: dict[str, Any] | None, field: str) -> list[FieldError]:
    meta = metadata or {}
    errors = [
        invalid(f"{field}.{name}", meta[name], message)
        for name in ("generateName", "name")
        if meta.get(name)
        for message in names.path_segment(meta[name], prefix=name == "generateName")
    ]
    if meta.get("namespace"):
        errors += [invalid(f"{field}.namespace", meta["namespace"], text) for text in names.dns1123_label(meta["namespace"])]
    if (meta.get("generation") or 0) < 0:
        errors.append(invalid(f"{field}.generation", meta["generation"], "must be greater than or equal to 0"))
    errors += names.check_labels(meta.get("labels") or {}, f"{field}.labels")
    errors += names.check_annotations(meta.get("annotations") or {}, f"{field}.annotations")
    errors += _check_owners(meta.get("ownerReferences") or [], f"{field}.ownerReferences")
    for finalizer in meta.get("finalizers") or []:
        errors += [invalid(f"{field}.finalizers", finalizer, text) for text in names.qualified_name(str(finalizer))]
    for index, entry in enumerate(meta.get("managedFields") or []):
        if entry.get("operation") not in ("Apply", "Update"):
            wrong = entry.get("operation") or ""
            errors.append(invalid(f"{field}.managedFields[{index}].operation", wrong, "must be `Apply` or `Update`"))
        if entry.get("fieldsType") not in (None, "", "FieldsV1"):
            errors.append(invalid(f"{field}.managedFields[{index}].fieldsType", entry["fieldsType"], "must be `FieldsV1`"))
    return errors


def _check_owners(owners: list[Any], field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    controllers: list[str] = []
    for owner in owners:
        api_version = owner.get("apiVersion") or ""
        if not api_version.rpartition("/")[2]:
            errors.append(invalid(f"{field}.apiVersion", api_version, "version must not be empty"))
        for name in ("kind", "name", "uid"):
            if not owner.get(name):
                errors.append(invalid(f"{field}.{name}", "", "must not be empty"))
        if (api_version, owner.get("kind")) == ("v1", "Event"):
            errors.append(invalid(field, owner, "/v1, Kind=Event is disallowed from being an owner"))
        if owner.get("controller"):
            controllers.append(f"{owner.get('kind')}/{owner.get('name')}")
    for other in controllers[1:]:
        detail = f'Only one reference can have Controller set to true. Found "true" in references for {controllers[0]} and {other}'
        errors.append(invalid(field, owners, detail))
    return errors
