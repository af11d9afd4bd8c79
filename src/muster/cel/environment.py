"""Environments and programs: the main API of the package.

An environment has variables, functions and types; it compiles text to programs. Compiling is expensive, so an environment caches
its programs. A program is immutable and may be evaluated concurrently; each evaluation has its own frame.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from muster.cel.checker.checker import TYPE_NAMES, check
from muster.cel.checker.validators import validate_literals
from muster.cel.errors import CompileError, CostExceeded, EvaluationError, Issue
from muster.cel.interpreter.calls import InstantiationFailed
from muster.cel.interpreter.code import Code
from muster.cel.interpreter.compiler import Compiler
from muster.cel.library.registry import Function, Library
from muster.cel.schema_declarations import declaration_of
from muster.cel.syntax.ast import Node
from muster.cel.syntax.macros import MacroTable
from muster.cel.syntax.parser import parse
from muster.cel.types import Type, type_type
from muster.cel.values import MISSING
from muster.cel.views import Declaration

PER_CALL_LIMIT = 1_000_000
"""The cost limit of one evaluation, about a tenth of a second in cel-go."""
RUNTIME_COST_BUDGET = 10_000_000
"""The cost limit of all rules of one custom resource, or of one policy binding, together."""
MATCH_CONDITIONS_COST_BUDGET = 2_500_000
"""The cost limit of all match conditions of one webhook together."""
_REMEMBERED = 512


class InstantiationError(CompileError):
    """The expression is well typed, but a constant part of it cannot be evaluated; `str(error)` names it."""

    def __init__(self, source: str, message: str) -> None:
        super().__init__(source, [Issue(-1, message)])
        self.args = (message,)


class CostBudget:
    """The remaining cost for a series of evaluations; each subtracts its actual cost."""

    __slots__ = ("remaining",)

    def __init__(self, remaining: int = RUNTIME_COST_BUDGET) -> None:
        self.remaining = remaining


class Program:
    """A compiled expression. `type` is its result type, `references` the variables it reads."""

    __slots__ = ("_code", "_names", "_slots", "references", "text", "tree", "type")

    def __init__(self, text: str, tree: Node, type_: Type, code: Code, compiler: Compiler) -> None:
        self.text = text
        self.tree = tree
        self.type = type_
        self._code = code
        self._names = [(name, slot.index) for name, slot in compiler.used.items()]
        self._slots = compiler.slots
        self.references = frozenset(compiler.used)

    def evaluate(self, variables: Mapping[str, Any], budget: CostBudget | int = PER_CALL_LIMIT) -> Any:
        """The value for these variables; raises EvaluationError or CostExceeded.

        An int limits this evaluation. A CostBudget limits the series as well: the evaluation's cost is subtracted from it.
        """
        return self.evaluate_with_cost(variables, budget)[0]

    def evaluate_with_cost(self, variables: Mapping[str, Any], budget: CostBudget | int = PER_CALL_LIMIT) -> tuple[Any, int]:
        limit = min(PER_CALL_LIMIT, budget.remaining) if isinstance(budget, CostBudget) else budget
        frame: list[Any] = [0] * self._slots
        for name, index in self._names:
            value = variables.get(name, MISSING)
            if value is MISSING:
                raise EvaluationError(f"no such attribute(s): {name}")
            frame[index] = value
        code = self._code
        frame[0] = limit - code.cost
        try:
            result = code.run(frame)
        except RecursionError:
            raise EvaluationError("evaluation is nested too deeply") from None
        finally:
            cost = limit - frame[0]
            if isinstance(budget, CostBudget):
                budget.remaining -= cost
        if frame[0] < 0:
            raise CostExceeded
        return result, cost

    def maximum_cost(self, root: Declaration | None) -> int:
        """The worst case, if `self` is declared as `root`; see `estimate.py` for its use."""
        from muster.cel.estimate import maximum_cost

        return maximum_cost(self.tree, root)

    def __repr__(self) -> str:
        return f"<Program {self.text!r}: {self.type}>"


class Environment:
    """Declarations under which expressions are compiled.

    `variables` maps names to types or schema declarations, `structs` names to struct types that expressions may construct.
    Kubernetes checks literals beyond their types and refuses lists and maps of mixed ones; `plain_literals` disables that, as in
    plain cel-go.
    """

    def __init__(
        self,
        variables: Mapping[str, Type | Declaration] | None = None,
        libraries: Sequence[Library] | None = None,
        structs: Mapping[str, Type] | None = None,
        plain_literals: bool = False,
    ) -> None:
        if libraries is None:
            from muster.cel.library.kubernetes import KUBERNETES

            libraries = KUBERNETES
        self._shared = _declarations(tuple(libraries))
        self._variables = {name: declaration_of(spec) for name, spec in (variables or {}).items()}
        self._structs = dict(structs or {})
        self._plain_literals = plain_literals
        self._idents = {
            **self._shared.idents,
            **{name: declared.type for name, declared in self._variables.items()},
            **{name: type_type(struct) for name, struct in self._structs.items()},
        }
        self._programs: dict[tuple[str, Type | None], Program] = {}

    def declaration(self, name: str) -> Declaration | None:
        """The declaration of a variable; None for a plain type, which has no bounds."""
        found = self._variables.get(name)
        return found if found is not None and found.bounded else None

    def compile(self, text: str, result: Type | None = None) -> Program:
        """The program for an expression; raises CompileError. With `result`, its type must be that one."""
        known = self._programs.get((text, result))
        if known is not None:
            return known
        tree = parse(text, self._shared.macros)
        type_ = check(text, tree, self._idents, self._shared.functions, self._structs)
        if not self._plain_literals:
            validate_literals(text, tree)
        if result is not None and type_ != result:
            raise ResultTypeError(text, result, type_)
        compiler = Compiler(self._variables, {**self._shared.types, **self._structs})
        try:
            code = compiler.compile(tree)
        except InstantiationFailed as error:
            raise InstantiationError(text, str(error)) from None
        except RecursionError:
            raise CompileError(text, [Issue(-1, "expression recursion limit exceeded: 250")]) from None
        program = Program(text, tree, type_, code, compiler)
        if len(self._programs) >= _REMEMBERED:
            self._programs.pop(next(iter(self._programs)))
        self._programs[text, result] = program
        return program


class ResultTypeError(CompileError):
    """The expression does not have the required type."""

    def __init__(self, source: str, expected: Type, found: Type) -> None:
        self.expected, self.found = expected, found
        super().__init__(source, [])
        self.args = (f"expected type '{expected}' but found '{found}'",)


class _Declarations:
    """The merged declarations of libraries."""

    def __init__(self, libraries: tuple[Library, ...]) -> None:
        self.functions: dict[str, Function] = {}
        self.macros: MacroTable = {}
        self.types: dict[str, Type] = dict(TYPE_NAMES)
        for library in libraries:
            for name, overload in library.overloads:
                function = self.functions.get(name)
                if function is None:
                    function = self.functions[name] = Function(name)
                function.overloads.append(overload)
            self.macros.update(library.macros)
            self.types.update(library.types)
        self.idents = {name: type_type(type_) for name, type_ in self.types.items()}


_known: dict[tuple[int, ...], tuple[tuple[Library, ...], _Declarations]] = {}


def _declarations(libraries: tuple[Library, ...]) -> _Declarations:
    """Libraries are few and shared by thousands of environments: merge each set once."""
    key = tuple(id(library) for library in libraries)
    found = _known.get(key)
    if found is None:
        found = _known[key] = (libraries, _Declarations(libraries))
    return found[1]
