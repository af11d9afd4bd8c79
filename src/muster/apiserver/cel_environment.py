"""The CEL environment of admission: the variables of match conditions and policies, and the texts of evaluation errors. Follows
`k8s.io/apiserver/pkg/admission/plugin/cel`.

`object`, `oldObject` and `params` are dynamically typed; `request` and `namespaceObject` have declared fields; `authorizer` uses
the cluster's authorizer. Environments are shared, so that equal expressions are compiled once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final

from muster.cel import (
    BOOL,
    DYN,
    INT,
    STRING,
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
from muster.cel.library.authorization import AUTHORIZER_TYPE, RESOURCE_CHECK_TYPE
from muster.cel.types import struct_type
from muster.cel.views import SchemaList

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
    assert declared is not None
    return declared


def _list_of(item: Declaration) -> Declaration:
    """The declaration of a list of declared objects, whose items are converted on access."""
    return Declaration(list_type(item.type), lambda raw: SchemaList(raw, item.adapt), kind="list", element=item, bounded=False)


def _nullable(declared: Declaration) -> Declaration:
    """A declaration that allows null, for example the namespace of a cluster-scoped object."""
    return Declaration(declared.type, lambda value: None if value is None else declared.adapt(value), bounded=False)


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
    "namespaceObject": _nullable(_NAMESPACE),
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
    return {**declared, **_AUTHORIZER} if authorizer else declared


@cache
def environment(params: bool = False, authorizer: bool = True) -> Environment:
    return Environment(declarations(params, authorizer))


class Compiled:
    """A compiled expression, or its compilation error. Stored expressions were checked, but the rules may have changed since."""

    __slots__ = ("problem", "program", "text")

    def __init__(self, text: str, program: Program | None, problem: str = "") -> None:
        self.text = text
        self.program = program
        self.problem = problem

    def evaluate(self, variables: Mapping[str, Any], budget: CostBudget) -> Any:
        """Raises EvaluationError with the complete message, or CostExceeded if the budget of all evaluations is exhausted."""
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
    """Compile an expression; `types` are the allowed result types, empty for any."""
    try:
        program = where.compile(text)
    except InstantiationError as error:
        return Compiled(text, None, f"program instantiation failed: {error}")
    except CompileError as error:
        return Compiled(text, None, f"compilation failed: {error}")
    if types and program.type not in types:
        if len(types) == 1:
            return Compiled(text, None, f"must evaluate to {types[0]} but got {program.type}")
        listed = " ".join(type_.name for type_ in types)
        return Compiled(text, None, f"must evaluate to one of [{listed}] but got {program.type}")
    return Compiled(text, program)


class Composition:
    """The environments of one policy with its variables, each of which may use the previous ones (CompositionEnv upstream)."""

    def __init__(self, variables: Sequence[Mapping[str, Any]], params: bool) -> None:
        self.compiled: dict[str, Compiled] = {}
        self._params = params
        self._fields: dict[str, Type] = {}
        for variable in variables:
            compiled = compile_expression(variable.get("expression") or "", self.environment(), ())
            self.compiled[variable["name"]] = compiled
            self._fields[variable["name"]] = DYN if compiled.program is None else _declared_type(compiled.program.type)

    def environment(self, authorizer: bool = True) -> Environment:
        if not self._fields:
            return environment(self._params, authorizer)
        variables = Declaration(struct_type("kubernetes.variables", self._fields), lambda value: value, bounded=False)
        return Environment({**declarations(self._params, authorizer), "variables": variables})


_SIMPLE: Final = frozenset({"bool", "bytes", "double", "duration", "int", "null", "string", "timestamp", "uint"})


def _declared_type(type_: Type) -> Type:
    """The declared type of a variable: simple types, and lists and maps of them; `dyn` for others."""
    if type_.kind in _SIMPLE:
        return type_
    if type_.kind in ("list", "map") and type_.params:
        return Type(type_.kind, type_.name, tuple(_declared_type(parameter) for parameter in type_.params))
    return DYN
