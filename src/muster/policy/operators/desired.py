"""The desired Subscription and OperatorGroup, from a policy's resolved `subscription` and `operatorGroup`.

Both are free-form objects in the policy that mix names with fields of the spec. Problems are reported with upstream's messages,
and without values that a template may have read from a Secret.
"""

from __future__ import annotations

from typing import Any

from muster.kube.names import dns1123_label
from muster.machinery.objects import Object
from muster.policy.operators.go_fields import OPERATOR_GROUP_SPEC, SUBSCRIPTION_SPEC, FieldError, read_struct
from muster.policy.operators.kinds import MANAGED_KEY, OPERATOR_GROUPS, SUBSCRIPTIONS, text_at
from muster.policy.operators.policy import ResolvedPolicy


class InvalidSpec(Exception):
    """What is wrong with a policy; the message is for its status."""


def desired_subscription(policy: ResolvedPolicy, document: Any, *, sensitive: bool = False) -> Object:
    """Its namespace is empty if the policy has none. Raises InvalidSpec."""
    fields = _fields(document, "subscription")
    name, namespace = fields.get("name"), fields.pop("namespace", None)
    if not isinstance(name, str) or not name:
        raise InvalidSpec("name is required in spec.subscription")
    if problems := dns1123_label(name):
        raise InvalidSpec(f"the name {_quoted(name, sensitive)} used for the subscription is invalid: {', '.join(problems)}")
    if isinstance(namespace, str) and dns1123_label(namespace):
        shown = _quoted(namespace, sensitive)
        raise InvalidSpec(f"the namespace {shown} used for the subscription is not a valid namespace identifier")
    spec = _struct(fields, SUBSCRIPTION_SPEC, "subscription")
    if spec.get("installPlanApproval"):
        raise InvalidSpec("installPlanApproval is prohibited in spec.subscription")
    by_itself = policy.is_enforced and policy.upgrades_automatically and not policy.versions
    metadata: Object = {"name": name, "namespace": namespace if isinstance(namespace, str) else ""}
    if policy.is_enforced:
        metadata["labels"] = {MANAGED_KEY: ""}
        metadata["annotations"] = {MANAGED_KEY: f"{policy.key.namespace}.{policy.key.name}"}
    return {
        "apiVersion": SUBSCRIPTIONS.api_version,
        "kind": SUBSCRIPTIONS.kind,
        "metadata": metadata,
        "spec": {
            "source": "",
            "sourceNamespace": "",
            **spec,
            # Manual, so that an upgrade needs an approval.
            "installPlanApproval": "Automatic" if by_itself else "Manual",
        },
    }


def compared_subscription(policy: ResolvedPolicy, desired: Object) -> Object:
    """The Subscription to compare with the existing one: an informed policy does not decide about the approval."""
    if policy.is_enforced:
        return desired
    spec = {field: value for field, value in desired["spec"].items() if field != "installPlanApproval"}
    return {**desired, "spec": spec}


def desired_operator_group(document: Any | None, namespace: str, *, sensitive: bool = False) -> Object:
    """Without a document, one for all namespaces with a generated name. Raises InvalidSpec."""
    group: Object = {"apiVersion": OPERATOR_GROUPS.api_version, "kind": OPERATOR_GROUPS.kind}
    if document is None:
        return {**group, "metadata": {"generateName": f"{namespace}-", "namespace": namespace}, "spec": {}}
    fields = _fields(document, "operatorGroup")
    specified = fields.pop("namespace", None)
    if isinstance(specified, str) and specified not in ("", namespace):
        raise InvalidSpec(
            f"the namespace specified in spec.operatorGroup ({_quoted(specified, sensitive)}) must match the namespace used for "
            f"the subscription ({_quoted(namespace, sensitive)})"
        )
    name = fields.pop("name", None)
    if not isinstance(name, str) or not name:
        raise InvalidSpec("name is required in spec.operatorGroup")
    spec = _struct(fields, OPERATOR_GROUP_SPEC, "operatorGroup")
    return {**group, "metadata": {"name": name, "namespace": namespace}, "spec": spec}


def starting_csv(document: Any) -> str:
    return text_at(document, "startingCSV")


def _fields(document: Any, field: str) -> Object:
    if not isinstance(document, dict):
        raise InvalidSpec(f"the policy spec.{field} is invalid: it must be an object")
    return dict(document)


def _struct(fields: Object, go_type: str, field: str) -> Object:
    try:
        return dict(read_struct(fields, go_type))
    except FieldError as error:
        raise InvalidSpec(f"the policy spec.{field} is invalid: {error}") from error


def _quoted(value: str, sensitive: bool) -> str:
    return "(from a Secret)" if sensitive else f"'{value}'"
