"""Common Expression Language, with the dialect and the limits of Kubernetes 1.35.

    env = Environment(variables={"self": from_structural_schema(schema)})
    program = env.compile("self.minReplicas <= self.replicas", result=BOOL)
    program.evaluate({"self": {"minReplicas": 1, "replicas": 3}})

`compile` raises CompileError, `evaluate` EvaluationError or CostExceeded, and neither raises anything else. The values
given are plain JSON; results are Python values as `values.py` lists them (`plain` turns one into JSON).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster.cel.environment import (
    MATCH_CONDITIONS_COST_BUDGET,
    PER_CALL_LIMIT,
    RUNTIME_COST_BUDGET,
    CostBudget,
    Environment,
    InstantiationError,
    Program,
    ResultTypeError,
)
from muster.cel.errors import CelError, CompileError, CostExceeded, EvaluationError, Issue
from muster.cel.library.registry import Library
from muster.cel.schema_declarations import escape, from_structural_schema, object_type, optional_declaration
from muster.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    NULL,
    STRING,
    TIMESTAMP,
    UINT,
    Type,
    list_type,
    map_type,
    optional,
)
from muster.cel.values import Duration, Optional, Timestamp, Uint, plain
from muster.cel.views import Declaration, LazyMap

if TYPE_CHECKING:
    from muster.cel.estimate import STATIC_COST_LIMIT, STATIC_CRD_COST_LIMIT, cost_complaint, maximum_cardinality
    from muster.cel.library.kubernetes import BINDINGS, JSON_PATCH, KUBERNETES

_ON_FIRST_USE = {
    **dict.fromkeys(("BINDINGS", "JSON_PATCH", "KUBERNETES"), "muster.cel.library.kubernetes"),
    **dict.fromkeys(("STATIC_COST_LIMIT", "STATIC_CRD_COST_LIMIT", "cost_complaint", "maximum_cardinality"), "muster.cel.estimate"),
}


def __getattr__(name: str) -> object:
    """Libraries and the estimator are imported on first use: importing this package should cost a command nothing."""
    if name not in _ON_FIRST_USE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_ON_FIRST_USE[name]), name)


__all__ = [
    "BINDINGS",
    "BOOL",
    "BYTES",
    "DOUBLE",
    "DURATION",
    "DYN",
    "INT",
    "JSON_PATCH",
    "KUBERNETES",
    "MATCH_CONDITIONS_COST_BUDGET",
    "NULL",
    "PER_CALL_LIMIT",
    "RUNTIME_COST_BUDGET",
    "STATIC_COST_LIMIT",
    "STATIC_CRD_COST_LIMIT",
    "STRING",
    "TIMESTAMP",
    "UINT",
    "CelError",
    "CompileError",
    "CostBudget",
    "CostExceeded",
    "Declaration",
    "Duration",
    "Environment",
    "EvaluationError",
    "InstantiationError",
    "Issue",
    "LazyMap",
    "Library",
    "Optional",
    "Program",
    "ResultTypeError",
    "Timestamp",
    "Type",
    "Uint",
    "cost_complaint",
    "escape",
    "from_structural_schema",
    "list_type",
    "map_type",
    "maximum_cardinality",
    "object_type",
    "optional",
    "optional_declaration",
    "plain",
]
