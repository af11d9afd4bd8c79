"""sprig's functions about types, and `fail`."""

from __future__ import annotations

from typing import Any

from muster.gotemplate.signature import FuncTable
from muster.gotemplate.values import go_type, kind
from muster.machinery.golang.errors import GoError

REFLECTION = FuncTable()


@REFLECTION.add("typeOf", "any", "string")
def type_of(value: Any) -> str:
    return "<nil>" if value is None else go_type(value)


@REFLECTION.add("typeIs", "string, any", "bool")
def type_is(wanted: str, value: Any) -> bool:
    return wanted == type_of(value)


@REFLECTION.add("typeIsLike", "string, any", "bool")
def type_is_like(wanted: str, value: Any) -> bool:
    return type_of(value) in (wanted, "*" + wanted)


@REFLECTION.add("kindOf", "any", "string")
def kind_of(value: Any) -> str:
    return kind(value)


@REFLECTION.add("kindIs", "string, any", "bool")
def kind_is(wanted: str, value: Any) -> bool:
    return wanted == kind(value)


@REFLECTION.add("fail", "string", "string")
def fail(message: str) -> str:
    raise GoError(message)
