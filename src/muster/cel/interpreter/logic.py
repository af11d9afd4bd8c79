"""`&&`, `||` and `?:`: the short-circuiting operators.

`&&` and `||` absorb errors: an operand that decides the result takes precedence over one that failed, in any order. If none
decides, the first error is the result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from muster.cel.errors import CostExceeded, EvaluationError, no_such_overload
from muster.cel.interpreter.code import Code, Run
from muster.cel.syntax.ast import Call, is_chain
from muster.cel.types import BOOL

if TYPE_CHECKING:
    from muster.cel.interpreter.compiler import Compiler


def compile_logical(compiler: Compiler, node: Call) -> Code:
    deciding = node.name == "_||_"
    codes = [compiler.compile(argument) for argument in node.args]
    if len(codes) == 2 and all(argument.type == BOOL for argument in node.args):
        build = _either if deciding else _both
        return Code(build(codes[0].run, codes[1].run, codes[1].cost), codes[0].cost)
    terms = [(code.run, code.cost if index else 0) for index, code in enumerate(codes)]

    def run(frame: list[Any]) -> bool:
        error: EvaluationError | None = None
        for term, cost in terms:
            frame[0] -= cost
            try:
                value = term(frame)
            except EvaluationError as raised:
                error = error or raised
                continue
            if value is deciding:
                return bool(value)
            if value.__class__ is not bool:
                error = error or no_such_overload()
        if error is not None:
            raise error
        return not deciding

    return Code(run, codes[0].cost)


def _both(left: Run, right: Run, cost: int) -> Run:
    def run(frame: list[Any]) -> Any:
        try:
            if not left(frame):
                return False
        except EvaluationError as error:
            return _after_error(frame, error, right, cost, False)
        frame[0] -= cost
        return right(frame)

    return run


def _either(left: Run, right: Run, cost: int) -> Run:
    def run(frame: list[Any]) -> Any:
        try:
            if left(frame):
                return True
        except EvaluationError as error:
            return _after_error(frame, error, right, cost, True)
        frame[0] -= cost
        return right(frame)

    return run


def _after_error(frame: list[Any], error: EvaluationError, right: Run, cost: int, deciding: bool) -> bool:
    frame[0] -= cost
    try:
        if right(frame) is deciding:
            return bool(deciding)
    except EvaluationError:
        raise error from None
    raise error


def compile_conditional(compiler: Compiler, node: Call) -> Code:
    condition, then, otherwise = (compiler.compile(argument) for argument in node.args)
    test, yes, no = condition.run, then.run, otherwise.run
    # cel-go resolves a selected variable as part of the conditional and charges its selections only.
    yes_cost = then.cost - is_chain(node.args[1])
    no_cost = otherwise.cost - is_chain(node.args[2])

    def run(frame: list[Any]) -> Any:
        chosen = test(frame)
        if chosen is True:
            frame[0] -= yes_cost
            if frame[0] < 0:
                raise CostExceeded
            return yes(frame)
        if chosen is False:
            frame[0] -= no_cost
            return no(frame)
        raise no_such_overload()

    return Code(run, condition.cost)
