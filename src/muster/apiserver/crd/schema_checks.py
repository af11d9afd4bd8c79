"""Validation of the schema of one or of all versions of a CRD: structural schema, keywords, defaults, rules, and selectable fields.

The checks depend on each other as upstream: defaults are only validated in a structural schema, rules only if the schema is valid.
With a status subresource the root may not restrict the object as a whole, because status is validated separately.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from muster.apiserver.crd.go_structs import SCHEMA_FIELDS, rendered_schema
from muster.apiserver.crd.rule_checks import RuleChecker, TotalCost, default_breaks_rules
from muster.kube.fielderrors import FieldError, duplicate, forbidden, invalid, required, too_many
from muster.kube.structural_schema.default_checks import check_defaults
from muster.kube.structural_schema.fieldpaths import BadFieldPath, resolve
from muster.kube.structural_schema.keywords import check_keywords
from muster.kube.structural_schema.structural import check_structural, unsupported_keyword

Raw = Mapping[str, Any]
MAX_SELECTABLE_FIELDS: Final = 8
_ALLOWED_AT_ROOT: Final = (
    "[Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum MaxLength MinLength Pattern MaxItems "
    "MinItems UniqueItems MultipleOf Required Items Properties ExternalDocs Example XPreserveUnknownFields XValidations]"
)
_SELECTABLE: Final = (
    "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed."
)


def check_schema(validation: Raw | None, has_status: bool, path: str, unchanged: bool = False) -> Iterator[FieldError]:
    """Validate `{openAPIV3Schema: …}`. The costs of single rules of an unchanged schema are not limited."""
    raw = (validation or {}).get("openAPIV3Schema")
    if raw is None:
        return
    field = f"{path}.openAPIV3Schema"
    if has_status:
        yield from _check_root(raw, field)
    if raw.get("nullable"):
        yield forbidden(f"{field}.nullable", "nullable cannot be true at the root")
    unreadable = unsupported_keyword(raw)
    structural: list[FieldError] = []
    if not unreadable:
        structural = check_structural(raw, field) or check_defaults(raw, field, default_breaks_rules)
        yield from structural
    sound = not unreadable and not structural
    total = TotalCost()
    keywords = check_keywords(raw, field, RuleChecker(raw, total, limit_costs=not unchanged) if sound else None)
    yield from keywords
    if unreadable and not keywords:
        yield invalid(field, "", unreadable)
    yield from total.errors(field)


def _check_root(raw: Raw, field: str) -> Iterator[FieldError]:
    for name, keyword in SCHEMA_FIELDS:
        value = raw.get(keyword)
        if value is None or (value in ("", False) and keyword != "additionalProperties"):
            continue
        if name == "Type":
            if value != "object":
                detail = 'only "object" is allowed as the type at the root of the schema if the status subresource is enabled'
                yield invalid(f"{field}.type", value, detail)
                return
        elif name not in _ALLOWED_AT_ROOT.strip("[]").split(" "):
            detail = f"only {_ALLOWED_AT_ROOT} fields are allowed at the root of the schema if the status subresource is enabled"
            yield invalid(field, rendered_schema(raw), detail)
            return


def check_selectable_fields(fields: list[Raw], raw: Raw, path: str) -> Iterator[FieldError]:
    unreadable = unsupported_keyword(raw)
    if unreadable:
        yield invalid(f"{path.removesuffix('.selectableFields')}.schema.openAPIV3Schema", "", unreadable)
        return
    seen: set[str] = set()
    for index, selectable in enumerate(fields):
        json_path, field = selectable.get("jsonPath") or "", f"{path}[{index}].jsonPath"
        if not json_path:
            yield required(field)
            continue
        try:
            found = resolve(json_path, raw, brackets=False)
        except BadFieldPath as problem:
            yield invalid(field, json_path, f"is an invalid path: {problem}")
            continue
        if found.first == "metadata":
            yield invalid(field, json_path, "must not point to fields in metadata")
        if found.schema is None or found.schema.get("type") not in ("string", "boolean", "integer"):
            yield invalid(field, json_path, _SELECTABLE)
        if found.text in seen:
            yield duplicate(field, json_path)
        seen.add(found.text)
    if len(seen) > MAX_SELECTABLE_FIELDS:
        yield too_many(path, len(seen), MAX_SELECTABLE_FIELDS)
