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
from muster.cel.schema import escape, from_structural_schema, object_type, optional_declaration
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
    from muster.cel.library.kubernetes import BINDINGS, JSON_PATCH, KUBERNETES

_LIBRARIES = frozenset({"BINDINGS", "JSON_PATCH", "KUBERNETES"})


def __getattr__(name: str) -> object:
    """The libraries are loaded on first use: importing this package should cost a command-line tool nothing."""
    if name not in _LIBRARIES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from muster.cel.library import kubernetes

    return getattr(kubernetes, name)


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
    "escape",
    "from_structural_schema",
    "list_type",
    "map_type",
    "object_type",
    "optional",
    "optional_declaration",
    "plain",
]
