"""A checked tree to closures.

Each node becomes one Python function of the frame. Where the checker knows the types, the function does just that
operation; where a chain of selections starts at declared data (`self.spec.replicas`), it walks the caller's JSON
directly and adapts only the last value. Everything else goes through the run-time operators.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from muster.cel.errors import CostExceeded, EvaluationError
from muster.cel.interpreter import operators as op
from muster.cel.interpreter.calls import compile_call
from muster.cel.interpreter.code import Code, RawCode, Run, Slot, constant
from muster.cel.interpreter.folds import compile_comprehension
from muster.cel.interpreter.logic import compile_conditional, compile_logical
from muster.cel.library.costs import LIST_CREATE, MAP_CREATE, STRUCT_CREATE
from muster.cel.numbers import display
from muster.cel.syntax.ast import Call, Comprehension, Ident, ListExpr, Literal, MapExpr, Node, Select, StructExpr, is_chain
from muster.cel.types import Type, is_optional
from muster.cel.values import MISSING, NONE, Optional, Uint, key_of
from muster.cel.views import Declaration

_NOT_A_MAP = "invalid data, expected a map for the provided schema with type=object"


class Compiler:
    def __init__(self, variables: Mapping[str, Declaration], type_names: Mapping[str, Type]) -> None:
        self.variables = variables
        self.type_names = type_names
        self.scopes: list[dict[str, Slot]] = []
        self.used: dict[str, Slot] = {}
        self.compiled: dict[int, Code] = {}
        self.slots = 1

    def slot(self, declaration: Declaration | None = None) -> Slot:
        self.slots += 1
        return Slot(self.slots - 1, declaration)

    def find(self, name: str) -> Slot | None:
        name = name.removeprefix(".")
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        if name in self.used:
            return self.used[name]
        declaration = self.variables.get(name)
        if declaration is None:
            return None
        self.used[name] = self.slot(declaration)
        return self.used[name]

    def compile(self, node: Node) -> Code:
        """The code of a node; one that a macro uses twice is compiled once."""
        known = self.compiled.get(id(node))
        if known is None:
            known = self.compiled[id(node)] = _COMPILERS[node.__class__](self, node)
        return known

    def raw(self, node: Node) -> RawCode | None:
        """Access to JSON without adapting it, if the node permits that."""
        if isinstance(node, Ident) or (isinstance(node, Select) and node.qualified is not None):
            slot = self.find(node.name if isinstance(node, Ident) else node.qualified or "")
            if slot is None or slot.declaration is None or slot.declaration.kind == "scalar":
                return None
            index = slot.index
            return RawCode(lambda frame: frame[index], 1, slot.declaration)
        if isinstance(node, Select) and not node.test:
            return self.raw_select(node)
        if isinstance(node, Call) and node.name == "_[_]":
            return self.raw_index(node)
        return None

    def raw_select(self, node: Select) -> RawCode | None:
        operand = self.raw(node.operand)
        if operand is None:
            return None
        owner = operand.declaration
        if owner.kind == "object":
            field = owner.field(node.field)
            if field is None:
                return None
            key, declaration = field
        elif owner.kind == "map" and owner.element is not None:
            key, declaration = node.field, owner.element
        else:
            return None
        name, missing, run = node.field, owner.kind == "object", operand.run
        if isinstance(node.operand, Ident):
            slot = self.find(node.operand.name)
            assert slot is not None
            index = slot.index

            def read_from_variable(frame: list[Any]) -> Any:
                try:
                    value = frame[index][key]
                except KeyError:
                    raise EvaluationError(f"no such key: {name}") from None
                except TypeError:
                    raise EvaluationError(_NOT_A_MAP) from None
                if value is None and missing:
                    raise EvaluationError(f"no such key: {name}")
                return value

            return RawCode(read_from_variable, operand.cost + 1, declaration)

        def read(frame: list[Any]) -> Any:
            owner = run(frame)
            try:
                value = owner[key]
            except KeyError:
                raise EvaluationError(f"no such key: {name}") from None
            except TypeError:
                raise EvaluationError(_NOT_A_MAP) from None
            if value is None and missing:
                raise EvaluationError(f"no such key: {name}")
            return value

        return RawCode(read, operand.cost + 1, declaration)

    def raw_index(self, node: Call) -> RawCode | None:
        operand = self.raw(node.args[0])
        if operand is None or operand.declaration.element is None:
            return None
        index = self.compile(node.args[1])
        run, at, is_list = operand.run, index.run, operand.declaration.kind == "list"

        def read(frame: list[Any]) -> Any:
            owner, key = run(frame), at(frame)
            if is_list and owner.__class__ is list:
                if key.__class__ is int and 0 <= key < len(owner):
                    return owner[key]
                return op.at_index(owner, key)
            if owner.__class__ is dict:
                value = owner.get(key, MISSING) if key.__class__ is str else MISSING
                if value is MISSING:
                    raise EvaluationError(f"no such key: {display(key)}")
                return value
            raise EvaluationError(_NOT_A_MAP)

        return RawCode(read, operand.cost + self.key_cost(node.args[1], index) + 1, operand.declaration.element)

    def adapted(self, raw: RawCode) -> Code:
        run, adapt = raw.run, raw.declaration.adapt
        return Code(lambda frame: adapt(run(frame)), raw.cost)

    def literal(self, node: Literal) -> Code:
        return constant(node.value)

    def ident(self, node: Ident) -> Code:
        return self.variable(node.name)

    def variable(self, name: str) -> Code:
        slot = self.find(name)
        if slot is None:
            return constant(self.type_names[name.removeprefix(".")])
        index = slot.index
        if slot.lazy is not None:
            return Code(_computed_once(index, slot.lazy), 1)
        if slot.declaration is None:
            return Code(lambda frame: frame[index], 1)
        adapt = slot.declaration.adapt
        return Code(lambda frame: adapt(frame[index]), 1)

    def select(self, node: Select) -> Code:
        if node.qualified is not None:
            return self.variable(node.qualified)
        if node.test:
            return self.presence(node)
        raw = self.raw_select(node)
        if raw is not None:
            return self.adapted(raw)
        operand = self.compile(node.operand)
        run, field = operand.run, node.field
        if node.type is not None and is_optional(node.type):
            chosen = _paid_when_present(lambda frame: op.select(run(frame), field))
            return Code(chosen, self.chain_cost(node.operand, operand))
        return Code(lambda frame: op.select(run(frame), field), self.chain_cost(node.operand, operand) + 1)

    def presence(self, node: Select) -> Code:
        raw = self.raw(node.operand)
        if raw is not None and raw.declaration.kind in ("object", "map"):
            run, nulls = raw.run, raw.declaration.kind == "map"
            field = raw.declaration.field(node.field) if not nulls else (node.field, raw.declaration)
            key = field[0] if field is not None else node.field

            def test_raw(frame: list[Any]) -> bool:
                owner = run(frame)
                if owner.__class__ is not dict:
                    return op.has_field(owner, key)
                return key in owner and (nulls or owner[key] is not None)

            return Code(test_raw, raw.cost)
        operand = self.compile(node.operand)
        test, name = operand.run, node.field
        return Code(lambda frame: op.has_field(test(frame), name), self.chain_cost(node.operand, operand))

    def chain_cost(self, node: Node, code: Code) -> int:
        """A chain of selections costs one per link; starting one on a computed value costs one more."""
        chosen = isinstance(node, Call) and node.name == "_?_:_"
        return code.cost + (0 if chosen or is_chain(node) else 1)

    def key_cost(self, node: Node, code: Code) -> int:
        return code.cost - is_chain(node)

    def call(self, node: Call) -> Code:
        match node.name:
            case "_&&_" | "_||_":
                return compile_logical(self, node)
            case "_?_:_":
                return compile_conditional(self, node)
            case "_[_]":
                raw = self.raw_index(node)
                if raw is not None:
                    return self.adapted(raw)
                owner, index = self.compile(node.args[0]), self.compile(node.args[1])
                of, at = owner.run, index.run
                cost = self.chain_cost(node.args[0], owner) + self.key_cost(node.args[1], index) + 1
                return Code(lambda frame: op.at_index(of(frame), at(frame)), cost)
            case "_[?_]":
                owner, index = self.compile(node.args[0]), self.compile(node.args[1])
                of, at = owner.run, index.run
                cost = self.chain_cost(node.args[0], owner) + self.key_cost(node.args[1], index)
                return Code(_paid_when_present(lambda frame: op.optional_at_index(of(frame), at(frame))), cost)
            case "_?._":
                return self.optional_select(node)
        return compile_call(self, node)

    def optional_select(self, node: Call) -> Code:
        literal = node.args[1]
        assert isinstance(literal, Literal)
        field = literal.value
        raw = self.raw(node.args[0])
        declared = raw.declaration.field(field) if raw is not None and raw.declaration.kind == "object" else None
        if raw is not None and declared is not None:
            run, (key, declaration) = raw.run, declared
            adapt = declaration.adapt

            def read(frame: list[Any]) -> Any:
                owner = run(frame)
                if owner.__class__ is not dict:
                    return op.optional_select(owner, field)
                value = owner.get(key)
                if value is None:
                    return NONE
                frame[0] -= 1
                return Optional(True, adapt(value))

            return Code(read, raw.cost)
        operand = self.compile(node.args[0])
        get = operand.run
        cost = self.chain_cost(node.args[0], operand)
        return Code(_paid_when_present(lambda frame: op.optional_select(get(frame), field)), cost)

    def list_literal(self, node: ListExpr) -> Code:
        codes = [self.compile(element) for element in node.elements]
        if not node.optional:
            if all(code.constant is not MISSING for code in codes):
                return constant([code.constant for code in codes])
            runs = [code.run for code in codes]
            return Code(lambda frame: [run(frame) for run in runs], LIST_CREATE + sum(code.cost for code in codes))
        marked = [(code.run, index in node.optional) for index, code in enumerate(codes)]

        def build(frame: list[Any]) -> list[Any]:
            made = []
            for run, optional in marked:
                value = run(frame)
                if not optional:
                    made.append(value)
                elif _wrapped(value).present:
                    made.append(value.value)
            return made

        return Code(build, LIST_CREATE + sum(code.cost for code in codes))

    def map_literal(self, node: MapExpr) -> Code:
        pairs = [(self.compile(entry.key), self.compile(entry.value), entry.optional) for entry in node.entries]
        fixed = all(
            key.constant is not MISSING and value.constant is not MISSING and not optional for key, value, optional in pairs
        )
        if fixed and all(key.constant.__class__ in (str, int, bool, Uint) for key, _, _ in pairs):
            return constant({key_of(key.constant): value.constant for key, value, _ in pairs})
        runs = [(key.run, value.run, optional) for key, value, optional in pairs]

        def build(frame: list[Any]) -> dict[Any, Any]:
            made = {}
            for key, run, optional in runs:
                name, value = key_of(key(frame)), run(frame)
                if not optional:
                    made[name] = value
                elif _wrapped(value).present:
                    made[name] = value.value
            return made

        return Code(build, MAP_CREATE + sum(key.cost + value.cost for key, value, _ in pairs))

    def struct_literal(self, node: StructExpr) -> Code:
        fields = []
        for entry in node.entries:
            assert isinstance(entry.key, Literal)
            fields.append((entry.key.value, self.compile(entry.value), entry.optional))
        runs = [(name, value.run, optional) for name, value, optional in fields]

        def build(frame: list[Any]) -> dict[str, Any]:
            made = {}
            for name, run, optional in runs:
                value = run(frame)
                if not optional:
                    made[name] = value
                elif _wrapped(value).present:
                    made[name] = value.value
            return made

        return Code(build, STRUCT_CREATE + sum(value.cost for _, value, _ in fields))

    def comprehension(self, node: Comprehension) -> Code:
        return compile_comprehension(self, node)


def _computed_once(index: int, code: Code) -> Run:
    def read(frame: list[Any]) -> Any:
        value = frame[index]
        if value is MISSING:
            frame[0] -= code.cost
            if frame[0] < 0:
                raise CostExceeded
            value = frame[index] = code.run(frame)
        return value

    return read


def _paid_when_present(run: Run) -> Run:
    """An optional selection is charged only if the value is present."""

    def paid(frame: list[Any]) -> Any:
        value = run(frame)
        if value.__class__ is Optional and value.present:
            frame[0] -= 1
        return value

    return paid


def _wrapped(value: Any) -> Optional:
    if value.__class__ is not Optional:
        raise EvaluationError(f"cannot initialize optional entry from non-optional value {display(value)}")
    return value


_COMPILERS: dict[type[Node], Callable[[Compiler, Any], Code]] = {
    Literal: Compiler.literal,
    Ident: Compiler.ident,
    Select: Compiler.select,
    Call: Compiler.call,
    ListExpr: Compiler.list_literal,
    MapExpr: Compiler.map_literal,
    StructExpr: Compiler.struct_literal,
    Comprehension: Compiler.comprehension,
}
