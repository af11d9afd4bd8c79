"""Decodes free-form objects of a policy as OLM's Go types: unknown fields and values of the wrong type are errors.

Follows `encoding/json` with DisallowUnknownFields, with its order of errors and its messages: names match case-insensitively,
`null` means absent, and empty values are omitted for fields with omitempty. Types of Kubernetes are decoded as deep as policies
use them; below that, OLM's CustomResourceDefinitions validate.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from muster.machinery.golang.quoting import quote

SUBSCRIPTION_SPEC: Final = "v1alpha1.SubscriptionSpec"
OPERATOR_GROUP_SPEC: Final = "v1.OperatorGroupSpec"

_STRUCTS: Final[Mapping[str, Mapping[str, str]]] = {
    SUBSCRIPTION_SPEC: {
        "source": "string",
        "sourceNamespace": "string",
        "name": "string",
        "channel": "string",
        "startingCSV": "string",
        "installPlanApproval": "v1alpha1.Approval",
        "config": "v1alpha1.SubscriptionConfig",
    },
    "v1alpha1.SubscriptionConfig": {
        "selector": "v1.LabelSelector",
        "nodeSelector": "map[string]string",
        "tolerations": "[]v1.Toleration",
        "resources": "v1.ResourceRequirements",
        "envFrom": "[]v1.EnvFromSource",
        "env": "[]v1.EnvVar",
        "volumes": "[]v1.Volume",
        "volumeMounts": "[]v1.VolumeMount",
        "affinity": "v1.Affinity",
        "annotations": "map[string]string",
    },
    OPERATOR_GROUP_SPEC: {
        "selector": "v1.LabelSelector",
        "targetNamespaces": "[]string",
        "serviceAccountName": "string",
        "staticProvidedAPIs": "bool",
        "upgradeStrategy": "v1.UpgradeStrategy",
    },
    "v1.LabelSelector": {"matchLabels": "map[string]string", "matchExpressions": "[]v1.LabelSelectorRequirement"},
    "v1.LabelSelectorRequirement": {"key": "string", "operator": "v1.LabelSelectorOperator", "values": "[]string"},
    "v1.Toleration": {
        "key": "string",
        "operator": "v1.TolerationOperator",
        "value": "string",
        "effect": "v1.TaintEffect",
        "tolerationSeconds": "int64",
    },
    "v1.EnvVar": {"name": "string", "value": "string", "valueFrom": "v1.EnvVarSource"},
    "v1.EnvFromSource": {"prefix": "string", "configMapRef": "v1.ConfigMapEnvSource", "secretRef": "v1.SecretEnvSource"},
}
_WORDS: Final = frozenset(
    (
        "string",
        "v1alpha1.Approval",
        "v1.UpgradeStrategy",
        "v1.LabelSelectorOperator",
        "v1.TolerationOperator",
        "v1.TaintEffect",
    )
)
"""Go types whose values are strings."""
_ALWAYS: Final = frozenset(("source", "sourceNamespace", "name", "key", "operator"))
"""Fields that are written even if empty."""


class FieldError(Exception):
    """The message is encoding/json's; it contains no value."""


def read_struct(value: Any, go_type: str) -> Any:
    """The value as the Go type would be encoded again. Raises FieldError."""
    return _read(value, go_type, "", ())


def _read(value: Any, go_type: str, struct: str, path: tuple[str, ...]) -> Any:
    if value is None:
        return None
    if go_type.startswith("[]"):
        _expect(isinstance(value, list), value, go_type, struct, path)
        return [_read(item, go_type[2:], struct, path) for item in value]
    if go_type == "map[string]string":
        _expect(isinstance(value, dict), value, go_type, struct, path)
        return {key: _read(item, "string", struct, path) or "" for key, item in sorted(value.items())}
    if go_type in _WORDS:
        _expect(isinstance(value, str), value, go_type, struct, path)
        return value
    if go_type == "bool":
        _expect(isinstance(value, bool), value, go_type, struct, path)
        return value
    if go_type == "int64":
        _expect(isinstance(value, int) and not isinstance(value, bool), value, go_type, struct, path)
        return value
    _expect(isinstance(value, dict), value, go_type, struct, path)
    fields = _STRUCTS.get(go_type)
    return value if fields is None else _fields(value, fields, go_type.rpartition(".")[2], path)


def _fields(value: Mapping[str, Any], fields: Mapping[str, str], struct: str, path: tuple[str, ...]) -> dict[str, Any]:
    by_lower = {name.lower(): name for name in fields}
    result: dict[str, Any] = {}
    for key in sorted(value):
        name = key if key in fields else by_lower.get(key.lower())
        if name is None:
            raise FieldError(f"json: unknown field {quote(key)}")
        read = _read(value[key], fields[name], struct, (*path, name))
        if read is not None:
            result[name] = read
    return {name: read for name, read in result.items() if name in _ALWAYS or not _is_empty(read, fields[name])}


def _is_empty(value: Any, go_type: str) -> bool:
    """Whether `omitempty` omits it; pointers to structs are never empty."""
    return value in ("", False, 0) or (value in ([], {}) and (go_type.startswith(("[]", "map["))))


def _expect(fits: bool, value: Any, go_type: str, struct: str, path: tuple[str, ...]) -> None:
    if fits:
        return
    where = f"Go struct field {struct}.{'.'.join(path)}" if path else "Go value"
    raise FieldError(f"json: cannot unmarshal {_word(value)} into {where} of type {go_type}")


def _word(value: Any) -> str:
    match value:
        case bool():
            return "bool"
        case str():
            return "string"
        case list():
            return "array"
        case dict():
            return "object"
        case _:
            return "number"
