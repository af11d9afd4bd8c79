"""A hub that has moved: the bootstrap kubeconfig has the same name for it, but another address or CA.

If it accepts the agent's credential, it is the same hub, and only the stored configuration changes: no new request, no approval,
and hardly an interruption. Only a hub that answers and does not know the agent is registered at again. One that does not answer is
waited for. A server may refuse an unknown certificate by closing the connection, which looks the same; but it answers the
bootstrap identity, and then it does not know the agent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

from muster.machinery.backoff import Backoff
from muster.machinery.clock import sleep
from muster.machinery.confinement import temporary_directory
from muster.machinery.logs import get_logger
from muster.registration.agent.context import AgentContext
from muster.registration.agent.state.bootstrap import Candidate
from muster.registration.drivers.endpoints import EndpointError
from muster.registration.kinds import MANAGED_CLUSTERS
from muster.runtime.client import Conflict, Forbidden, KubeClient, KubeError, NotFound, Unauthorized, Unreachable

log = get_logger("muster.registration.agent")

ANSWER_SECONDS = 20.0
MOST_BREAKS = 2
"""So often in a row a hub may break off on our credential and answer the bootstrap identity before it does not know us."""


async def moved(context: AgentContext, candidate: Candidate, bootstrap: KubeClient) -> bool:
    """Whether the stored credential is good for this hub too; if so, it is stored as this hub's from now on."""
    stored = context.secret.address
    if stored is None or stored.name != candidate.address.name or context.credential_problem():
        return False
    files = context.driver.way_to(candidate.address)
    backoff = Backoff(1.0, 60.0, random=context.random)
    breaks = 0
    while True:
        try:
            if not await knows_us(context, files):
                return False
            await context.secret.pending.move(stored, candidate.address)
            await context.secret.store(files)
        except Conflict:
            await sleep(context.clock, backoff.next() / 10)
        except (KubeError, OSError, TimeoutError) as error:
            unheard = isinstance(error, Unreachable | TimeoutError)
            breaks = breaks + 1 if unheard and await _answers(bootstrap, context.cluster) else 0
            if breaks >= MOST_BREAKS:
                return False
            problem = f"cannot check whether it still knows this cluster: {error or type(error).__name__}"
            context.state.report("registering", candidate.address.server, problem)
            await sleep(context.clock, backoff.next())
        else:
            log.info("the hub has moved", cluster=context.cluster, hub=candidate.address.server, before=stored.server)
            return True


async def _answers(hub: KubeClient, cluster: str) -> bool:
    """Whether the hub answers at all."""
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            await hub.get(MANAGED_CLUSTERS, cluster)
    except (Unreachable, TimeoutError):
        return False
    except KubeError:
        pass
    return True


async def knows_us(context: AgentContext, files: Mapping[str, bytes]) -> bool:
    """Ask with the stored credential, from a directory of its own: the one in use stays as it is until the answer is yes."""
    with temporary_directory("muster-agent-") as scratch:
        try:
            hub = context.connect(await context.secret.tried(files, Path(scratch) / "moved"))
        except EndpointError:
            return False
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                await hub.get(MANAGED_CLUSTERS, context.cluster)
        except (Unauthorized, Forbidden, NotFound):
            return False
        finally:
            await hub.close()
    return True
