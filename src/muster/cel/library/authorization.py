"""The `authorizer` variable of admission policies: builders that end in a check.

The engine is independent of authorization. An `Authorizer` value has a function of the caller: it receives the attributes of the
request as a `Check` and returns a `Decision`. Two checks per expression fit the cost limit.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from muster.cel.errors import EvaluationError
from muster.cel.library import costs
from muster.cel.library.registry import Library, method
from muster.cel.types import BOOL, STRING, Type
from muster.cel.values import Opaque

AUTHORIZER_TYPE = Type("struct", "kubernetes.authorization.Authorizer")
PATH_CHECK_TYPE = Type("struct", "kubernetes.authorization.PathCheck")
GROUP_CHECK_TYPE = Type("struct", "kubernetes.authorization.GroupCheck")
RESOURCE_CHECK_TYPE = Type("struct", "kubernetes.authorization.ResourceCheck")
DECISION_TYPE = Type("struct", "kubernetes.authorization.Decision")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\Z")
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?\Z")


@dataclass(frozen=True)
class DecisionValue(Opaque):
    """The result of a check; `error` is set if the authorizer itself failed."""

    cel_type = DECISION_TYPE
    allowed: bool
    reason: str = ""
    error: str = ""


@dataclass(frozen=True)
class Check:
    """The attributes of a check: a path, or a resource. `service_account` (namespace, name) replaces the requesting user."""

    verb: str
    path: str = ""
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    field_selector: str = ""
    label_selector: str = ""
    service_account: tuple[str, str] | None = None


@dataclass(frozen=True)
class Authorizer(Opaque):
    """The value of the `authorizer` variable."""

    cel_type = AUTHORIZER_TYPE
    decide: Callable[[Check], DecisionValue]
    service_account: tuple[str, str] | None = None


@dataclass(frozen=True)
class PathCheck(Opaque):
    cel_type = PATH_CHECK_TYPE
    authorizer: Authorizer
    path: str


@dataclass(frozen=True)
class GroupCheck(Opaque):
    cel_type = GROUP_CHECK_TYPE
    authorizer: Authorizer
    group: str


@dataclass(frozen=True)
class ResourceCheck(Opaque):
    """Also the value of `authorizer.requestResource`."""

    cel_type = RESOURCE_CHECK_TYPE
    authorizer: Authorizer
    check: Check


def _path(authorizer: Authorizer, path: str) -> PathCheck:
    if not path.strip():
        raise EvaluationError("path must not be empty")
    return PathCheck(authorizer, path)


def _service_account(authorizer: Authorizer, namespace: str, name: str) -> Authorizer:
    if not _SUBDOMAIN.match(name) or len(name) > 253:
        raise EvaluationError("Invalid service account name")
    if not _LABEL.match(namespace) or len(namespace) > 63:
        raise EvaluationError("Invalid service account namespace")
    return replace(authorizer, service_account=(namespace, name))


def _resource(group: GroupCheck, resource: str) -> ResourceCheck:
    if not resource.strip():
        raise EvaluationError("resource must not be empty")
    check = Check("", group=group.group, resource=resource, service_account=group.authorizer.service_account)
    return ResourceCheck(group.authorizer, check)


def _narrowed(field: str) -> Callable[[ResourceCheck, str], ResourceCheck]:
    def narrowed(target: ResourceCheck, value: str) -> ResourceCheck:
        changed: dict[str, Any] = {field: value}
        return replace(target, check=replace(target.check, **changed))

    return narrowed


def _check_path(target: PathCheck, verb: str) -> DecisionValue:
    check = Check(verb, path=target.path, service_account=target.authorizer.service_account)
    return target.authorizer.decide(check)


def _check_resource(target: ResourceCheck, verb: str) -> DecisionValue:
    return target.authorizer.decide(replace(target.check, verb=verb))


_RESOURCE = (RESOURCE_CHECK_TYPE, STRING)
AUTHORIZATION = Library(
    "kubernetes.authz",
    overloads=(
        ("path", method("authorizer_path", (AUTHORIZER_TYPE, STRING), PATH_CHECK_TYPE, _path)),
        ("group", method("authorizer_group", (AUTHORIZER_TYPE, STRING), GROUP_CHECK_TYPE, GroupCheck)),
        (
            "serviceAccount",
            method("authorizer_serviceaccount", (AUTHORIZER_TYPE, STRING, STRING), AUTHORIZER_TYPE, _service_account),
        ),
        ("resource", method("groupcheck_resource", (GROUP_CHECK_TYPE, STRING), RESOURCE_CHECK_TYPE, _resource)),
        (
            "subresource",
            method("resourcecheck_subresource", _RESOURCE, RESOURCE_CHECK_TYPE, _narrowed("subresource")),
        ),
        ("namespace", method("resourcecheck_namespace", _RESOURCE, RESOURCE_CHECK_TYPE, _narrowed("namespace"))),
        ("name", method("resourcecheck_name", _RESOURCE, RESOURCE_CHECK_TYPE, _narrowed("name"))),
        (
            "fieldSelector",
            method("authorizer_fieldselector", _RESOURCE, RESOURCE_CHECK_TYPE, _narrowed("field_selector"), costs.selector),
        ),
        (
            "labelSelector",
            method("authorizer_labelselector", _RESOURCE, RESOURCE_CHECK_TYPE, _narrowed("label_selector"), costs.selector),
        ),
        ("check", method("pathcheck_check", (PATH_CHECK_TYPE, STRING), DECISION_TYPE, _check_path, costs.authorization)),
        ("check", method("resourcecheck_check", _RESOURCE, DECISION_TYPE, _check_resource, costs.authorization)),
        ("errored", method("decision_errored", (DECISION_TYPE,), BOOL, lambda decision: bool(decision.error))),
        ("error", method("decision_error", (DECISION_TYPE,), STRING, lambda decision: decision.error)),
        ("allowed", method("decision_allowed", (DECISION_TYPE,), BOOL, lambda decision: decision.allowed)),
        ("reason", method("decision_reason", (DECISION_TYPE,), STRING, lambda decision: decision.reason)),
    ),
)
