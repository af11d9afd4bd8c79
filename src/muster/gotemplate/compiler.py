"""Compiles parse trees to one Python code object.

Each template becomes a Python function of (dot, output list, execution, depth). Consecutive text and actions become one extension
of the output list; `if`, `with` and `range` become Python's own statements, and template variables become locals, so a compiled
template runs without walking a tree. The code is a factory without state: runs share only the read-only namespace.

Python allows 20 nested loops in a function; a `range` that is nested deeper becomes a local function.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import FunctionType
from typing import Any

from muster.gotemplate import codegen as gen
from muster.gotemplate import nodes as nd
from muster.gotemplate import runtime
from muster.gotemplate.error_context import Position, PositionTable
from muster.gotemplate.expressions import ExpressionCompiler, FunctionState, Value, Variable
from muster.gotemplate.signature import Func
from muster.gotemplate.values import MISSING
from muster.machinery.golang.quoting import quote

FILENAME = "<gotemplate>"
_LOOPS_PER_FUNCTION = 15
_NAMESPACE: dict[str, Any] = {
    "__builtins__": {},
    "M": MISSING,
    "UNSET": object(),
    "type": type,
    "str": str,
    "int": int,
    "bool": bool,
    "float": float,
    "dict": dict,
    "list": list,
    "fail": runtime.fail,
    "enter": runtime.enter,
    "want": runtime.want,
    "literal": runtime.literal,
    "field": runtime.field,
    "field_or_fail": runtime.field_or_fail,
    "field_or_zero": runtime.field_or_zero,
    "field_call": runtime.field_call,
    "SHOW": runtime.SHOW,
    "iterate": runtime.iterate,
    "iterate_pairs": runtime.iterate_pairs,
}


@dataclass(frozen=True, slots=True)
class Program:
    """A compiled set of templates."""

    functions: dict[str, FunctionType]
    positions: list[Position | None]
    namespace: dict[str, Any]
    called: frozenset[str]
    """The names of all called functions, including those in branches that are not taken."""


def walk(node: nd.Node | None) -> Iterator[nd.Node]:
    """The node and all its descendants."""
    if node is None:
        return
    yield node
    if isinstance(node, nd.ListNode):
        for child in node.nodes:
            yield from walk(child)
    elif isinstance(node, (nd.ActionNode, nd.TemplateNode)):
        yield from walk(node.pipe)
    elif isinstance(node, nd.BranchNode):
        yield from walk(node.pipe)
        yield from walk(node.body)
        yield from walk(node.else_body)
    elif isinstance(node, nd.PipeNode):
        for command in node.cmds:
            for arg in command.args:
                yield from walk(arg)
    elif isinstance(node, nd.ChainNode):
        yield from walk(node.node)


class _TemplateCompiler(ExpressionCompiler):
    """Compiles the statements of one template."""

    def __init__(self, function_names: Mapping[str, str], *args: Any) -> None:
        super().__init__(*args)
        self.function_names = function_names
        self.loop_depth = 0

    def compile(self, ident: str, root: nd.ListNode) -> ast.stmt:
        body = self.block(root)
        return gen.function(ident, ["d0", "out", "x", "depth"], self._unset_first(body, 0), set())

    def _unset_first(self, body: list[ast.stmt], since: int) -> list[ast.stmt]:
        unset = [gen.assign(local, gen.name("UNSET")) for local in self.conditionals[since:]]
        return unset + body

    def block(self, nodes: nd.ListNode) -> list[ast.stmt]:
        body: list[ast.stmt] = []
        run: list[ast.expr] = []

        def write() -> None:
            if run:
                body.append(gen.extend("out", list(run)))
                run.clear()

        for node in nodes.nodes:
            self.at = node
            if isinstance(node, nd.TextNode):
                run.append(gen.const(node.text))
            elif isinstance(node, nd.ActionNode):
                value = self.pipeline(node.pipe)
                if node.pipe.decl:
                    write()
                    body.append(gen.expression(value.expr))
                else:
                    self.at = node
                    run.append(self.printed(value))
            else:
                write()
                body += self.statement(node)
                if isinstance(node, (nd.BreakNode, nd.ContinueNode)):
                    break
        write()
        return body

    def printed(self, value: Value) -> ast.expr:
        if value.type == "string":
            return value.expr
        held, temp = self.hold(value.expr)
        show = gen.lookup(gen.name("SHOW"), gen.call_named("type", [gen.name(temp)]))
        slow = gen.call(show, [gen.name(temp)], self.line())
        return gen.choose(gen.has_type(held, "str"), gen.name(temp), slow)

    def statement(self, node: nd.Node) -> list[ast.stmt]:
        if isinstance(node, nd.IfNode):
            return self.branch(node, sets_dot=False)
        if isinstance(node, nd.WithNode):
            return self.branch(node, sets_dot=True)
        if isinstance(node, nd.RangeNode):
            return self.range(node)
        if isinstance(node, nd.TemplateNode):
            return [self.template_call(node)]
        if isinstance(node, nd.BreakNode):
            return [gen.break_()]
        return [gen.continue_()]

    def branch(self, node: nd.BranchNode, sets_dot: bool) -> list[ast.stmt]:
        mark = len(self.scope)
        value = self.pipeline(node.pipe)
        test = value.expr
        outer_dot = self.dot
        if sets_dot:
            self.dot = Variable(self.fresh("d"), False, False, owner=self.function.number)
            test = gen.bind(self.dot.local, test)
        inner = len(self.scope)
        body = self.block(node.body)
        del self.scope[inner:]
        self.dot = outer_dot
        orelse = self.block(node.else_body) if node.else_body is not None else []
        del self.scope[mark:]
        return [gen.if_(test, body, orelse)]

    def template_call(self, node: nd.TemplateNode) -> ast.stmt:
        ident = self.function_names.get(node.name)
        if ident is None:
            return gen.expression(self.fail(f"template {quote(node.name)} not defined").expr)
        depth = gen.call_named("enter", [gen.name("x"), gen.name("out"), gen.name("depth")], self.line())
        local = self.fresh("n")
        value = self.pipeline(node.pipe)
        call = gen.call_named(ident, [value.expr, gen.name("out"), gen.name("x"), gen.name(local)])
        return gen.expression(gen.sequence(gen.bind(local, depth), call))

    def range(self, node: nd.RangeNode) -> list[ast.stmt]:
        if self.loop_depth and self.loop_depth % _LOOPS_PER_FUNCTION == 0:
            return self.in_function(node)
        return self.loop(node)

    def in_function(self, node: nd.RangeNode) -> list[ast.stmt]:
        outer = self.function
        self.functions += 1
        self.function = FunctionState(self.functions)
        ident = self.fresh("r")
        since = len(self.conditionals)
        body = self._unset_first(self.loop(node), since)
        del self.conditionals[since:]
        # The output list is extended in place, which is an assignment in Python.
        stmt = gen.function(ident, [], body, self.function.outer | {"out"})
        outer.outer |= {local for local in self.function.outer if not self.owns(outer, local)}
        self.function = outer
        return [stmt, gen.expression(gen.call_named(ident, []))]

    def owns(self, function: FunctionState, local: str) -> bool:
        return any(variable.local in (local, local[:-1]) and variable.owner == function.number
                   for _, variable in self.scope)  # fmt: skip

    def loop(self, node: nd.RangeNode) -> list[ast.stmt]:
        mark = len(self.scope)
        pipe = node.pipe
        self.at = node
        value = self.pipeline(pipe, declare=False)
        visited = self.at
        container = self.fresh("c")
        rounds = self.fresh("r")
        two = len(pipe.decl) > 1
        prelude: list[ast.stmt] = [gen.assign(container, value.expr)]
        element = Variable(self.fresh("d"), True, True, container, owner=self.function.number)
        index = self.fresh("i") if two else ""
        head: list[ast.stmt] = []
        if pipe.is_assign:
            prelude += self.range_assign(pipe, container, element.local, index, head)
        else:
            prelude += self.range_declare(pipe, container, element.local, index, head, node.else_body is not None)
        self.at = visited
        helper = "iterate_pairs" if two else "iterate"
        find = gen.call_named(helper, [gen.name(container), gen.name("x"), gen.name("out")], self.line())
        since = len(self.conditionals)
        outer_dot, self.dot = self.dot, element
        self.loop_depth += 1
        inner = len(self.scope)
        body = self._unset_first(head + self.block(node.body), since)
        del self.conditionals[since:]
        del self.scope[inner:]
        self.loop_depth -= 1
        self.dot = outer_dot
        orelse = self.block(node.else_body) if node.else_body is not None else []
        del self.scope[mark:]
        targets = [index, element.local] if two else [element.local]
        test = gen.is_(gen.bind(rounds, find), gen.const(None))
        loop = gen.for_(targets, gen.name(rounds), body)
        return [*prelude, gen.if_(test, orelse, [loop])]

    def range_declare(
        self, pipe: nd.PipeNode, container: str, element: str, index: str, head: list[ast.stmt], has_else: bool
    ) -> list[ast.stmt]:
        """Declares the loop's variables; before the first iteration, and in the else branch, they have the container."""
        prelude: list[ast.stmt] = []
        sources = [index, element] if index else [element]
        for decl, source in zip(pipe.decl, sources, strict=False):
            name = decl.ident[0]
            if name not in self.assigned and not has_else:
                from_element = source == element
                variable = Variable(source, from_element, False, container if from_element else None)
                self.declare(name, variable)
                variable.mutable = False
                continue
            variable = self.declare(name, Variable(self.fresh("v"), True, True))
            variable.container = variable.local + "c"
            held = gen.name(container) if source == element else gen.const(None)
            prelude.append(gen.assign(variable.container, gen.const(None)))
            head.append(gen.assign(variable.container, held))
            prelude.append(gen.assign(variable.local, gen.name(container)))
            head.append(gen.assign(variable.local, gen.name(source)))
        return prelude

    def range_assign(self, pipe: nd.PipeNode, container: str, element: str, index: str, head: list[ast.stmt]) -> list[ast.stmt]:
        """Assigns to outer variables: first the container (the pipeline's value), then each iteration's values."""
        prelude: list[ast.stmt] = []
        sources = [index, element] if index else [element]
        for decl, source in zip(pipe.decl, sources, strict=False):
            variables = self.find(decl.ident[0])
            if not variables:
                prelude.append(gen.expression(self.fail(f"undefined variable: {decl.ident[0]}").expr))
                continue
            variable = variables[0]
            prelude.append(gen.expression(self.bind(variable, gen.name(container))))
            head.append(gen.expression(self.bind(variable, gen.name(source))))
            if source == element:
                head.append(gen.assign(variable.local + "c", gen.name(container)))
        return prelude


def compile_trees(
    trees: Mapping[str, nd.ListNode], funcs: Mapping[str, Func], builtins: Mapping[str, Func], missing_key: str
) -> Program:
    """Compiles all templates of one text."""
    positions = PositionTable()
    namespace = dict(_NAMESPACE)
    idents = {name: f"t_{number}" for number, name in enumerate(trees)}
    body = []
    for number, (name, root) in enumerate(trees.items()):
        compiler = _TemplateCompiler(idents, name, number, funcs, builtins, positions, namespace, missing_key, root.assigned)
        body.append(compiler.compile(idents[name], root))
    code = compile(gen.module(body), FILENAME, "exec")
    exec(code, namespace)
    nodes = (node for root in trees.values() for node in walk(root))
    called = frozenset(node.ident for node in nodes if isinstance(node, nd.IdentifierNode))
    return Program({name: namespace[ident] for name, ident in idents.items()}, positions.positions, namespace, called)
