"""Validation of the defaults in a schema.

A default must not have fields that its schema does not have, must be valid by that schema, and inside an embedded resource's type
or metadata must make those valid. Rules (`x-kubernetes-validations`) apply to defaults too; the caller passes a function that
evaluates them, because CEL is another package.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from muster.kube.fielderrors import FieldError, invalid
from muster.kube.schema_node import Schema
from muster.kube.structural_schema.embedded import check_embedded, check_resource, coerce
from muster.kube.structural_schema.prune import prune_value
from muster.kube.structural_schema.validation import SchemaValidator

Raw = Mapping[str, Any]
EvaluateRules = Callable[[Raw, Any, str], list[FieldError]]
"""Schema, value and field to the errors of the rules in that schema."""
_TYPE_META: Final = {"apiVersion": "validation/v1", "kind": "Validation"}
_META_FIELDS: Final = ("metadata", "apiVersion", "kind")


def check_defaults(raw: Raw, path: str, evaluate: EvaluateRules | None = None) -> list[FieldError]:
    """The errors of the defaults of a structural schema of a resource."""
    return list(_check(raw, path, (), False, True, evaluate))


def _check(
    raw: Raw, path: str, steps: tuple[str | int, ...], in_meta: bool, resource: bool, evaluate: EvaluateRules | None
) -> Iterator[FieldError]:
    """`steps` lead from the nearest resource to the node, `in_meta` says that they begin in its type or metadata."""
    if resource:
        steps, in_meta = (), False
    default = raw.get("default")
    if default is not None:
        if not in_meta and prune_value(copy.deepcopy(default), Schema(raw)):
            yield invalid(f"{path}.default", default, "must not have unknown fields")
        errors = _check_in_meta(default, steps) if in_meta else _check_resources_in(raw, default, f"{path}.default")
        if in_meta and errors:
            texts = [str(error) for error in errors]
            shown = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
            yield invalid(f"{path}.default", default, f"must result in valid metadata: {shown}")
        else:
            yield from errors
        if not errors:
            wrong = SchemaValidator(raw).errors(default, base=f"{path}.default")
            yield from wrong
            if not wrong and evaluate is not None:
                yield from evaluate(raw, default, f"{path}.default")
    items = raw.get("items")
    if isinstance(items, Mapping):
        embedded = bool(items.get("x-kubernetes-embedded-resource"))
        yield from _check(items, f"{path}.items", (*steps, 0), in_meta, embedded, evaluate)
    is_resource = resource or bool(raw.get("x-kubernetes-embedded-resource"))
    for name, child in (raw.get("properties") or {}).items():
        yield from _check(
            child,
            f"{path}.properties[{name}]",
            (*steps, name),
            in_meta or (is_resource and name in _META_FIELDS),
            bool(child.get("x-kubernetes-embedded-resource")),
            evaluate,
        )


def _check_resources_in(raw: Raw, default: Any, field: str) -> list[FieldError]:
    inside = {"default": copy.deepcopy(default)}
    wrapped = Schema({"properties": {"default": raw}})
    parent = field.removesuffix(".default")
    problem = coerce(inside, wrapped)[1]
    found = [problem] if problem is not None else check_embedded(inside, wrapped)
    return [FieldError(error.reason, f"{parent}.{error.field}", error.value, error.detail) for error in found]


def _check_in_meta(default: Any, steps: tuple[str | int, ...]) -> list[FieldError]:
    value = copy.deepcopy(default)
    for step in reversed(steps):
        value = [value] if isinstance(step, int) else {step: value}
    return check_resource({**_TYPE_META, **value}, "")
