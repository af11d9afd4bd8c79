"""Constructors of the Python syntax trees to which templates are compiled.

Code is built as `ast` objects, never as text, so nothing in a template can become Python code: names are ours and template text
appears only inside constants. The line number of a call is the index of its entry in the program's position table; everything that
cannot fail is on line 1, whose entry is empty.
"""

from __future__ import annotations

import ast
from typing import Any

_LOAD, _STORE = ast.Load(), ast.Store()
_AT: dict[str, Any] = {"lineno": 1, "col_offset": 0, "end_lineno": 1, "end_col_offset": 0}


def name(ident: str) -> ast.expr:
    return ast.Name(ident, _LOAD, **_AT)


def target(ident: str) -> ast.Name:
    return ast.Name(ident, _STORE, **_AT)


def const(value: Any) -> ast.expr:
    return ast.Constant(value, **_AT)


def call(func: ast.expr, args: list[ast.expr], line: int = 1) -> ast.expr:
    return ast.Call(func, args, [], lineno=line, col_offset=0, end_lineno=line, end_col_offset=0)


def call_named(ident: str, args: list[ast.expr], line: int = 1) -> ast.expr:
    return call(name(ident), args, line)


def attribute(value: ast.expr, attr: str) -> ast.expr:
    return ast.Attribute(value, attr, _LOAD, **_AT)


def item(value: ast.expr, key: Any) -> ast.expr:
    return ast.Subscript(value, const(key), _LOAD, **_AT)


def lookup(value: ast.expr, key: ast.expr) -> ast.expr:
    """`value[key]`"""
    return ast.Subscript(value, key, _LOAD, **_AT)


def bind(ident: str, value: ast.expr) -> ast.expr:
    """`(ident := value)`"""
    return ast.NamedExpr(target(ident), value, **_AT)


def is_(left: ast.expr, right: ast.expr) -> ast.expr:
    return ast.Compare(left, [ast.Is()], [right], **_AT)


def choose(test: ast.expr, then: ast.expr, otherwise: ast.expr) -> ast.expr:
    return ast.IfExp(test, then, otherwise, **_AT)


def has_type(value: ast.expr, type_ident: str) -> ast.expr:
    """`type(value) is type_ident`"""
    return is_(call_named("type", [value]), name(type_ident))


def sequence(*parts: ast.expr) -> ast.expr:
    """Evaluates all parts in order; the result is that of the last."""
    return item(ast.Tuple(list(parts), _LOAD, **_AT), len(parts) - 1)


def tuple_(parts: list[ast.expr]) -> ast.expr:
    return ast.Tuple(parts, _LOAD, **_AT)


def boolean(is_or: bool, parts: list[ast.expr]) -> ast.expr:
    return parts[0] if len(parts) == 1 else ast.BoolOp(ast.Or() if is_or else ast.And(), parts, **_AT)


def lambda_(param: str, body: ast.expr) -> ast.expr:
    args = ast.arguments([], [ast.arg(param, **_AT)], None, [], [], None, [])
    return ast.Lambda(args, body, **_AT)


def assign(ident: str, value: ast.expr) -> ast.stmt:
    return ast.Assign([target(ident)], value, **_AT)


def expression(value: ast.expr) -> ast.stmt:
    return ast.Expr(value, **_AT)


def extend(ident: str, parts: list[ast.expr]) -> ast.stmt:
    """`ident += (parts…)` on a list."""
    return ast.AugAssign(target(ident), ast.Add(), tuple_(parts), **_AT)


def if_(test: ast.expr, body: list[ast.stmt], orelse: list[ast.stmt]) -> ast.stmt:
    return ast.If(test, body or [ast.Pass(**_AT)], orelse, **_AT)


def for_(idents: list[str], iterable: ast.expr, body: list[ast.stmt]) -> ast.stmt:
    into: ast.expr = target(idents[0])
    if len(idents) > 1:
        into = ast.Tuple([target(ident) for ident in idents], _STORE, **_AT)
    return ast.For(into, iterable, body or [ast.Pass(**_AT)], [], **_AT)


def break_() -> ast.stmt:
    return ast.Break(**_AT)


def continue_() -> ast.stmt:
    return ast.Continue(**_AT)


def function(ident: str, params: list[str], body: list[ast.stmt], outer: set[str]) -> ast.stmt:
    """`def ident(params): nonlocal outer; body`"""
    args = ast.arguments([], [ast.arg(param, **_AT) for param in params], None, [], [], None, [])
    head: list[ast.stmt] = [ast.Nonlocal(sorted(outer), **_AT)] if outer else []
    return ast.FunctionDef(ident, args, head + (body or [ast.Pass(**_AT)]), [], None, **_AT)


def module(body: list[ast.stmt]) -> ast.Module:
    return ast.Module(body, [])
