"""The compiler's output: a closure over a frame, with its fixed cost.

A frame is a list: slot 0 has the remaining cost, then come the variables and the loop variables. Costs that every evaluation of an
expression has are summed at compile time and charged at once where control enters: at the start, at a branch taken, per loop
iteration. Only value-dependent costs are charged separately. Loops and value-dependent costs check the limit; straight-line code
need not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from muster.cel.values import MISSING
from muster.cel.views import Declaration

Frame = list[Any]
Run = Callable[[Frame], Any]


class Code:
    """`run` computes the value, `cost` is its fixed cost; `constant` is set if the value is constant."""

    __slots__ = ("constant", "cost", "run")

    def __init__(self, run: Run, cost: int, constant: Any = MISSING) -> None:
        self.run = run
        self.cost = cost
        self.constant = constant


class RawCode:
    """Computes unadapted JSON, together with the declaration that adapts it."""

    __slots__ = ("cost", "declaration", "run")

    def __init__(self, run: Run, cost: int, declaration: Declaration) -> None:
        self.run = run
        self.cost = cost
        self.declaration = declaration


class Slot:
    """The slot of a variable; with a declaration its value is unadapted JSON.

    A bound variable is computed when first read: `lazy` is its code, and the slot has MISSING until then.
    """

    __slots__ = ("declaration", "index", "lazy")

    def __init__(self, index: int, declaration: Declaration | None) -> None:
        self.index = index
        self.declaration = declaration
        self.lazy: Code | None = None


def constant(value: Any) -> Code:
    return Code(lambda frame: value, 0, value)
