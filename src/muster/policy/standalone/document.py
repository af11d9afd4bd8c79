"""The part of a policy in which hub templates are resolved, and which is saved as its last resolved state.

It is upstream's stripped copy: names, generation, uid and spec, without labels, annotations and status. It contains fields of
the spec that Go's types write even if empty, so that errors of templates have the same line numbers as upstream's, and either
controller can read the state that the other has saved.
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

MAX_POLICY_SIZE: Final = 1024 * 1024
"""Bytes of a resolved policy, as JSON, that fit into a Secret."""
_IDENTITY: Final = ("name", "namespace", "uid", "generation")
_GO_TRUE: Final = frozenset(("1", "t", "T", "TRUE", "true", "True"))
"""Values that strconv.ParseBool parses as true."""
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
    """Whether a document has the policy's kind, name, namespace, uid and generation."""
    if not isinstance(document, dict) or not isinstance(metadata := document.get("metadata"), dict):
        return False
    same_kind = all(document.get(field) == policy[field] for field in ("apiVersion", "kind"))
    return same_kind and all(metadata.get(field) == policy["metadata"][field] for field in _IDENTITY)


def resolved_document(value: object, document: Object) -> Object:
    """The resolver's output for a stripped policy, after validation.

    Raises HubTemplateError: the output of a template may have changed other parts of the document.
    """
    if not isinstance(value, dict) or not is_same_policy(value, document):
        raise HubTemplateError("failed to resolve the template: the output of the hub templates changes the identity of the policy")
    size = len(orjson.dumps(value))
    if size > MAX_POLICY_SIZE:
        raise HubTemplateError(
            f"failed to resolve the template: a policy of {size} bytes cannot be saved; the limit is {MAX_POLICY_SIZE}"
        )
    if has_hub_templates(value.get("spec")):
        raise HubTemplateError("failed to resolve the template: what was read from the hub contains hub templates")
    try:
        _KINDS[document["kind"]].decode(value)
    except MalformedObject as error:
        raise HubTemplateError(f"failed to convert the resolved template to a policy: {error.problem}") from error
    return value
