"""What happens to a watch, a followed log or a terminal when the right to it ends: it is cut, within two minutes.

Kubernetes decides when a request begins, and never again: there such a stream lives until its time is over, and a terminal has no
time. Here about once a minute the hub is asked about each open stream what it was asked when it began, and one to which it now says
no is cut. The same questions of many streams cost one, a few are asked at a time, and the pause between two rounds is jittered so
that replicas do not ask together; however many streams there are, the hub has no more than `AT_ONCE` of these questions before it.

Only a no cuts. A hub that does not answer takes no stream away: everything that is new is refused then as it is.
"""

from __future__ import annotations

import asyncio
import random as chance
from collections.abc import Callable, Iterator
from typing import Final

from muster.gateway import refusals
from muster.gateway.relay import Passage
from muster.machinery.clock import SYSTEM, Clock, Random, sleep
from muster.machinery.logs import get_logger

log = get_logger("muster.gateway")

ROUND: Final = 60.0
"""Seconds from one round to the next, a quarter more or less."""
AT_ONCE: Final = 4
"""Questions."""
_WITHOUT_PAUSE: Final = 20
"""Streams whose answers are remembered, before others get their turn."""


class RightsOfStreams:
    """`open_streams` gives those that are to be asked about; `run` is to be a task of its owner."""

    def __init__(self, open_streams: Callable[[], list[Passage]], *, clock: Clock = SYSTEM, random: Random = chance.random) -> None:
        self._open_streams = open_streams
        self._clock = clock
        self._random = random

    async def run(self) -> None:
        while True:
            await sleep(self._clock, ROUND * (0.75 + self._random() / 2))
            await self.review()

    async def review(self) -> None:
        """One round."""
        streams = iter(self._open_streams())
        async with asyncio.TaskGroup() as group:
            for _ in range(AT_ONCE):
                group.create_task(self._ask(streams))

    async def _ask(self, streams: Iterator[Passage]) -> None:
        for number, stream in enumerate(streams):
            if not await _is_still_granted(stream):
                log.info("open stream cut: the right to it has ended", cluster=stream.target.cluster, user=stream.user)
                stream.cut(refusals.right_ended(stream.target.cluster))
            if number % _WITHOUT_PAUSE == 0:
                await asyncio.sleep(0)


async def _is_still_granted(stream: Passage) -> bool:
    assert stream.still_granted is not None, "asked for"
    try:
        return await stream.still_granted()
    except Exception as error:
        # Whatever keeps the hub from answering: one stream's trouble ends no round.
        log.warning("cannot ask about an open stream", cluster=stream.target.cluster, error=type(error).__name__)
        return True
