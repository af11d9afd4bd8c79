"""A readiness check of the hub's API.

The server's caches remain when the API server goes away, and an idle connection may be dead without notice. So the API server is
probed at intervals: without it, this server keeps its agents, for which another server would be no better, but is not ready for new
ones.
"""

from __future__ import annotations

from typing import Final

from muster.machinery.clock import SYSTEM, Clock, sleep, within
from muster.machinery.logs import get_logger
from muster.runtime.client import KubeClient, KubeError, StatusError

log = get_logger("muster.transport.server")

CHECK_INTERVAL: Final = 3.0
RETRY_INTERVAL: Final = 1.0
"""Seconds between probes while the hub does not answer."""
ANSWERED_WITHIN: Final = 5.0


class HubCheck:
    """Its owner runs `run` as a task."""

    def __init__(self, client: KubeClient, *, clock: Clock = SYSTEM) -> None:
        self._client = client
        self._clock = clock
        self._problem: str | None = None

    def problem(self) -> str | None:
        """Why the hub's API is unavailable, as far as is known; None if it is available."""
        return self._problem

    async def run(self) -> None:
        while True:
            problem = await self._probe()
            if problem and not self._problem:
                log.warning("hub does not answer", server=self._client.server, error=problem)
            elif self._problem and not problem:
                log.info("hub answers again", server=self._client.server)
            self._problem = problem
            await sleep(self._clock, RETRY_INTERVAL if problem else CHECK_INTERVAL)

    async def _probe(self) -> str | None:
        try:
            await within(self._clock, ANSWERED_WITHIN, self._client.server_version())
        except TimeoutError:
            return f"the hub's API server has not answered within {ANSWERED_WITHIN:g} s"
        except StatusError as error:
            # A server that refuses the request is available.
            return f"the hub's API server fails: {error}" if error.code >= 500 else None
        except KubeError as error:
            return f"the hub's API server is away: {error}"
        return None
