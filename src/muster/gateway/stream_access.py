"""Revokes open streams: a watch, a followed log or a terminal is aborted within two minutes after its user has lost access.

Kubernetes authorizes a request once, when it begins: such a stream lasts until its timeout, and a terminal has none. Here the hub
is asked about once a minute for each open stream whether the request would still be granted, and a stream that would be refused
is aborted. Identical reviews of many streams are made once, only `MAX_CONCURRENT_REVIEWS` reviews are made at a time, and the
interval is jittered so that replicas do not make them simultaneously.

Only a refusal aborts a stream. If the hub does not answer, open streams go on, while new requests are refused.
"""

from __future__ import annotations

import asyncio
import random as chance
from collections.abc import Callable, Iterator
from typing import Final

from muster.gateway import refusals
from muster.gateway.relay import InFlightRequest
from muster.machinery.clock import SYSTEM, Clock, Random, sleep
from muster.machinery.logs import get_logger

log = get_logger("muster.gateway")

REVIEW_INTERVAL: Final = 60.0
"""Seconds between two rounds, with a jitter of a quarter."""
MAX_CONCURRENT_REVIEWS: Final = 4
_STREAMS_PER_TURN: Final = 20
"""Streams with cached answers that are reviewed before other tasks get a turn."""


class StreamAccessReviewer:
    """`open_streams` returns the streams to review; the owner runs `run` as a task."""

    def __init__(
        self, open_streams: Callable[[], list[InFlightRequest]], *, clock: Clock = SYSTEM, random: Random = chance.random
    ) -> None:
        self._open_streams = open_streams
        self._clock = clock
        self._random = random

    async def run(self) -> None:
        while True:
            await sleep(self._clock, REVIEW_INTERVAL * (0.75 + self._random() / 2))
            await self.review()

    async def review(self) -> None:
        """Review all open streams once."""
        streams = iter(self._open_streams())
        async with asyncio.TaskGroup() as group:
            for _ in range(MAX_CONCURRENT_REVIEWS):
                group.create_task(self._review(streams))

    async def _review(self, streams: Iterator[InFlightRequest]) -> None:
        for number, stream in enumerate(streams):
            if not await _is_still_allowed(stream):
                log.info("open stream aborted: access was revoked", cluster=stream.target.cluster, user=stream.user)
                stream.abort(refusals.access_revoked(stream.target.cluster))
            if number % _STREAMS_PER_TURN == 0:
                await asyncio.sleep(0)


async def _is_still_allowed(stream: InFlightRequest) -> bool:
    assert stream.still_allowed is not None, "only such streams are open streams"
    try:
        return await stream.still_allowed()
    except Exception as error:
        # One failed review must not end the round.
        log.warning("access review of open stream failed", cluster=stream.target.cluster, error=type(error).__name__)
        return True
