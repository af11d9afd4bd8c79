"""Comprehensions: one specialised loop per macro.

Each iteration is charged the fixed cost of its expanded form and checks the limit, so that nested loops over large lists stop soon
after it. `all` and `exists` absorb errors as `&&` and `||` do; the others stop at the first. Over declared JSON the loop variable
is bound to the JSON itself and adapted when it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from muster.cel.errors import CostExceeded, EvaluationError, no_such_overload
from muster.cel.interpreter.code import Code, Frame, Run, Slot
from muster.cel.library.costs import LIST_CREATE
from muster.cel.library.standard import insert, insert_all
from muster.cel.syntax.ast import Comprehension
from muster.cel.values import MISSING, elements, is_list, is_map, map_items, map_keys, type_of

if TYPE_CHECKING:
    from muster.cel.interpreter.compiler import Compiler

Pairs = Callable[[Frame], Iterable[Any]]
_GO_TYPES = {"int": "types.Int", "uint": "types.Uint", "double": "types.Double", "bool": "types.Bool",
             "string": "types.String", "bytes": "types.Bytes", "null_type": "types.Null"}  # fmt: skip


def compile_comprehension(compiler: Compiler, node: Comprehension) -> Code:
    if node.macro == "bind":
        return _bind(compiler, node)
    source, source_cost, first, second = _source(compiler, node)
    scope = {node.var: first}
    if node.var2 is not None and second is not None:
        scope[node.var2] = second
    compiler.scopes.append(scope)
    body = compiler.compile(node.body)
    guard = compiler.compile(node.guard) if node.guard is not None else None
    compiler.scopes.pop()
    run, cost = _LOOPS[node.macro](node, source, _binder(first, second), body, guard)
    return Code(run, source_cost + cost)


def _bind(compiler: Compiler, node: Comprehension) -> Code:
    slot = compiler.slot()
    slot.lazy = compiler.compile(node.init)
    compiler.scopes.append({node.accumulator: slot})
    body = compiler.compile(node.body)
    compiler.scopes.pop()
    then, index = body.run, slot.index

    def run(frame: Frame) -> Any:
        frame[index] = MISSING
        return then(frame)

    return Code(run, body.cost)


def _source(compiler: Compiler, node: Comprehension) -> tuple[Pairs, int, Slot, Slot | None]:
    """The iterated values: elements or keys for one variable, pairs for two."""
    raw = compiler.raw(node.range)
    two = node.var2 is not None
    if raw is not None and raw.declaration.kind in ("list", "map"):
        element, run = raw.declaration.element, raw.run
        if raw.declaration.kind == "list":
            if two:
                return _pairs_of_raw_list(run), raw.cost, compiler.slot(), compiler.slot(element)
            return _raw_list(run), raw.cost, compiler.slot(element), None
        key = compiler.slot()
        if two:
            return _raw_pairs(run), raw.cost, key, compiler.slot(element)
        return _raw_keys(run), raw.cost, key, None
    code = compiler.compile(node.range)
    pairs = _pairs(code.run) if two else _single(code.run)
    return pairs, code.cost, compiler.slot(), compiler.slot() if two else None


def _raw_list(run: Run) -> Pairs:
    def items(frame: Frame) -> Iterable[Any]:
        value = run(frame)
        if value.__class__ is not list:
            raise EvaluationError("invalid data, expected an array for the provided schema with type=array")
        return value

    return items


def _pairs_of_raw_list(run: Run) -> Pairs:
    items = _raw_list(run)
    return lambda frame: list(enumerate(items(frame)))


def _raw_keys(run: Run) -> Pairs:
    def keys(frame: Frame) -> Iterable[Any]:
        value = run(frame)
        if value.__class__ is not dict:
            raise EvaluationError("invalid data, expected a map for the provided schema with type=object")
        return list(value)

    return keys


def _raw_pairs(run: Run) -> Pairs:
    keys = _raw_keys(run)

    def pairs(frame: Frame) -> Iterable[Any]:
        keys(frame)
        return list(run(frame).items())

    return pairs


def _single(run: Run) -> Pairs:
    def items(frame: Frame) -> Iterable[Any]:
        value = run(frame)
        if is_list(value):
            return elements(value)
        if is_map(value):
            return map_keys(value)
        raise _not_iterable(value)

    return items


def _pairs(run: Run) -> Pairs:
    def pairs(frame: Frame) -> Iterable[Any]:
        value = run(frame)
        if is_list(value):
            return list(enumerate(elements(value)))
        if is_map(value):
            return list(map_items(value))
        raise _not_iterable(value)

    return pairs


def _not_iterable(value: Any) -> EvaluationError:
    name = type_of(value).name
    return EvaluationError(f"got '{_GO_TYPES.get(name, name)}', expected iterable type")


def _binder(first: Slot, second: Slot | None) -> Callable[[Frame, Any], None]:
    one = first.index
    if second is None:

        def bind_one(frame: Frame, item: Any) -> None:
            frame[one] = item

        return bind_one
    two = second.index

    def bind_two(frame: Frame, pair: Any) -> None:
        frame[one], frame[two] = pair

    return bind_two


Loop = tuple[Run, int]
Binder = Callable[[Frame, Any], None]


def _quantifier(deciding: bool, condition_cost: int) -> Callable[..., Loop]:
    """`all` (decided by false) and `exists` (decided by true)."""

    def build(node: Comprehension, source: Pairs, bind: Binder, body: Code, guard: Code | None) -> Loop:
        test, step = body.run, condition_cost + 1 + body.cost

        def run(frame: Frame) -> bool:
            error: EvaluationError | None = None
            items = source(frame)
            last: Any = items[-1] if items else None  # type: ignore[index]
            for item in items:
                frame[0] -= step
                if frame[0] < 0:
                    raise CostExceeded
                bind(frame, item)
                try:
                    value = test(frame)
                except EvaluationError as raised:
                    error = error or raised
                    continue
                if value is deciding:
                    if item is not last:
                        frame[0] -= condition_cost
                    return bool(value)
                if value.__class__ is not bool:
                    error = error or no_such_overload()
            if error is not None:
                raise error
            return not deciding

        return run, 1

    return build


def _exists_one(node: Comprehension, source: Pairs, bind: Binder, body: Code, guard: Code | None) -> Loop:
    test, step = body.run, body.cost

    def run(frame: Frame) -> bool:
        count = 0
        for item in source(frame):
            frame[0] -= step
            if frame[0] < 0:
                raise CostExceeded
            bind(frame, item)
            value = test(frame)
            if value is True:
                frame[0] -= 2
                count += 1
            elif value is not False:
                raise no_such_overload()
        return count == 1

    return run, 2


def _guarded(guard: Code | None, taken: int) -> tuple[Run | None, int, int]:
    """The guard, the cost of every iteration, and the additional cost of one that passes the guard."""
    return (None, taken, 0) if guard is None else (guard.run, guard.cost, taken)


def _list_builder(node: Comprehension, source: Pairs, bind: Binder, body: Code, guard: Code | None) -> Loop:
    test, step, taken = _guarded(guard, LIST_CREATE + 2 + body.cost)
    make = body.run

    def run(frame: Frame) -> list[Any]:
        made = []
        for item in source(frame):
            frame[0] -= step
            if frame[0] < 0:
                raise CostExceeded
            bind(frame, item)
            if test is not None and not _passes(test(frame)):
                continue
            frame[0] -= taken
            made.append(make(frame))
        return made

    return run, 1


def _passes(value: Any) -> bool:
    if value.__class__ is not bool:
        raise no_such_overload()
    return bool(value)


def _map_builder(node: Comprehension, source: Pairs, bind: Binder, body: Code, guard: Code | None) -> Loop:
    keyed = node.macro == "transformMap"
    test, step, taken = _guarded(guard, (3 if keyed else 2) + body.cost)
    make = body.run

    def run(frame: Frame) -> dict[Any, Any]:
        made: dict[Any, Any] = {}
        for item in source(frame):
            frame[0] -= step
            if frame[0] < 0:
                raise CostExceeded
            bind(frame, item)
            if test is not None and not _passes(test(frame)):
                continue
            frame[0] -= taken
            if keyed:
                insert(made, item[0], make(frame))
            else:
                insert_all(made, make(frame))
        return made

    return run, 1


_LOOPS: dict[str, Callable[..., Loop]] = {
    "all": _quantifier(deciding=False, condition_cost=2),
    "exists": _quantifier(deciding=True, condition_cost=3),
    "exists_one": _exists_one,
    "map": _list_builder,
    "filter": _list_builder,
    "transformList": _list_builder,
    "transformMap": _map_builder,
    "transformMapEntry": _map_builder,
}
