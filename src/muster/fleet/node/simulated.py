"""Simulated containers of other images, as KWOK's pods: nothing runs, and after a moment they are ready, or completed.

Only if the fleet was started with `muster up --simulate-images`. The log has a note about it; nothing is mounted, no token is
requested, and no program is looked up, so no permission of the namespace is needed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final

from muster.fleet.node.programs import Program, is_ours
from muster.machinery.clock import Clock, sleep
from muster.machinery.objects import Object

if TYPE_CHECKING:
    from muster.fleet.node.environment import PodEnvironment

DELAY: Final = 0.5
"""Seconds until a simulated container is ready, or completed."""


def simulated_program(image: str, clock: Clock, *, ends: bool, ready: Callable[[], None]) -> Program:
    """The simulated program of an image: it succeeds if the container is to end, and otherwise is ready until it is stopped."""

    async def run(args: Sequence[str], env: PodEnvironment) -> int:
        arguments = f" with {' '.join(args)}" if args else ""
        env.print(f'simulated: image "{image}" does not run here, nothing of it does{arguments}')
        await sleep(clock, DELAY)
        if ends:
            env.print("simulated: it counts as done, with exit code 0")
            return 0
        env.print("simulated: it counts as ready until it is stopped")
        ready()
        await asyncio.Event().wait()
        return 0

    return run


def only_foreign(pod: Object, images: Sequence[str]) -> bool:
    """Whether none of the pod's images is ours."""
    containers: Iterable[Object] = (*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"])
    return not any(is_ours(container.get("image") or "", images) for container in containers)
