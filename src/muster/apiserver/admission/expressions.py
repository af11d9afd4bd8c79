"""The CEL environment of admission: what match conditions and policies may ask about, and how an expression's failure is told.

`object`, `oldObject` and `params` have no declared type; `request` and `namespaceObject` are described field by field; `authorizer`
asks this cluster's own rules on behalf of the requesting user. Environments are shared, so the same expression is compiled once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final

from muster.apiserver.admission.subject import Subject
from muster.apiserver.attributes import Attributes
from muster.apiserver.auth.identity import AUTHENTICATED, User
from muster.apiserver.registry.resource import Object, Resource
from muster.cel import (
    BOOL,
    DYN,
    INT,
    MATCH_CONDITIONS_COST_BUDGET,
    STRING,
    TIMESTAMP,
    CompileError,
    CostBudget,
    CostExceeded,
    Declaration,
    Environment,
    EvaluationError,
    InstantiationError,
    Program,
    Type,
    from_structural_schema,
    list_type,
    map_type,
    object_type,
)
from muster.cel.library.authorization import (
    AUTHORIZER_TYPE,
    RESOURCE_CHECK_TYPE,
    Authorizer,
    Check,
    Decision,
    ResourceCheck,
)

OUT_OF_BUDGET: Final = "validation failed due to running out of cost budget, no further validation rules will be run"
_GROUP_VERSION_KIND = object_type("kubernetes.GroupVersionKind", {"group": STRING, "version": STRING, "kind": STRING})
_GROUP_VERSION_RESOURCE = object_type("kubernetes.GroupVersionResource", {"group": STRING, "version": STRING, "resource": STRING})
_USER_INFO = object_type(
    "kubernetes.UserInfo",
    {"username": STRING, "uid": STRING, "groups": list_type(STRING), "extra": map_type(STRING, list_type(STRING))},
)
_REQUEST = object_type(
    "kubernetes.AdmissionRequest",
    {
        "kind": _GROUP_VERSION_KIND,
        "resource": _GROUP_VERSION_RESOURCE,
        "subResource": STRING,
        "requestKind": _GROUP_VERSION_KIND,
        "requestResource": _GROUP_VERSION_RESOURCE,
        "requestSubResource": STRING,
        "name": STRING,
        "namespace": STRING,
        "operation": STRING,
        "userInfo": _USER_INFO,
        "dryRun": BOOL,
        "options": DYN,
    },
)


def _time() -> Declaration:
    declared = from_structural_schema({"type": "string", "format": "date-time"})
    assert declared is not None and declared.type == TIMESTAMP
    return declared


def _list_of(item: Declaration) -> Declaration:
    """A list of described objects: read through the description one by one."""
    from muster.cel.views import SchemaList

    return Declaration(list_type(item.type), lambda raw: SchemaList(raw, item.adapt), kind="list", element=item, bounded=False)


_NAMESPACE = object_type(
    "kubernetes.Namespace",
    {
        "metadata": object_type(
            "kubernetes.NamespaceMetadata",
            {
                "name": STRING,
                "generateName": STRING,
                "namespace": STRING,
                "labels": map_type(STRING, STRING),
                "annotations": map_type(STRING, STRING),
                "UID": STRING,
                "creationTimestamp": _time(),
                "deletionGracePeriodSeconds": INT,
                "deletionTimestamp": _time(),
                "generation": INT,
                "resourceVersion": STRING,
                "finalizers": list_type(STRING),
            },
        ),
        "spec": object_type("kubernetes.NamespaceSpec", {"finalizers": list_type(STRING)}),
        "status": object_type(
            "kubernetes.NamespaceStatus",
            {
                "phase": STRING,
                "conditions": _list_of(
                    object_type(
                        "kubernetes.NamespaceCondition",
                        {"status": STRING, "type": STRING, "lastTransitionTime": _time(), "message": STRING, "reason": STRING},
                    )
                ),
            },
        ),
    },
)
_BASE: Final[Mapping[str, Type | Declaration]] = {
    "object": DYN,
    "oldObject": DYN,
    "namespaceObject": _NAMESPACE,
    "request": _REQUEST,
}
_AUTHORIZER: Final[Mapping[str, Type | Declaration]] = {
    "authorizer": AUTHORIZER_TYPE,
    "authorizer.requestResource": RESOURCE_CHECK_TYPE,
}


def declarations(params: bool, authorizer: bool) -> dict[str, Type | Declaration]:
    declared = dict(_BASE)
    if params:
        declared["params"] = DYN
    return declared | _AUTHORIZER if authorizer else declared


@cache
def environment(params: bool = False, authorizer: bool = True) -> Environment:
    return Environment(declarations(params, authorizer))


class Compiled:
    """An expression that compiled, or the reason why it did not (expressions are checked when stored, but rules may change)."""

    __slots__ = ("problem", "program", "text")

    def __init__(self, text: str, program: Program | None, problem: str = "") -> None:
        self.text = text
        self.program = program
        self.problem = problem

    def evaluate(self, variables: Mapping[str, Any], budget: CostBudget) -> Any:
        """Raises EvaluationError with the whole story, or CostExceeded when the series of evaluations must end."""
        if self.program is None:
            raise EvaluationError(f"compilation error: {self.problem}")
        try:
            return self.program.evaluate(variables, budget)
        except CostExceeded as error:
            if budget.remaining <= 0:
                raise
            raise EvaluationError(f"expression '{self.text}' resulted in error: {error}") from None
        except EvaluationError as error:
            raise EvaluationError(f"expression '{self.text}' resulted in error: {error}") from None


def compile_expression(text: str, where: Environment, types: Sequence[Type] = (BOOL,)) -> Compiled:
    """`types` are the result types allowed; none means any."""
    try:
        program = where.compile(text)
    except InstantiationError as error:
        return Compiled(text, None, f"program instantiation failed: {error}")
    except CompileError as error:
        return Compiled(text, None, f"compilation failed: {error}")
    if types and program.type not in types:
        if len(types) == 1:
            return Compiled(text, None, f"must evaluate to {types[0]} but got {program.type}")
        listed = " ".join(map(str, types))
        return Compiled(text, None, f"must evaluate to one of [{listed}] but got {program.type}")
    return Compiled(text, program)


async def bindings(
    subject: Subject, row: Resource, params: Object | None = None, namespace: Object | None = None
) -> dict[str, Any]:
    """The variables of one evaluation."""
    new, old = await subject.objects(row)
    authorizer = _authorizer(subject)
    attributes = subject.ctx.attributes
    check = Check(
        "",
        group=attributes.group,
        resource=attributes.resource,
        subresource=attributes.subresource,
        namespace=subject.namespace,
        name=subject.name,
    )
    return {
        "object": new,
        "oldObject": old,
        "params": params,
        "namespaceObject": namespace,
        "request": subject.request(row),
        "authorizer": authorizer,
        "authorizer.requestResource": ResourceCheck(authorizer, check),
    }


def namespace_view(namespace: Object | None) -> Object | None:
    """What expressions see of the namespace: nothing of its owners and managers."""
    if namespace is None:
        return None
    hidden = ("managedFields", "ownerReferences")
    return {**namespace, "metadata": {key: value for key, value in namespace["metadata"].items() if key not in hidden}}


def _authorizer(subject: Subject) -> Authorizer:
    access = subject.ctx.cluster.access

    def decide(check: Check) -> Decision:
        user = subject.ctx.user
        if check.service_account is not None:
            namespace, name = check.service_account
            groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", AUTHENTICATED)
            user = User(f"system:serviceaccount:{namespace}:{name}", groups=groups)
        if check.path:
            asked = Attributes(check.verb, path=check.path)
        else:
            asked = Attributes(check.verb, check.group, "*", check.resource, check.subresource, check.namespace, check.name)
        verdict = access.authorize(user, asked)
        return Decision(verdict.allowed, verdict.reason)

    return Authorizer(decide)


class Conditions:
    """The matchConditions of a webhook or policy. A condition that is false decides; otherwise errors count by failure policy."""

    def __init__(self, raw: Sequence[Mapping[str, Any]], where: Environment, fail: bool) -> None:
        self._compiled = [compile_expression(condition.get("expression") or "", where) for condition in raw]
        self._fail = fail

    def hold(self, variables: Mapping[str, Any]) -> bool:
        """Raises EvaluationError where errors refuse the operation."""
        budget = CostBudget(MATCH_CONDITIONS_COST_BUDGET)
        problems: list[str] = []
        for condition in self._compiled:
            try:
                if condition.evaluate(variables, budget) is False:
                    return False
            except CostExceeded:
                problems = [OUT_OF_BUDGET]
                break
            except EvaluationError as error:
                problems.append(str(error))
        if problems and self._fail:
            raise EvaluationError(problems[0] if len(problems) == 1 else f"[{', '.join(dict.fromkeys(problems))}]")
        return not problems
