"""Registering with a hub: with the bootstrap identity, from an introduction to a credential that works.

A hub that has only moved is not registered with (`moving.py`). Registering ends when there is such a credential, or when going on
with this bootstrap kubeconfig would be wrong: it has changed or gone, or there are other hubs and this one has taken too long. What
stands in the way is said once, in words that tell an administrator what to do, and tried again with growing pauses.
"""

from __future__ import annotations

import asyncio

from muster.machinery.backoff import Backoff
from muster.machinery.clock import pause, sleep
from muster.machinery.logs import get_logger
from muster.machinery.tasks import race
from muster.registration.agent.credential import CredentialKeeper
from muster.registration.agent.failover import Failover
from muster.registration.agent.joining import introduce
from muster.registration.agent.memory.bootstrap import Candidate
from muster.registration.agent.memory.hub_secret import names_of
from muster.registration.agent.moving import moved
from muster.registration.agent.world import AgentWorld
from muster.registration.drivers.endpoints import EndpointError
from muster.runtime.client import Conflict, Forbidden, KubeClient, KubeError, Unauthorized

log = get_logger("muster.registration.agent")

INTRODUCTION_SECONDS = 3600.0


async def register(world: AgentWorld, candidate: Candidate, failover: Failover) -> None:
    world.state.say("registering", candidate.address.server)
    try:
        hub = world.connect(candidate.endpoint)
    except EndpointError as error:
        world.state.say("registering", candidate.address.server, str(error))
        await _until_changed(world, candidate, failover)
        return
    try:
        await race(_join(world, hub, candidate), _until_changed(world, candidate, failover))
    finally:
        await hub.close()


async def _join(world: AgentWorld, hub: KubeClient, candidate: Candidate) -> None:
    def trouble(error: Exception | None) -> None:
        world.state.say("registering", candidate.address.server, _problem(error, candidate) if error else "")

    if await moved(world, candidate, hub):
        return
    await _introduced(world, hub, candidate)
    keeper = CredentialKeeper(world, hub, candidate.address, trouble=trouble)
    await race(keeper.run(until_usable=True), _stay_introduced(world, hub))
    log.info("registered", cluster=world.cluster, hub=candidate.address.server)


async def _introduced(world: AgentWorld, hub: KubeClient, candidate: Candidate) -> None:
    """Make room for what this registration has to remember, then tell the hub of the cluster."""
    backoff = Backoff(1.0, 60.0, random=world.random)
    while True:
        try:
            await _make_room(world)
            await introduce(hub, world)
            return
        except Conflict:
            await sleep(world.clock, backoff.next() / 10)
        except (KubeError, OSError) as error:
            world.state.say("registering", candidate.address.server, _problem(error, candidate))
            await sleep(world.clock, backoff.next())


async def _make_room(world: AgentWorld) -> None:
    secret = world.secret
    hubs = [one.address for one in world.bootstraps.candidates]
    if not secret.is_of_another(world.identity):
        await secret.pending.begin(names_of(world.identity), [*hubs, secret.address] if secret.address else hubs)
        return
    # Nothing of another identity is of use, and its credential would be taken for ours.
    await secret.pending.begin(names_of(world.identity), [])
    await secret.remove()


async def _stay_introduced(world: AgentWorld, hub: KubeClient) -> None:
    """A ManagedCluster that is deleted while its registration waits is made again, as long as we have not registered."""
    while True:
        await sleep(world.clock, INTRODUCTION_SECONDS * (1 + world.random()))
        try:
            await introduce(hub, world)
        except KubeError as error:
            log.debug("cannot introduce this cluster again", cluster=world.cluster, error=str(error))


async def _until_changed(world: AgentWorld, candidate: Candidate, failover: Failover) -> None:
    """The bootstrap kubeconfig has changed or gone, or others should have their chance."""
    news = asyncio.Event()
    ignore = world.bootstraps.on_change(news.set)
    end = world.clock.monotonic() + world.options.hub_connection_timeout
    try:
        while candidate in world.bootstraps.candidates:
            several = len(world.bootstraps.candidates) > 1
            left = end - world.clock.monotonic()
            if several and left <= 0:
                failover.failed(candidate.address)
                return
            await pause(world.clock, news, left if several else None)
    finally:
        ignore()


def _problem(error: Exception, candidate: Candidate) -> str:
    """What an administrator should know and do."""
    if isinstance(error, Unauthorized):
        return (
            f"the hub {candidate.address.server} does not take the bootstrap kubeconfig in {candidate.source}: "
            "its credential has expired or was revoked; put a new one there"
        )
    if isinstance(error, Forbidden):
        return f"the bootstrap kubeconfig in {candidate.source} does not give the rights to register: {error}"
    return f"cannot register: {error or type(error).__name__}"
