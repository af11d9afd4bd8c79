"""The input of a dry run: a ConfigurationPolicy, or the first one in a Policy, set to inform and with an owner."""

from __future__ import annotations

from types import UnionType
from typing import Annotated, Any, Final, get_args, get_origin, get_type_hints

import msgspec

from muster.api.policy.v1 import ConfigurationPolicy, ConfigurationPolicySpec
from muster.api.resource import MalformedObject
from muster.kube.yaml import YAMLError, load
from muster.machinery.objects import Object

API_VERSION: Final = ConfigurationPolicy.resource.api_version
_INTERVAL: Final = "10s"
_DECODE_ERROR: Final = "could not unmarshal input to a ConfigurationPolicy"


class InvalidPolicy(Exception):
    """The input is not a policy that can be evaluated."""


def read_policy(text: str | bytes) -> tuple[Object, list[str]]:
    """The policy, and notes about the input. Raises InvalidPolicy."""
    duplicates: list[str] = []
    try:
        document = load(text, duplicates)
    except YAMLError as error:
        raise InvalidPolicy(str(error)) from error
    if duplicates:
        raise InvalidPolicy(f"duplicate fields: {', '.join(duplicates)}")
    if not isinstance(document, dict) or document.get("apiVersion") != API_VERSION:
        found = document.get("apiVersion") if isinstance(document, dict) else None
        raise InvalidPolicy(f"unsupported apiVersion: {found or ''}, the input policy must be '{API_VERSION}'")
    notes: list[str] = []
    kind = document.get("kind")
    if kind == "Policy":
        document = _of_policy(document, notes)
    elif kind != "ConfigurationPolicy":
        raise InvalidPolicy(f"unsupported input kind: {kind or ''}, must be 'Policy' or 'ConfigurationPolicy'")
    spec, metadata = _fitted(document.get("spec") or {}, ConfigurationPolicySpec), document.get("metadata") or {}
    if not isinstance(metadata, dict):
        raise InvalidPolicy(f"{_DECODE_ERROR}: the metadata must be an object")
    interval = {"compliant": _INTERVAL, "noncompliant": _INTERVAL}
    policy = {
        **document,
        "metadata": metadata,
        "spec": {**spec, "remediationAction": "inform", "evaluationInterval": interval},
    }
    try:
        ConfigurationPolicy.decode(policy)
    except MalformedObject as error:
        raise InvalidPolicy(f"{_DECODE_ERROR}: {error.problem}") from error
    return policy, notes


def _of_policy(document: Object, notes: list[str]) -> Object:
    spec = document.get("spec") or {}
    templates = spec.get("policy-templates") if isinstance(spec, dict) else None
    if not isinstance(templates, list):
        raise InvalidPolicy("invalid input Policy: no policy-templates found")
    found = [definition for definition in map(_definition, templates) if definition.get("kind") == "ConfigurationPolicy"]
    if not found:
        raise InvalidPolicy("invalid input Policy: it must contain a ConfigurationPolicy")
    notes += ["Ignoring additional ConfigurationPolicy in input policy"] * (len(found) - 1)
    return found[0]


def _definition(template: Any) -> Object:
    definition = template.get("objectDefinition") if isinstance(template, dict) else None
    return definition if isinstance(definition, dict) else {}


def _fitted(value: Any, shape: Any) -> Any:
    """A document of this shape, with the API's spelling of its fields: Go matches field names case-insensitively."""
    if get_origin(shape) is Annotated:
        return _fitted(value, get_args(shape)[0])
    if get_origin(shape) is tuple and isinstance(value, list):
        return [_fitted(item, get_args(shape)[0]) for item in value]
    if get_origin(shape) is UnionType and value is not None:
        return _fitted(value, next(arm for arm in get_args(shape) if arm is not type(None)))
    if not (isinstance(shape, type) and issubclass(shape, msgspec.Struct)):
        return value
    if not isinstance(value, dict):
        raise InvalidPolicy(f"{_DECODE_ERROR}: {shape.__name__} must be an object")
    hints = get_type_hints(shape, include_extras=True)
    known = {field.encode_name.lower(): (field.encode_name, hints[field.name]) for field in msgspec.structs.fields(shape)}
    fitted: Object = {}
    for key, item in value.items():
        if key.lower() not in known:
            raise InvalidPolicy(f'{_DECODE_ERROR}: json: unknown field "{key}"')
        name, inner = known[key.lower()]
        fitted[name] = _fitted(item, inner)
    return fitted
