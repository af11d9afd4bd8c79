"""Telling the hub's API server that the gateway answers now.

An aggregating API server looks whether an APIService's server answers when that object changes, and after a failure in pauses that
double up to half a minute; until then every request for it is a 503. An APIService that was there before its gateway, because an
administrator installed it first or because the gateway was away, would so stay unavailable long after the gateway is ready. A new
annotation has it looked at now, again a few times should that look fail on a busy machine, and never while it is available.

Where an operator keeps the gateway there is nothing to do: it makes APIServices once the gateway is available.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from muster.api.proxy.v1alpha1 import GROUP
from muster.gateway.apiservice import unavailable
from muster.machinery.clock import SYSTEM, Clock, sleep
from muster.machinery.golang.timestamps import format_time
from muster.machinery.logs import get_logger
from muster.runtime.client import KubeClient, KubeError
from muster.runtime.client.builtin import API_SERVICES

log = get_logger("muster.gateway")

ANSWERS_SINCE: Final = f"{GROUP}/gateway-answers-since"
PAUSES: Final = (1.0, 2.0, 4.0, 8.0, 15.0)
"""Seconds between looking whether an APIService is available; after them the API server's own pauses are as good."""


async def announce(client: KubeClient, names: Sequence[str], *, clock: Clock = SYSTEM) -> None:
    """To be called when the gateway answers. Ends when all these APIServices are available, or with the last pause."""
    for pause in (*PAUSES, None):
        waiting = [name for name in names if await _is_waiting(client, name)]
        for name in waiting:
            await _touch(client, name, format_time(clock.now()))
        if not waiting or pause is None:
            return
        await sleep(clock, pause)


async def _is_waiting(client: KubeClient, name: str) -> bool:
    try:
        return bool(unavailable(await client.get(API_SERVICES, name)))
    except KubeError as problem:
        log.debug("cannot see whether the API is available", name=name, error=str(problem))
        return True


async def _touch(client: KubeClient, name: str, since: str) -> None:
    try:
        await client.patch(API_SERVICES, name, {"metadata": {"annotations": {ANSWERS_SINCE: since}}})
    except KubeError as problem:
        log.debug("cannot announce the gateway", name=name, error=str(problem))
