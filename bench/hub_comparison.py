"""What benchmarks of a hub's controllers have in common: both sides in turn, case by case, and what each does at rest."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from bench.hub_controllers import HubController, Ours, Program, Upstream
from bench.report import Row


class Case(Protocol):
    @property
    def unlimited(self) -> bool: ...

    def words(self) -> str: ...


C = TypeVar("C", bound=Case)
M = TypeVar("M")
Measure = Callable[[HubController, C], Coroutine[Any, Any, M]]


def compare(
    program: Program,
    cases: Sequence[C],
    measure: Measure[C, M],
    rows: Callable[[C, M, M], list[Row]],
    say: Callable[[str], None],
) -> list[Row]:
    """Ours and upstream's, each case on servers of its own."""
    made: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="muster-bench-") as name:
        for number, case in enumerate(cases):
            found = []
            for kind in (Ours, Upstream):
                say(f"{kind.name}: {case.words()} …")
                controller = kind(program, Path(name) / f"{kind.__name__}-{number}", case.unlimited)
                found.append(asyncio.run(measure(controller, case)))
                say(f"  {found[-1]}")
            made += rows(case, *found)
    return made


def measure_one(program: Program, side: str, case: C, measure: Measure[C, M]) -> M:
    kind = Ours if side == Ours.name else Upstream
    with tempfile.TemporaryDirectory(prefix="muster-bench-") as name:
        return asyncio.run(measure(kind(program, Path(name) / "controller", case.unlimited), case))


@dataclass(frozen=True)
class Rest:
    """What a controller did while nothing happened."""

    requests_per_minute: float = 0.0
    cpu: float = 0.0
    """Of a core."""

    @classmethod
    async def of(cls, controller: HubController, seconds: float) -> Rest:
        mark, cpu = controller.audit.mark(), controller.cpu()
        await asyncio.sleep(seconds)
        return cls(controller.requests(mark).total() * 60 / seconds, (controller.cpu() - cpu) / seconds)


def rest_rows(words: str, ours: Rest, theirs: Rest) -> list[Row]:
    return [
        Row(f"{words}: requests at rest", "/min", ours.requests_per_minute, theirs.requests_per_minute, "less"),
        Row(f"{words}: CPU at rest", "% of a core", ours.cpu * 100, theirs.cpu * 100, "less"),
    ]
