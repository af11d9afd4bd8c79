"""Function and operator calls.

A call whose argument types the checker knows goes straight to its overload; one with dynamic arguments picks the
overload by the values. The commonest operators on known types (integer arithmetic and comparison, string equality,
membership in a constant list) get closures of their own.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from muster.cel.errors import CostExceeded, EvaluationError, no_such_overload
from muster.cel.interpreter.code import Code, Frame, Run, constant
from muster.cel.library.costs import PAID_AFTERWARDS
from muster.cel.library.regex import compile_pattern
from muster.cel.library.registry import Cost, Overload
from muster.cel.library.standard import CONVERSIONS
from muster.cel.numbers import checked_int
from muster.cel.syntax.ast import Call, Node
from muster.cel.types import BOOL, DURATION, INT, STRING, TIMESTAMP
from muster.cel.values import MISSING, Optional, Uint, key_of, type_of

if TYPE_CHECKING:
    from muster.cel.interpreter.compiler import Compiler

_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "_<_": operator.lt,
    "_<=_": operator.le,
    "_>_": operator.gt,
    "_>=_": operator.ge,
    "_==_": operator.eq,
    "_!=_": operator.ne,
}
_INTEGER: dict[str, Callable[[int, int], int]] = {"_+_": operator.add, "_-_": operator.sub, "_*_": operator.mul}
_SCALARS = (INT, BOOL, TIMESTAMP, DURATION)
_LISTABLE = frozenset({str, int, Uint, bool, float})


class InstantiationFailed(Exception):
    """A constant subexpression has no value; the program cannot be built."""


def compile_call(compiler: Compiler, node: Call) -> Code:
    nodes = [node.target, *node.args] if node.target is not None else node.args
    if node.name in ("or", "orValue") and node.target is not None and len(nodes) == 2:
        return _optional_or(compiler, node)
    codes = [compiler.compile(argument) for argument in nodes]
    if node.target is None and node.name in CONVERSIONS and codes and codes[0].constant is not MISSING:
        return _fold(node, codes[0].constant)
    if node.name in _PATTERNS and len(codes) > 1 and codes[1].constant.__class__ is str:
        _check_pattern(codes[1].constant)
    special = _membership(node, codes) or _integer_operator(node, nodes, codes)
    if special is not None:
        return special
    cost = sum(code.cost for code in codes)
    runs = [code.run for code in codes]
    implementation, price = _implementation(node, nodes)
    if price is None:
        return Code(_invoke(implementation, runs), cost + 1)
    return Code(_invoke_priced(implementation, runs, price), cost)


_PATTERNS = frozenset({"matches", "find", "findAll"})


def _check_pattern(pattern: str) -> None:
    try:
        compile_pattern(pattern)
    except ValueError as error:
        raise InstantiationFailed(f"error parsing regexp: {error}") from None


def _fold(node: Call, value: Any) -> Code:
    try:
        return constant(_choose(node.name, node.overloads, [value]).call(value))
    except EvaluationError as error:
        raise InstantiationFailed(str(error)) from None


def _optional_or(compiler: Compiler, node: Call) -> Code:
    assert node.target is not None
    target, other = compiler.compile(node.target), compiler.compile(node.args[0])
    first, second, cost, unwrap = target.run, other.run, other.cost, node.name == "orValue"

    def run(frame: Frame) -> Any:
        value = first(frame)
        if value.__class__ is not Optional:
            raise no_such_overload()
        if value.present:
            return value.value if unwrap else value
        frame[0] -= cost
        return second(frame)

    return Code(run, target.cost)


def _membership(node: Call, codes: list[Code]) -> Code | None:
    """`x in ['a', 'b']`: a hash lookup, charged for `x` only."""
    if node.name != "@in" or codes[1].constant.__class__ is not list:
        return None
    listed = codes[1].constant
    if not listed or any(element.__class__ not in _LISTABLE for element in listed):
        return None
    members = {key_of(element) for element in listed}
    run = codes[0].run

    def contained(frame: Frame) -> bool:
        value = run(frame)
        if value.__class__ in _LISTABLE:
            return key_of(value) in members
        return False

    return Code(contained, codes[0].cost)


def _integer_operator(node: Call, nodes: list[Node], codes: list[Code]) -> Code | None:
    if len(nodes) != 2 or nodes[0].type != nodes[1].type:
        return None
    type_ = nodes[0].type
    compared = _COMPARISONS.get(node.name)
    cost = codes[0].cost + codes[1].cost
    if compared is not None:
        if type_ == INT or (type_ in _SCALARS and node.name in ("_==_", "_!=_")):
            return Code(_compare(node.name, codes[0], codes[1]), cost + 1)
        if type_ == STRING:
            return Code(_compare_strings(compared, codes[0].run, codes[1].run), cost)
        return None
    calculated = _INTEGER.get(node.name)
    if calculated is None or type_ != INT:
        return None
    left, right = codes[0].run, codes[1].run

    def calculate(frame: Frame) -> int:
        a, b = left(frame), right(frame)
        try:
            return checked_int(calculated(a, b))
        except TypeError:
            raise no_such_overload() from None

    return Code(calculate, cost + 1)


def _compare(name: str, left: Code, right: Code) -> Run:
    a, b = left.run, right.run
    if right.constant is not MISSING:
        value = right.constant
        return _COMPARE_WITH[name](a, value)
    return _COMPARE[name](a, b)


def _guard(run: Run) -> Run:
    """The static type may be wrong behind `dyn`; then the overload does not exist."""

    def guarded(frame: Frame) -> Any:
        try:
            return run(frame)
        except TypeError:
            raise no_such_overload() from None

    return guarded


def _less(a: Run, b: Run) -> Run:
    def run(frame: Frame) -> Any:
        try:
            return a(frame) < b(frame)
        except TypeError:
            raise no_such_overload() from None

    return run


def _less_equals(a: Run, b: Run) -> Run:
    def run(frame: Frame) -> Any:
        try:
            return a(frame) <= b(frame)
        except TypeError:
            raise no_such_overload() from None

    return run


def _equal(a: Run, b: Run) -> Run:
    return lambda frame: a(frame) == b(frame)


def _unequal(a: Run, b: Run) -> Run:
    return lambda frame: a(frame) != b(frame)


_COMPARE: dict[str, Callable[[Run, Run], Run]] = {
    "_<_": _less,
    "_<=_": _less_equals,
    "_>_": lambda a, b: _guard(lambda frame: a(frame) > b(frame)),
    "_>=_": lambda a, b: _guard(lambda frame: a(frame) >= b(frame)),
    "_==_": _equal,
    "_!=_": _unequal,
}
_COMPARE_WITH: dict[str, Callable[[Run, Any], Run]] = {
    "_<_": lambda a, value: _guard(lambda frame: a(frame) < value),
    "_<=_": lambda a, value: _guard(lambda frame: a(frame) <= value),
    "_>_": lambda a, value: _guard(lambda frame: a(frame) > value),
    "_>=_": lambda a, value: _guard(lambda frame: a(frame) >= value),
    "_==_": lambda a, value: lambda frame: a(frame) == value,
    "_!=_": lambda a, value: lambda frame: a(frame) != value,
}


def _compare_strings(compared: Callable[[Any, Any], bool], left: Run, right: Run) -> Run:
    def run(frame: Frame) -> bool:
        a, b = left(frame), right(frame)
        try:
            frame[0] -= -(-min(len(a), len(b)) // 10)
            return compared(a, b)
        except TypeError:
            raise no_such_overload() from None

    return run


def _implementation(node: Call, nodes: list[Node]) -> tuple[Callable[..., Any], Cost | None]:
    overloads = node.overloads
    prices = {overload.cost for overload in overloads}
    # cel-go charges a call by its overload, and a constant if several may apply.
    price = prices.pop() if len(prices) == 1 else None
    first = overloads[0].call
    if node.name in _GENERIC:
        return first, price
    dynamic = any(argument.type is None or argument.type.kind in ("dyn", "param") for argument in nodes)
    if not dynamic and all(overload.call is first for overload in overloads):
        return first, price
    return lambda *args: _choose(node.name, overloads, list(args)).call(*args), price


_GENERIC = frozenset(
    {"_+_", "_-_", "_*_", "_/_", "_%_", "-_", "!_", "_<_", "_<=_", "_>_", "_>=_", "_==_", "_!=_", "@in"} | {"size", "type", "dyn"}
)
"""Implementations that check their arguments' types themselves."""
_UNNAMED = frozenset({"contains", "startsWith", "endsWith", "matches", "find", "findAll"})


def _choose(name: str, overloads: list[Overload], args: list[Any]) -> Overload:
    for overload in overloads:
        if overload.accepts(args):
            return overload
    if name in _UNNAMED:
        raise no_such_overload()
    raise EvaluationError(f"no such overload: {name}({', '.join(type_of(value).name for value in args)})")


def _invoke(call: Callable[..., Any], runs: list[Run]) -> Run:
    if len(runs) == 1:
        only = runs[0]

        def invoke_one(frame: Frame) -> Any:
            value = only(frame)
            try:
                return call(value)
            except (TypeError, AttributeError):
                raise no_such_overload() from None

        return invoke_one
    if len(runs) == 2:
        left, right = runs

        def invoke_two(frame: Frame) -> Any:
            a, b = left(frame), right(frame)
            try:
                return call(a, b)
            except (TypeError, AttributeError):
                raise no_such_overload() from None

        return invoke_two

    def invoke(frame: Frame) -> Any:
        args = [run(frame) for run in runs]
        try:
            return call(*args)
        except (TypeError, AttributeError):
            raise no_such_overload() from None

    return invoke


def _invoke_priced(call: Callable[..., Any], runs: list[Run], price: Cost) -> Run:
    afterwards = price in PAID_AFTERWARDS

    def pay(frame: Frame, args: list[Any], result: Any) -> None:
        try:
            frame[0] -= price(args, result)
        except (TypeError, AttributeError):
            # Arguments without a cost have no overload either; the call will report that.
            frame[0] -= 1
        if frame[0] < 0:
            raise CostExceeded

    def invoke(frame: Frame) -> Any:
        args = [run(frame) for run in runs]
        if not afterwards:
            pay(frame, args, None)
        try:
            result = call(*args)
        except (TypeError, AttributeError):
            raise no_such_overload() from None
        if afterwards:
            pay(frame, args, result)
        return result

    return invoke
