"""The part of a policy in which hub templates are resolved, and which is kept as its last resolved state.

It is upstream's stripped copy: names, generation, uid and spec; labels, annotations and status are not looked at.
Parts of the spec that Go's types write although they are empty are in it too, so that a template's errors name the lines that
upstream's do, and either controller can read what the other has kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import orjson

from muster.api.policy.v1 import ConfigurationPolicy
from muster.api.policy.v1beta1 import OperatorPolicy
from muster.api.resource import MalformedObject, TypedObject
from muster.machinery.objects import Object
from muster.policy.names import DISABLE_TEMPLATES_ANNOTATION, HUB_DELIMITERS
from muster.policy.standalone.interfaces import HubTemplateError

LARGEST_POLICY: Final = 1024 * 1024
"""Bytes of a resolved policy, as JSON: what a Secret can hold."""
_IDENTITY: Final = ("name", "namespace", "uid", "generation")
_GO_TRUE: Final = frozenset(("1", "t", "T", "TRUE", "true", "True"))
"""What strconv.ParseBool takes for true."""
_START: Final = HUB_DELIMITERS[0].encode()
_KINDS: Final[Mapping[str, type[TypedObject]]] = {kind.resource.kind: kind for kind in (ConfigurationPolicy, OperatorPolicy)}
_EMPTY_PARTS: Final[Mapping[str, tuple[str, ...]]] = {
    "ConfigurationPolicy": ("customMessage", "evaluationInterval", "namespaceSelector"),
    "OperatorPolicy": ("complianceConfig", "removalBehavior"),
}
_EMPTY_STATUS: Final[Mapping[str, Object]] = {"OperatorPolicy": {"relatedObjects": None}}


def has_templates_disabled(policy: Object) -> bool:
    annotations = policy["metadata"].get("annotations") or {}
    return annotations.get(DISABLE_TEMPLATES_ANNOTATION, "") in _GO_TRUE


def has_hub_templates(value: Any) -> bool:
    return _START in orjson.dumps(value)


def stripped(policy: Object) -> Object:
    kind, metadata = policy["kind"], policy["metadata"]
    return {
        "apiVersion": policy["apiVersion"],
        "kind": kind,
        "metadata": {field: metadata[field] for field in _IDENTITY},
        "spec": {**{part: {} for part in _EMPTY_PARTS.get(kind, ())}, **policy["spec"]},
        "status": _EMPTY_STATUS.get(kind, {}),
    }


def is_same_policy(document: object, policy: Object) -> bool:
    """Whether a document is of this very policy: kind, name, namespace, uid and generation."""
    if not isinstance(document, dict) or not isinstance(metadata := document.get("metadata"), dict):
        return False
    same_kind = all(document.get(field) == policy[field] for field in ("apiVersion", "kind"))
    return same_kind and all(metadata.get(field) == policy["metadata"][field] for field in _IDENTITY)


def resolved_document(value: object, document: Object) -> Object:
    """What a resolver made of a stripped policy, when that is the same policy still, and one that can be read.

    Raises HubTemplateError: text that a template put in may have changed more than its place.
    """
    if not isinstance(value, dict) or not is_same_policy(value, document):
        raise HubTemplateError("failed to resolve the template: what the hub templates gave changes what the policy is")
    size = len(orjson.dumps(value))
    if size > LARGEST_POLICY:
        raise HubTemplateError(f"failed to resolve the template: a policy of {size} bytes cannot be kept; {LARGEST_POLICY} can")
    if has_hub_templates(value.get("spec")):
        raise HubTemplateError("failed to resolve the template: what was read from the hub contains hub templates")
    try:
        _KINDS[document["kind"]].decode(value)
    except MalformedObject as error:
        raise HubTemplateError(f"failed to convert the resolved template to a policy: {error.problem}") from error
    return value
