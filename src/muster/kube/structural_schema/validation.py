"""Validation of objects by their schema, with kube-apiserver's errors.

`SchemaValidator` compiles a schema once: a predicate that accepts valid objects in microseconds, and the constraint tree from which
`openapi` produces the errors of invalid ones. With the old object, unchanged parts are accepted (ratcheting).
"""

from __future__ import annotations

from typing import Any

from muster.kube.fielderrors import FieldError
from muster.kube.schema_node import Schema
from muster.kube.structural_schema.accept import accept
from muster.kube.structural_schema.constraints import Constraints
from muster.kube.structural_schema.openapi import Walk
from muster.kube.structural_schema.ratchet import Correlation


class SchemaValidator:
    """A compiled schema of a custom resource, or of a part of one."""

    __slots__ = ("_accept", "node")

    def __init__(self, raw: Any) -> None:
        self.node = Constraints(raw)
        self._accept = accept(self.node)

    def errors(self, value: Any, old: Any = None, base: str = "") -> list[FieldError]:
        """The errors of a value; `base` is the field of the value itself when it is not the whole object."""
        if self._accept(value):
            return []
        correlation = None if old is None else Correlation(value, old, self.node)
        return Walk(base).errors(self.node, value, correlation)


def validator(schema: Schema) -> SchemaValidator:
    compiled: SchemaValidator | None = schema.memo.get("validate")
    if compiled is None:
        compiled = schema.memo["validate"] = SchemaValidator(schema.raw)
    return compiled


def validate(obj: Any, schema: Schema, old: Any = None) -> list[FieldError]:
    """Errors of an object by its schema; on update give the old object, so that unchanged invalid parts pass."""
    return validator(schema).errors(obj, old)
