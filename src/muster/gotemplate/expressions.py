"""Compiles pipelines to Python expressions.

Every method corresponds to one of Go's eval functions and visits nodes in the same order (`self.at` is Go's `s.node`). A `Value`
has, besides the expression, what is known about its result, so that unnecessary checks are left out: a string constant needs no
type check, the result of `quote` none to be printed.

Nil has two forms at run time, as in Go: `MISSING` is the invalid reflect.Value, `None` a nil interface. The value of a pipeline is
never None; elements of containers may be.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from muster.gotemplate import codegen as gen
from muster.gotemplate import nodes as nd
from muster.gotemplate import runtime
from muster.gotemplate.error_context import LastVisited, PositionTable
from muster.gotemplate.errors import EvalFailure
from muster.gotemplate.signature import ANY, VALUE, Func
from muster.gotemplate.values import ANY_MAP, ANY_SLICE, MISSING, go_type

_LITERALS = (nd.BoolNode, nd.NumberNode, nd.StringNode, nd.NilNode)
_FAST_TYPES = {"string": "str", "int": "int", "bool": "bool", "float64": "float", ANY_MAP: "dict", ANY_SLICE: "list"}
_CONSTANTS = (str, bool, int, float, complex)


@dataclass(slots=True)
class Value:
    expr: ast.expr
    type: str | None = None
    """The Go type if it is known."""
    may_nil: bool = False
    may_missing: bool = True
    pure: bool = False
    """The expression can neither fail nor have side effects."""


@dataclass(slots=True)
class Variable:
    """A template variable, or a dot: the Python local with its value."""

    local: str
    may_nil: bool = False
    may_missing: bool = True
    container: str | None = None
    """The local with the container that `range` took it from, whose type errors show."""
    mutable: bool = False
    """It is assigned to: nothing is known about its value, and `container` is a local that is updated with it."""
    conditional: bool = False
    """Declared inside an argument of `and` or `or` that may not be evaluated."""
    owner: int = 0
    """The Python function whose local it is."""


@dataclass(slots=True)
class FunctionState:
    """The Python function being generated."""

    number: int
    outer: set[str] = field(default_factory=set)
    """Locals of enclosing functions that this one assigns to."""


class ExpressionCompiler:
    def __init__(
        self, template: str, template_id: int, funcs: Mapping[str, Func], builtins: Mapping[str, Func],
        positions: PositionTable, namespace: dict[str, Any], missing_key: str, assigned: frozenset[str],
    ) -> None:  # fmt: skip
        self.template = template
        self.template_id = template_id
        self.funcs = funcs
        self.builtins = builtins
        self.positions = positions
        self.namespace = namespace
        self.field_helper = {"error": "field_or_fail", "zero": "field_or_zero"}.get(missing_key, "field")
        self.assigned = assigned
        self.at: nd.Node | LastVisited = nd.Node(0)
        self.function = FunctionState(0)
        self.functions = 0
        self.locals = 0
        root = Variable("d0")
        self.scope: list[tuple[str, Variable]] = [("$", root)]
        self.dot = root
        self.optional_args = 0
        self.conditionals: list[str] = []

    # Names and locals

    def fresh(self, prefix: str = "t") -> str:
        self.locals += 1
        return f"{prefix}{self.locals}"

    def line(self, calling: str = "", node: nd.Node | LastVisited | None = None) -> int:
        return self.positions.line(self.template, self.template_id, self.at if node is None else node, calling)

    def keep(self, value: Any) -> ast.expr:
        """An object that is no constant, under a name in the program's namespace."""
        ident = f"k{len(self.namespace)}"
        self.namespace[ident] = value
        return gen.name(ident)

    def hold(self, expr: ast.expr) -> tuple[ast.expr, str]:
        """An expression to evaluate first, and the local that has its value afterwards."""
        if isinstance(expr, ast.Name):
            return expr, expr.id
        temp = self.fresh()
        return gen.bind(temp, expr), temp

    def fail(self, message: str, *evaluated: ast.expr) -> Value:
        return Value(gen.call_named("fail", [gen.const(message), *evaluated], self.line()))

    # Variables

    def declare(self, name: str, variable: Variable) -> Variable:
        variable.owner = self.function.number
        variable.mutable = name in self.assigned
        variable.conditional = self.optional_args > 0
        if variable.mutable:
            variable.container = variable.local + "c"
        if variable.conditional:
            self.conditionals.append(variable.local)
        self.scope.append((name, variable))
        return variable

    def find(self, name: str) -> list[Variable]:
        """The variables that the name may refer to, innermost first; all but the last are conditional."""
        found = []
        for known, variable in reversed(self.scope):
            if known == name:
                found.append(variable)
                if not variable.conditional:
                    break
        return found

    def bind(self, variable: Variable, value: ast.expr) -> ast.expr:
        """Assigns a pipeline's value to the variable."""
        if variable.owner != self.function.number:
            self.function.outer.add(variable.local)
            if variable.mutable:
                self.function.outer.add(variable.local + "c")
        bound = gen.bind(variable.local, value)
        if variable.mutable:
            # The old container is dropped only after the value, which may read the variable, is computed.
            return gen.item(gen.tuple_([bound, gen.bind(variable.local + "c", gen.const(None))]), 0)
        return bound

    def read(self, variable: Variable) -> Value:
        return Value(
            gen.name(variable.local), None, variable.may_nil or variable.mutable,
            variable.may_missing or variable.mutable, pure=True,
        )  # fmt: skip

    # Pipelines

    def pipeline(self, pipe: nd.PipeNode | None, declare: bool = True) -> Value:
        if pipe is None:
            return Value(gen.name("M"), pure=True)
        self.at = pipe
        value: Value | None = None
        for command in pipe.cmds:
            value = self.not_nil(self.command(command, value))
        if value is None:
            raise AssertionError("the parser lets no empty pipeline through")
        for decl in pipe.decl if declare else ():
            name = decl.ident[0]
            if not pipe.is_assign:
                variable = self.declare(name, Variable(self.fresh("v"), False, value.may_missing))
                value = Value(self.bind(variable, value.expr), value.type, False, value.may_missing)
                continue
            variables = self.find(name)
            if not variables:
                value = self.fail(f"undefined variable: {name}", value.expr)
            else:
                value = Value(self.bind(variables[0], value.expr), value.type, False, value.may_missing)
        return value

    def not_nil(self, value: Value) -> Value:
        """A nil interface at the end of a command becomes "no value"."""
        if not value.may_nil:
            return value
        held, temp = self.hold(value.expr)
        expr = gen.choose(gen.is_(held, gen.const(None)), gen.name("M"), gen.name(temp))
        return Value(expr, value.type, False, True, value.pure)

    def command(self, command: nd.CommandNode, final: Value | None) -> Value:
        first = command.args[0]
        if isinstance(first, nd.FieldNode):
            return self.field_node(first, command.args, final)
        if isinstance(first, nd.ChainNode):
            return self.chain_node(first, command.args, final)
        if isinstance(first, nd.IdentifierNode):
            return self.function_call(first, command, command.args[1:], final)
        if isinstance(first, nd.PipeNode):
            return self.not_a_function(command.args, final) or self.pipeline(first)
        if isinstance(first, nd.VariableNode):
            return self.variable_node(first, command.args, final)
        self.at = first
        problem = self.not_a_function(command.args, final)
        if problem:
            return problem
        if isinstance(first, nd.DotNode):
            return self.read(self.dot)
        if isinstance(first, nd.NilNode):
            return self.fail("nil is not a command")
        return self.literal(first, ANY)

    def not_a_function(self, args: list[nd.Node], final: Value | None) -> Value | None:
        if len(args) > 1 or final is not None:
            evaluated = [] if final is None else [final.expr]
            return self.fail(f"can't give argument to non-function {args[0]}", *evaluated)
        return None

    # Literals and arguments

    def literal(self, node: nd.Node, type_name: str) -> Value:
        self.at = node
        try:
            value = runtime.literal(node, type_name)
        except EvalFailure as failure:
            return self.fail(str(failure))
        if value is MISSING:
            return Value(gen.name("M"), pure=True)
        if value is None:
            return Value(gen.const(None), None, True, False, pure=True)
        if isinstance(value, _CONSTANTS):
            return Value(gen.const(value), go_type(value), False, False, pure=True)
        return Value(self.keep(value), None, False, False, pure=True)

    def argument(self, node: nd.Node, type_name: str | None) -> Value:
        """Go's evalArg; a type of None means no check."""
        self.at = node
        if isinstance(node, _LITERALS):
            return self.literal(node, type_name or ANY)
        return self.checked(self.unchecked(node), type_name)

    def unchecked(self, node: nd.Node) -> Value:
        if isinstance(node, nd.DotNode):
            return self.read(self.dot)
        if isinstance(node, nd.FieldNode):
            return self.field_node(node, [node], None)
        if isinstance(node, nd.VariableNode):
            return self.variable_node(node, [node], None)
        if isinstance(node, nd.PipeNode):
            return self.pipeline(node)
        if isinstance(node, nd.IdentifierNode):
            return self.function_call(node, node, [], None)
        if isinstance(node, nd.ChainNode):
            return self.chain_node(node, [node], None)
        raise AssertionError(f"not an operand: {node}")

    def checked(self, value: Value, type_name: str | None) -> Value:
        """Go's validateType."""
        if type_name is None or type_name == VALUE or (value.type is not None and value.type == type_name):
            return value
        if type_name == ANY:
            if not value.may_missing:
                return value
            held, temp = self.hold(value.expr)
            test = gen.is_(held, gen.name("M"))
            return Value(gen.choose(test, gen.const(None), gen.name(temp)), value.type, True, False, value.pure)
        wanted = gen.const(type_name)
        fast = _FAST_TYPES.get(type_name)
        if fast is None:
            return Value(gen.call_named("want", [value.expr, wanted], self.line()), type_name, False, False)
        held, temp = self.hold(value.expr)
        slow = gen.call_named("want", [gen.name(temp), wanted], self.line())
        expr = gen.choose(gen.has_type(held, fast), gen.name(temp), slow)
        return Value(expr, type_name, False, False)

    # Fields

    def field_node(self, node: nd.FieldNode, args: list[nd.Node], final: Value | None) -> Value:
        self.at = node
        return self.field_chain(self.read(self.dot), self.dot.container, node.ident, args, final)

    def chain_node(self, node: nd.ChainNode, args: list[nd.Node], final: Value | None) -> Value:
        self.at = node
        return self.field_chain(self.argument(node.node, None), None, node.fields, args, final)

    def variable_node(self, node: nd.VariableNode, args: list[nd.Node], final: Value | None) -> Value:
        self.at = node
        variables = self.find(node.ident[0])
        if not variables:
            return self.fail(f"undefined variable: {node.ident[0]}")
        value = self.read(variables[-1])
        if variables[-1].conditional:
            value = self.fail(f"undefined variable: {node.ident[0]}")
            variables.append(variables[-1])
        for variable in reversed(variables[:-1]):
            test = gen.is_(gen.name(variable.local), gen.name("UNSET"))
            value = Value(gen.choose(test, value.expr, gen.name(variable.local)), None, True, True)
        if len(node.ident) == 1:
            return self.not_a_function(args, final) or value
        return self.field_chain(value, variables[0].container, node.ident[1:], args, final)

    def field_chain(
        self, value: Value, container: str | None, idents: list[str], args: list[nd.Node], final: Value | None
    ) -> Value:
        held: ast.expr = gen.const(None) if container is None else gen.name(container)
        with_args = len(args) > 1 or final is not None
        plain = idents[:-1] if with_args else idents
        before = final.expr if final is not None else None
        if before is not None:
            final_local = self.fresh()
            value = Value(gen.sequence(gen.bind(final_local, before), value.expr))
            before = gen.name(final_local)
        for ident in plain:
            bound, temp = self.hold(value.expr)
            slow_args = [gen.name(temp), gen.const(ident), held]
            slow = gen.call_named(self.field_helper, slow_args, self.line(ident))
            if self.field_helper == "field":
                fast = gen.call(gen.attribute(gen.name(temp), "get"), [gen.const(ident), gen.name("M")])
                value = Value(gen.choose(gen.has_type(bound, "dict"), fast, slow), None, True, True)
            else:
                slow_args[0] = bound
                value = Value(slow, None, True, True)
            held = gen.name(temp)
        if not with_args:
            return value
        line = self.line(idents[-1])
        thunks = [self.argument_thunk(arg) for arg in args[1:]]
        finals = [] if before is None else [before]
        call_args = [value.expr, gen.const(idents[-1]), gen.tuple_(thunks), held, *finals]
        return Value(gen.call_named("field_call", call_args, line), None, True, True)

    def argument_thunk(self, node: nd.Node) -> ast.expr:
        """A function from the required type to the argument: a method's parameters are known only at run time."""
        self.at = node
        if isinstance(node, _LITERALS):
            return gen.lambda_("p", gen.call_named("literal", [self.keep(node), gen.name("p")], self.line()))
        value = self.unchecked(node)
        return gen.lambda_("p", gen.call_named("want", [value.expr, gen.name("p")], self.line()))

    # Functions

    def function_call(self, node: nd.IdentifierNode, whole: nd.Node, args: list[nd.Node], final: Value | None) -> Value:
        self.at = node
        name = node.ident
        func = self.funcs.get(name)
        is_builtin = func is None
        if func is None:
            func = self.builtins[name]
        evaluated = [] if final is None else [final.expr]
        problem = func.arity_problem(len(args) + len(evaluated), len(args))
        if problem:
            return self.fail(f"wrong number of args for {name}: {problem}", *evaluated)
        if is_builtin and name in ("and", "or"):
            return self.and_or(name == "or", args, final)
        values = [self.argument(arg, func.param(at)) for at, arg in enumerate(args)]
        before: ast.expr | None = None
        if final is not None:
            if not all(value.pure for value in values):
                local = self.fresh()
                before = gen.bind(local, final.expr)
                final = Value(gen.name(local), final.type, final.may_nil, final.may_missing, pure=True)
            values.append(self.checked(final, func.param(len(args))))
        exprs = [value.expr for value in values]
        if is_builtin and name == "call":
            # The callee's source is passed for messages; a callee from the pipeline has only its type.
            exprs.insert(0, gen.const(str(args[0]) if args else "<func() Value>"))
        ident = f"f_{name}" if name.isascii() else f"k{len(self.namespace)}"
        self.namespace.setdefault(ident, func.call)
        callee = gen.name(ident)
        if func.late:
            bound = gen.attribute(gen.attribute(gen.name("x"), "funcs"), "get")
            callee = gen.call(bound, [gen.const(name), callee])
        expr = gen.call(callee, exprs, self.line(name, whole))
        if before is not None:
            expr = gen.sequence(before, expr)
        nilable = func.result in (ANY, VALUE)
        return Value(expr, None if nilable else func.result, nilable, func.result == VALUE)

    def and_or(self, is_or: bool, args: list[nd.Node], final: Value | None) -> Value:
        parts: list[ast.expr] = []
        visited: list[tuple[str, nd.Node | LastVisited]] = []
        before: ast.expr | None = None
        if final is not None:
            local = self.fresh()
            before = gen.bind(local, final.expr)
            final = Value(gen.name(local), final.type, final.may_nil, final.may_missing, pure=True)
        for at, arg in enumerate(args):
            self.optional_args += at > 0
            value = self.argument(arg, VALUE)
            self.optional_args -= at > 0
            temp = self.fresh()
            parts.append(gen.bind(temp, value.expr))
            visited.append((temp, self.at))
        if len(visited) > 1:
            self.at = LastVisited(is_or, tuple(visited[:-1]), visited[-1][1])
        if final is not None:
            parts.append(final.expr)
        expr = gen.boolean(is_or, parts)
        return Value(expr if before is None else gen.sequence(before, expr), None, True, True)
