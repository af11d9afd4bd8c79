"""What a part of the program holds, by class and attribute, and what it leaves to the garbage collector.

For tests that something which comes and goes leaves nothing behind. Attributes, closures, bound methods and containers are
followed; tasks and what they have on their stacks are not.
"""

from __future__ import annotations

import asyncio
import functools
import gc
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager
from types import FunctionType, MethodType
from typing import Any

_CONTAINERS = (dict, list, set, frozenset, deque)


def holdings(*roots: object, apart: tuple[type, ...] = ()) -> Counter[str]:
    """By place (`Class.attribute`, with `[]` for what is inside): how many things there are in its containers, all together.
    What is `apart` (say, a client that leads to a whole server in this process) is not entered."""
    sizes: Counter[str] = Counter()
    met: dict[int, object] = {}
    waiting: list[tuple[str, Any]] = [("", root) for root in roots]
    while waiting:
        place, found = waiting.pop()
        if id(found) in met or isinstance(found, apart):
            continue
        met[id(found)] = found
        if isinstance(found, _CONTAINERS):
            sizes[place] += len(found)
        waiting.extend(_inside(place, found))
    return sizes


def grown(before: Counter[str], after: Counter[str], least: int) -> dict[str, tuple[int, int]]:
    """The places that hold at least so many more."""
    return {place: (before[place], size) for place, size in after.items() if size - before[place] >= least}


def _inside(place: str, found: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(found, dict):
        yield from ((f"{place}[]", one) for pair in list(found.items()) for one in pair)
    elif isinstance(found, (*_CONTAINERS, tuple)):
        yield from ((f"{place}[]", one) for one in list(found))
    elif isinstance(found, MethodType):
        yield place, found.__self__
    elif isinstance(found, functools.partial):
        yield from ((place, one) for one in (found.func, *found.args, *found.keywords.values()))
    elif isinstance(found, FunctionType):
        yield from ((found.__qualname__, cell.cell_contents) for cell in found.__closure__ or () if _filled(cell))
    elif type(found).__module__.startswith(("muster.", "tests.")):
        yield from _attributes(found)


def _attributes(found: Any) -> Iterator[tuple[str, Any]]:
    kind = type(found)
    names = {name for base in kind.__mro__ for name in getattr(base, "__slots__", ())} | set(getattr(found, "__dict__", ()))
    for name in names:
        if (value := getattr(found, name, None)) is not None:
            yield f"{kind.__qualname__}.{name}", value


def _filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False


@contextmanager
def garbage() -> Iterator[Counter[str]]:
    """What of the program's own is in cycles at the end: gone, but for the collector. Filled when the block ends."""
    found: Counter[str] = Counter()
    gc.collect()
    gc.disable()
    try:
        yield found
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        found.update(type(one).__qualname__ for one in gc.garbage if type(one).__module__.startswith("muster."))
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


def population(*packages: str) -> Counter[str]:
    """How many objects there are of each class from these packages: for parts that live on stacks, where `holdings` does not look.
    What the collector does not follow is not counted, nor are cancelled timers: a loop keeps those until their time has come."""
    gc.collect()
    found = [one for one in gc.get_objects() if type(one).__module__.startswith(packages)]
    return Counter(type(one).__qualname__ for one in found if not (isinstance(one, asyncio.TimerHandle) and one.cancelled()))
