"""Makes the hub's API server notice that the gateway answers now.

kube-aggregator checks whether the server of an APIService answers when that object changes, and after a failure with a backoff of
up to half a minute; until then every request for it is answered with 503. An APIService that was created before its gateway
started, or while the gateway was away, would stay unavailable long after the gateway is ready. Setting an annotation triggers a
check at once. This is repeated a few times in case the check fails on a busy machine, and never done while the APIService is
available.

Where an operator manages the gateway, this is not needed: the operator creates APIServices once the gateway is available.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from muster.api.proxy.v1alpha1 import GROUP
from muster.gateway.apiservice import unavailability
from muster.machinery.clock import SYSTEM, Clock, sleep
from muster.machinery.golang.timestamps import format_time
from muster.machinery.logs import get_logger
from muster.runtime.client import KubeClient, KubeError
from muster.runtime.client.builtin import API_SERVICES

log = get_logger("muster.gateway")

ANSWERS_SINCE: Final = f"{GROUP}/gateway-answers-since"
RETRY_DELAYS: Final = (1.0, 2.0, 4.0, 8.0, 15.0)
"""Seconds between checks whether an APIService is available; later the API server's own backoff is as good."""


async def announce(client: KubeClient, names: Sequence[str], *, clock: Clock = SYSTEM) -> None:
    """Call this when the gateway answers. Returns when all these APIServices are available, or after the last delay."""
    for pause in (*RETRY_DELAYS, None):
        waiting = [name for name in names if await _is_unavailable(client, name)]
        for name in waiting:
            await _touch(client, name, format_time(clock.now()))
        if not waiting or pause is None:
            return
        await sleep(clock, pause)


async def _is_unavailable(client: KubeClient, name: str) -> bool:
    try:
        return bool(unavailability(await client.get(API_SERVICES, name)))
    except KubeError as problem:
        log.debug("availability of APIService not known", name=name, error=str(problem))
        return True


async def _touch(client: KubeClient, name: str, since: str) -> None:
    try:
        await client.patch(API_SERVICES, name, {"metadata": {"annotations": {ANSWERS_SINCE: since}}})
    except KubeError as problem:
        log.debug("APIService not annotated", name=name, error=str(problem))
