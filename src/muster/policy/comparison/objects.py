"""Compares a template with an object, key by key.

Only keys of the template are compared. In metadata these are labels and annotations; the status is compared and reported
separately, because only its owner writes it. With `mustonlyhave`, top-level keys that the template lacks are removed.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson

from muster.machinery.objects import Object
from muster.policy.comparison.equivalence import equivalent, text_of
from muster.policy.comparison.merge import Merged, merge

LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_SECURITY_CONTEXT_PREFIX: Final = "openshift.io/sa.scc."
_UNCOMPARED: Final = frozenset(("apiVersion", "kind"))
_KEPT: Final = frozenset(("apiVersion", "kind", "metadata", "status"))
_KEPT_IN_SERVICE_ACCOUNTS: Final = frozenset(("secrets", "imagePullSecrets"))
_GO_TYPES: Final[Mapping[type, str]] = {
    str: "string",
    bool: "bool",
    int: "int64",
    float: "float64",
    dict: "map[string]interface {}",
    list: "[]interface {}",
    type(None): "<nil>",
}

_LINE_ENDS: Final = {ord("\r"): None, ord("\n"): None}


class ComparisonError(Exception):
    """Template and object cannot be compared; the policy reports the message."""

    def __init__(self, text: str, *, without_values: str = "") -> None:
        super().__init__(text)
        self.without_values = without_values or text
        """The message if templates have read Secrets."""


@dataclass(frozen=True)
class Comparison:
    """The result of comparing a template with an object."""

    merged: Object
    """The object with the template applied; it shares unchanged parts with the existing object."""
    mismatch: bool
    """Whether anything except the status differs."""
    missing_key: bool = False
    """Whether fields of the template do not exist in the object, which may be equivalent: a dry run decides."""
    status_mismatch: bool = False


@dataclass(frozen=True)
class _Key:
    merged: Any
    mismatch: bool
    missing_key: bool


def is_mustonlyhave(compliance: str) -> bool:
    return compliance.lower() == "mustonlyhave"


def compare(template: Object, existing: Object, *, compliance: str, metadata_compliance: str = "") -> Comparison:
    """The differences between an object and a template. Raises ComparisonError."""
    merged = dict(existing)
    plain = without_noise(existing)
    mismatch = missing_key = status_mismatch = False
    for key in template:
        if key in _UNCOMPARED:
            continue
        rule = metadata_compliance if key == "metadata" and metadata_compliance else compliance
        found = _compare_key(key, template, plain, only=is_mustonlyhave(rule), zero_is_absent=False)
        missing_key = missing_key or found.missing_key
        if key == "metadata":
            merged[key] = _merged_metadata(existing.get(key) or {}, found.merged)
        else:
            merged[key] = found.merged
        if key == "status":
            status_mismatch = found.mismatch
        else:
            mismatch = mismatch or found.mismatch
    if is_mustonlyhave(compliance):
        for key in _extra_keys(template, existing):
            del merged[key]
            mismatch = True
    return Comparison(merged, mismatch, missing_key, status_mismatch)


def matches(template: Object, existing: Object, *, compliance: str) -> bool:
    """Whether an object matches a template without a name. Makes no request: absent fields count as zero values."""
    for key in template:
        if key in _UNCOMPARED:
            continue
        try:
            if _compare_key(key, template, existing, only=is_mustonlyhave(compliance), zero_is_absent=True).mismatch:
                return False
        except ComparisonError:
            return False
    return True


def identical(one: Object, other: Object) -> bool:
    """Whether two documents are equal: unlike with Python's `==`, 1, 1.0 and true differ."""
    return orjson.dumps(one, option=orjson.OPT_SORT_KEYS) == orjson.dumps(other, option=orjson.OPT_SORT_KEYS)


def without_noise(obj: Object) -> Object:
    """The object without fields that change by themselves: managedFields, kubectl's last-applied annotation and the generation."""
    metadata = {key: value for key, value in (obj.get("metadata") or {}).items() if key not in ("managedFields", "generation")}
    annotations = metadata.get("annotations")
    if isinstance(annotations, dict):
        metadata["annotations"] = _without_last_applied(annotations)
    if not metadata.get("annotations"):
        metadata.pop("annotations", None)
    return {**obj, "metadata": metadata}


def _without_last_applied(annotations: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in annotations.items() if key != LAST_APPLIED}


def _extra_keys(template: Object, existing: Object) -> list[str]:
    kept = _KEPT
    if existing.get("kind") == "ServiceAccount" and existing.get("apiVersion") == "v1":
        kept |= _KEPT_IN_SERVICE_ACCOUNTS
    return [key for key in existing if key not in template and key not in kept]


def _compare_key(key: str, template: Object, existing: Object, *, only: bool, zero_is_absent: bool) -> _Key:
    wanted = _comparable_metadata(template[key]) if key == "metadata" else template[key]
    value = existing.get(key)
    merged = _merge_key(key, wanted, value, only, zero_is_absent)
    result = merged.value
    if key == "metadata":
        result, value = _metadata_pair(result, value or {}, is_namespace=_is_namespace(template))
    elif key == "stringData" and existing.get("kind") == "Secret":
        value = _decoded_data(existing)
    equal, missing = equivalent(result, value, zero_is_absent=zero_is_absent)
    return _Key(result, not equal, key not in existing or merged.missing_key or missing)


def _merge_key(key: str, wanted: Any, value: Any, only: bool, zero_is_absent: bool) -> Merged:
    if not isinstance(wanted, dict | list) or value is None:
        return Merged(wanted)
    if type(wanted) is not type(value):
        raise ComparisonError(f'Error merging changes into key "{key}": object type of template and existing do not match')
    return Merged(wanted) if only else merge(wanted, value, zero_is_absent=zero_is_absent)


def _is_namespace(obj: Object) -> bool:
    return obj.get("kind") == "Namespace" and obj.get("apiVersion") == "v1"


def _comparable_metadata(metadata: Any) -> dict[str, Any]:
    if not isinstance(metadata, dict):
        return {}
    result = {key: metadata[key] for key in ("labels", "annotations") if key in metadata}
    if isinstance(result.get("annotations"), dict):
        result["annotations"] = _without_last_applied(result["annotations"])
    return result


def _metadata_pair(
    merged: dict[str, Any], existing: dict[str, Any], *, is_namespace: bool
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The compared parts of merged and existing metadata. Annotations that OpenShift adds to a Namespace are no mismatch."""
    wanted, found = _comparable_metadata(merged), _comparable_metadata(existing)
    for key in ("labels", "annotations"):
        if key not in wanted:
            found.pop(key, None)
    annotations, present = wanted.get("annotations"), found.get("annotations")
    if is_namespace and isinstance(annotations, dict) and isinstance(present, dict):
        kept = {key: value for key, value in present.items() if key.startswith(_SECURITY_CONTEXT_PREFIX)}
        wanted["annotations"] = kept | annotations
    return wanted, found


def _merged_metadata(existing: Mapping[str, Any], merged: Mapping[str, Any]) -> dict[str, Any]:
    result = dict(existing)
    for key, noun in (("annotations", "annotation"), ("labels", "label")):
        if key in merged:
            result[key] = _strings(merged[key], noun)
    return result


def _strings(value: Any, noun: str) -> dict[str, str]:
    if not isinstance(value, dict):
        problem = f"is of the type {_GO_TYPES[type(value)]}, expected map[string]interface{{}}"
        raise ComparisonError(
            f"invalid {noun}, error: {text_of(value)} {problem}", without_values=f"invalid {noun}, error: the value {problem}"
        )
    for key, item in value.items():
        if not isinstance(item, str):
            prefix = f"invalid {noun}, error: contains non-string value in the map"
            where = f"under key {orjson.dumps(key).decode()}"
            problem = f"is of the type {_GO_TYPES[type(item)]}, expected string"
            raise ComparisonError(f"{prefix} {where}: {text_of(item)} {problem}", without_values=f"{prefix}: the value {problem}")
    return value


def _decoded_data(secret: Object) -> dict[str, str]:
    """A Secret's data in the form of `stringData`, which the server never returns."""
    data = secret.get("data", {})
    if not isinstance(data, dict) or not all(isinstance(value, str) for value in data.values()):
        raise ComparisonError("Error accessing encoded data")
    try:
        return {key: _decoded(value) for key, value in data.items()}
    except binascii.Error as error:
        name = (secret.get("metadata") or {}).get("name", "")
        raise ComparisonError(f"Error decoding secret: {name}") from error


def _decoded(text: str) -> str:
    """Data that is not UTF-8 becomes a string that no template can contain."""
    return base64.b64decode(text.translate(_LINE_ENDS), validate=True).decode(errors="surrogateescape")
