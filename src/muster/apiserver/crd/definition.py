"""Validation of CustomResourceDefinitions: the rules of `k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation`, with
upstream's fields and texts.

Upstream validates the internal version, in which schemas, subresources, columns and selectable fields that are equal in all
versions are moved to the top level; its errors name fields of that form (`spec.validation.openAPIV3Schema…`), so the same
conversion is made here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from muster.apiserver.crd.column_checks import check_columns
from muster.apiserver.crd.conversion_checks import check_conversion
from muster.apiserver.crd.go_structs import rendered_versions
from muster.apiserver.crd.schema_checks import check_schema, check_selectable_fields
from muster.kube import names
from muster.kube.fielderrors import FieldError, invalid, not_supported, required
from muster.kube.structural_schema.formats import format_check
from muster.kube.structural_schema.structural import subschemas
from muster.machinery.golang.urls import is_request_uri
from muster.machinery.objects import Object

Raw = Mapping[str, Any]
APPROVED: Final = "api-approved.kubernetes.io"
_PER_VERSION: Final = {
    "schema": "validation",
    "subresources": "subresources",
    "additionalPrinterColumns": "additionalPrinterColumns",
    "selectableFields": "selectableFields",
}
_APPROVAL: Final = "see https://github.com/kubernetes/enhancements/pull/1111"


def prepare(new: Object, old: Object | None) -> None:
    """Set the status that the server decides for a CRD that is written through the main endpoint."""
    status = dict((old or {}).get("status") or {})
    stored = list(status.get("storedVersions") or ())
    storage = next((version.get("name") for version in new.get("spec", {}).get("versions") or () if version.get("storage")), None)
    if storage is not None and storage not in stored:
        stored.append(storage)
    if old is None:
        status = {"conditions": None, "acceptedNames": {"plural": "", "kind": ""}}
    status["storedVersions"] = stored or None
    new["status"] = status


def check_definition(new: Raw, old: Raw | None) -> list[FieldError]:
    """Validate a CRD on create (old is None) or update. Generic metadata is validated elsewhere."""
    return list(_check(new, old))


def check_status(new: Raw) -> list[FieldError]:
    """Validate a status that is written through the status endpoint."""
    return list(_check_names((new.get("status") or {}).get("acceptedNames") or {}, "status.acceptedNames"))


def _check(new: Raw, old: Raw | None) -> Iterator[FieldError]:
    spec: Raw = new.get("spec") or {}
    status: Raw = new.get("status") or {}
    if old is None:
        expected = f"{(spec.get('names') or {}).get('plural') or ''}.{spec.get('group') or ''}"
        for field in ("generateName", "name"):
            given = new["metadata"].get(field)
            if given and given != expected:
                yield invalid(f"metadata.{field}", given, 'must be spec.names.plural+"."+spec.group')
    yield from _check_spec(spec, old)
    if old is not None:
        yield from _check_immutable(spec, old.get("spec") or {}, is_established(old))
    yield from _check_names(status.get("acceptedNames") or {}, "status.acceptedNames")
    yield from _check_stored_versions(status.get("storedVersions"), spec.get("versions") or [])
    yield from _check_approval(new, old)
    if spec.get("preserveUnknownFields") and not (old is not None and (old.get("spec") or {}).get("preserveUnknownFields")):
        detail = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
        yield invalid("spec.preserveUnknownFields", True, detail)


def is_established(definition: Raw) -> bool:
    conditions = (definition.get("status") or {}).get("conditions") or ()
    return any(condition["type"] == "Established" and condition["status"] == "True" for condition in conditions)


def internal_form(spec: Raw) -> Object:
    """The spec with fields that are equal in all versions moved to the top level."""
    versions = [dict(version) for version in spec.get("versions") or ()]
    form: Object = {**spec, "versions": versions}
    for field, top in _PER_VERSION.items():
        values = [version.get(field) or None for version in versions]
        if versions and all(value == values[0] for value in values):
            form[top] = values[0]
            for version in versions:
                version.pop(field, None)
    return form


def _check_spec(public: Raw, old: Raw | None) -> Iterator[FieldError]:
    spec = internal_form(public)
    versions = spec["versions"]
    unchanged = _unchanged_schemas(public, old)
    yield from _check_group(spec.get("group") or "")
    yield from _check_choice(spec.get("scope") or "", "spec.scope", ["Cluster", "Namespaced"])
    if not (spec.get("validation") or {}).get("openAPIV3Schema"):
        for index, version in enumerate(versions):
            if not (version.get("schema") or {}).get("openAPIV3Schema"):
                yield required(f"spec.versions[{index}].schema.openAPIV3Schema")
    if spec.get("preserveUnknownFields") and _has_defaults(spec):
        yield invalid("spec.preserveUnknownFields", True, "must be false in order to use defaults in the schema")
    for index, version in enumerate(versions):
        yield from _check_version(version, f"spec.versions[{index}]", spec, unchanged)
    version_names = [version.get("name") or "" for version in versions]
    if len(set(version_names)) != len(version_names):
        yield invalid("spec.versions", rendered_versions(versions), "must contain unique version names")
    if sum(bool(version.get("storage")) for version in versions) != 1:
        shown = rendered_versions(None if public.get("versions") is None else versions)
        yield invalid("spec.versions", shown, "must have exactly one version marked as storage version")
    if version_names and version_names[0] and (problems := names.dns1035_label(version_names[0])):
        yield invalid("spec.version", version_names[0], ",".join(problems))
    yield from _check_spec_names(spec.get("names") or {})
    any_status = _has_status(spec) or any(_has_status(version) for version in versions)
    yield from check_schema(spec.get("validation"), any_status, "spec.validation", unchanged.issuperset(version_names[:1]))
    yield from check_subresources(spec.get("subresources"), "spec.subresources")
    yield from check_columns(spec.get("additionalPrinterColumns"), "spec.additionalPrinterColumns")
    if spec.get("selectableFields"):
        if spec.get("validation") is None:
            yield invalid("spec.selectableFields", "", "may only be set when validations.schema is included")
        else:
            schema = (spec["validation"] or {}).get("openAPIV3Schema") or {}
            yield from check_selectable_fields(spec["selectableFields"], schema, "spec.selectableFields")
    yield from check_conversion(spec, old is not None and is_established(old))


def _unchanged_schemas(spec: Raw, old: Raw | None) -> set[str]:
    """Versions whose schema does not change."""
    if old is None:
        return set()
    before = {version.get("name"): version.get("schema") for version in (old.get("spec") or {}).get("versions") or ()}
    versions = spec.get("versions") or ()
    return {
        version["name"]
        for version in versions
        if version.get("name") in before and version.get("schema") == before[version["name"]]
    }


def _check_version(version: Raw, path: str, spec: Raw, unchanged: set[str]) -> Iterator[FieldError]:
    name = version.get("name") or ""
    problems = names.dns1035_label(name)
    if problems:
        yield invalid(f"{path}.name", name, ",".join(problems))
    yield from _check_deprecation(version, f"{path}.deprecationWarning")
    has_status = _has_status(version) or _has_status(spec)
    yield from check_schema(version.get("schema"), has_status, f"{path}.schema", name in unchanged)
    yield from check_subresources(version.get("subresources"), f"{path}.subresources")
    yield from check_columns(version.get("additionalPrinterColumns"), f"{path}.additionalPrinterColumns")
    if version.get("selectableFields"):
        schema = (version.get("schema") or spec.get("validation") or {}).get("openAPIV3Schema")
        if not (version.get("schema") or {}).get("openAPIV3Schema"):
            detail = "may only be set when `version.schema.openAPIV3Schema` is not included"
            yield invalid(f"{path}.selectableFields", "", detail)
        else:
            yield from check_selectable_fields(version["selectableFields"], schema or {}, f"{path}.selectableFields")


def _check_group(group: str) -> Iterator[FieldError]:
    problems = names.dns1123_subdomain(group)
    if not group:
        yield required("spec.group")
    elif problems:
        yield invalid("spec.group", group, ",".join(problems))
    elif "." not in group:
        yield invalid("spec.group", group, "should be a domain with at least one dot")


def _check_choice(value: str, field: str, choices: list[str]) -> Iterator[FieldError]:
    if not value:
        yield required(field)
    elif value not in choices:
        yield not_supported(field, value, choices)


def _check_deprecation(version: Raw, field: str) -> Iterator[FieldError]:
    text = version.get("deprecationWarning")
    if text is None:
        return
    if not version.get("deprecated"):
        yield invalid(field, text, "can only be set for deprecated versions")
        return
    if len(text.encode()) > 256:
        yield invalid(field, text, "must be <= 256 characters long")
    if not text:
        yield invalid(field, text, "must not be an empty string")
    bad = next((index for index, char in enumerate(text) if not char.isprintable()), None)
    if bad is not None:
        position = len(text[:bad].encode())
        detail = f"must only contain printable UTF-8 characters; non-printable character found at index {position}"
        yield invalid(field, text, detail)


def _check_spec_names(given: Raw) -> Iterator[FieldError]:
    for name in ("plural", "singular", "kind", "listKind"):
        if not given.get(name):
            yield required(f"spec.names.{name}")
    yield from _check_names(given, "spec.names")


def _check_names(given: Raw, path: str) -> Iterator[FieldError]:
    for name in ("plural", "singular"):
        value = given.get(name) or ""
        problems = names.dns1035_label(value)
        if value and problems:
            yield invalid(f"{path}.{name}", value, ",".join(problems))
    for name in ("kind", "listKind"):
        value = given.get(name) or ""
        problems = names.dns1035_label(value.lower())
        if value and problems:
            detail = "may have mixed case, but should otherwise match: " + ",".join(problems)
            yield invalid(f"{path}.{name}", value, detail)
    for index, short_name in enumerate(given.get("shortNames") or ()):
        if problems := names.dns1035_label(short_name):
            yield invalid(f"{path}.shortNames[{index}]", short_name, ",".join(problems))
    if given.get("kind") and given.get("kind") == given.get("listKind"):
        yield invalid(f"{path}.listKind", given["listKind"], "kind and listKind may not be the same")
    for index, category in enumerate(given.get("categories") or ()):
        if problems := names.dns1035_label(category):
            yield invalid(f"{path}.categories[{index}]", category, ",".join(problems))


def check_subresources(subresources: Raw | None, path: str) -> Iterator[FieldError]:
    scale = (subresources or {}).get("scale")
    if scale is None:
        return
    for name, under in (("specReplicasPath", ".spec."), ("statusReplicasPath", ".status.")):
        value, field = scale.get(name) or "", f"{path}.scale.{name}"
        if not value:
            yield required(field)
        elif not value.startswith("."):
            yield invalid(field, value, "must be a simple json path starting with .")
        elif not value.startswith(under):
            yield invalid(field, value, f"should be a json path under {under.rstrip('.')}")
    selector, field = scale.get("labelSelectorPath") or "", f"{path}.scale.labelSelectorPath"
    if selector and not selector.startswith("."):
        yield invalid(field, selector, "must be a simple json path starting with .")
    elif selector and not selector.startswith((".spec.", ".status.")):
        yield invalid(field, selector, "should be a json path under either .spec or .status")


def _check_immutable(spec: Raw, old: Raw, established: bool) -> Iterator[FieldError]:
    given, before = spec.get("names") or {}, old.get("names") or {}
    pairs = [("spec.group", spec.get("group"), old.get("group")), ("spec.names.plural", given.get("plural"), before.get("plural"))]
    if established:
        pairs = [
            ("spec.scope", spec.get("scope"), old.get("scope")),
            ("spec.names.kind", given.get("kind"), before.get("kind")),
            *pairs,
        ]
    for field, value, earlier in pairs:
        if (value or "") != (earlier or ""):
            yield invalid(field, value or "", "field is immutable")


def _check_stored_versions(stored: list[str] | None, versions: list[Raw]) -> Iterator[FieldError]:
    if not stored:
        yield invalid("status.storedVersions", stored, "must have at least one stored version")
        return
    missing = dict.fromkeys(stored)
    for version in versions:
        name = version.get("name") or ""
        if version.get("storage") and name not in missing:
            yield invalid("status.storedVersions", stored, f"must have the storage version {name}")
        missing.pop(name, None)
    for name in missing:
        detail = (
            f"missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions until a "
            f"storage migration ensures no data remains persisted in {name} and removes {name} from status.storedVersions"
        )
        yield invalid(f"status.storedVersions[{stored.index(name)}]", name, detail)


def _approval(definition: Raw) -> tuple[str, str]:
    """State of the approval annotation, and the message about it."""
    text = (definition["metadata"].get("annotations") or {}).get(APPROVED) or ""
    if not text:
        return "missing", f'protected groups must have approval annotation "{APPROVED}", {_APPROVAL}'
    if text.startswith("unapproved"):
        return "bypassed", ""
    if is_request_uri(text) and "://" in text and text.partition("://")[2].partition("/")[0]:
        return "approved", ""
    return "invalid", (
        f'protected groups must have approval annotation "{APPROVED}" with either a URL or a reason starting with '
        f'"unapproved", {_APPROVAL}'
    )


def _check_approval(new: Raw, old: Raw | None) -> Iterator[FieldError]:
    group = (new.get("spec") or {}).get("group") or ""
    if not f".{group}".endswith((".k8s.io", ".kubernetes.io")):
        return
    state, reason = _approval(new)
    if old is not None and _approval(old)[0] == state:
        return
    field = f"metadata.annotations[{APPROVED}]"
    if state == "missing":
        yield required(field, reason)
    elif state == "invalid":
        yield invalid(field, new["metadata"]["annotations"][APPROVED], reason)


def _has_status(owner: Raw) -> bool:
    return (owner.get("subresources") or {}).get("status") is not None


def _schemas(spec: Raw) -> Iterator[Raw]:
    """All schemas of a spec, including nested ones."""
    pending = [spec.get("validation"), *(version.get("schema") for version in spec.get("versions") or ())]
    stack = [owner["openAPIV3Schema"] for owner in pending if owner and owner.get("openAPIV3Schema")]
    while stack:
        raw = stack.pop()
        yield raw
        stack.extend(subschemas(raw))


def _has_defaults(spec: Raw) -> bool:
    return any(raw.get("default") is not None for raw in _schemas(spec))


def definition_warnings(new: Raw, old: Raw | None) -> list[str]:
    """Warnings about formats that are unknown, and therefore not validated."""
    known = set() if old is None else set(_unknown_formats(old))
    return [f'unrecognized format "{name}"' for name in _unknown_formats(new) if name not in known]


def _unknown_formats(definition: Raw) -> list[str]:
    spec = internal_form(definition.get("spec") or {})
    return [
        raw["format"]
        for raw in _schemas(spec)
        if raw.get("type") == "string" and raw.get("format") and format_check(raw["format"]) is None
    ]
