"""Registration at a hub with the bootstrap identity: from the ManagedCluster to a credential that works.

A hub that has only moved needs no registration (`hub_move.py`). An agent with a derived credential needs the bootstrap identity
only to create the ManagedCluster: if the hub refuses that identity but has accepted the cluster, the agent continues without it.
Registration ends with a credential, or when this bootstrap kubeconfig is no longer right: it has changed or is gone, or there are
other hubs and this one has taken too long. Problems are reported once, with what the administrator can do, and retried with
growing intervals.
"""

from __future__ import annotations

import asyncio

from muster.machinery.backoff import Backoff
from muster.machinery.clock import pause, sleep
from muster.machinery.logs import get_logger
from muster.machinery.tasks import race
from muster.registration.agent.context import AgentContext
from muster.registration.agent.credential import Trouble
from muster.registration.agent.failover import Failover
from muster.registration.agent.hub_credential import hub_credential_keeper, store_derived
from muster.registration.agent.hub_move import knows_us, moved
from muster.registration.agent.introduction import introduce
from muster.registration.agent.state.bootstrap import Candidate
from muster.registration.agent.state.hub_secret import names_of
from muster.registration.drivers.endpoints import EndpointError
from muster.registration.drivers.interfaces import is_derived
from muster.runtime.client import Conflict, Forbidden, KubeClient, KubeError, Unauthorized

log = get_logger("muster.registration.agent")

INTRODUCTION_SECONDS = 3600.0
OWN_SECONDS = 2.0
"""After the bootstrap identity was refused, the first try with the agent's own comes so soon, later ones later."""


async def register(context: AgentContext, candidate: Candidate, failover: Failover) -> None:
    context.state.report("registering", candidate.address.server)
    try:
        hub = context.connect(candidate.endpoint)
    except EndpointError as error:
        context.state.report("registering", candidate.address.server, str(error))
        await _until_changed(context, candidate, failover)
        return
    refused = asyncio.Event()
    contenders = [_join(context, hub, candidate, refused), _until_changed(context, candidate, failover)]
    if is_derived(context.driver):
        contenders.append(_let_in(context, candidate, refused))
    try:
        await race(*contenders)
    finally:
        await hub.close()


async def _let_in(context: AgentContext, candidate: Candidate, refused: asyncio.Event) -> None:
    """Once the bootstrap identity is refused: until the hub knows the agent by its own identity, which is tried now and then."""
    await refused.wait()
    backoff = Backoff(OWN_SECONDS, 60.0, random=context.random)
    while True:
        try:
            if await knows_us(context, context.driver.way_to(candidate.address)):
                await store_derived(context, candidate.address)
                await context.secret.pending.close(candidate.address, [one.address for one in context.bootstraps.candidates])
                log.info("the hub knows this cluster though not the bootstrap kubeconfig", cluster=context.cluster)
                return
        except (KubeError, OSError, TimeoutError) as error:
            log.debug("the hub does not know this cluster by itself yet", cluster=context.cluster, error=str(error))
        await sleep(context.clock, backoff.next())


async def _join(context: AgentContext, hub: KubeClient, candidate: Candidate, refused: asyncio.Event) -> None:
    def trouble(error: Exception | None) -> None:
        if isinstance(error, Unauthorized):
            refused.set()
        context.state.report("registering", candidate.address.server, _problem(error, candidate) if error else "")

    if await moved(context, candidate, hub):
        return
    await _introduced(context, hub, trouble)
    keeper = hub_credential_keeper(context, hub, candidate.address, trouble=trouble)
    await race(keeper.run(until_usable=True), _stay_introduced(context, hub))
    log.info("registered", cluster=context.cluster, hub=candidate.address.server)


async def _introduced(context: AgentContext, hub: KubeClient, trouble: Trouble) -> None:
    """Prepare the pending Secret, then create the ManagedCluster."""
    backoff = Backoff(1.0, 60.0, random=context.random)
    while True:
        try:
            await _make_room(context)
            await introduce(hub, context)
            return
        except Conflict:
            await sleep(context.clock, backoff.next() / 10)
        except (KubeError, OSError) as error:
            trouble(error)
            await sleep(context.clock, backoff.next())


async def _make_room(context: AgentContext) -> None:
    secret = context.secret
    hubs = [candidate.address for candidate in context.bootstraps.candidates]
    if not secret.is_of_another(context.identity):
        await secret.pending.begin(names_of(context.identity), [*hubs, secret.address] if secret.address else hubs)
        return
    # Nothing of another identity is of use, and its credential would be taken for ours.
    await secret.pending.begin(names_of(context.identity), [])
    await secret.remove()


async def _stay_introduced(context: AgentContext, hub: KubeClient) -> None:
    """A ManagedCluster that is deleted while its registration waits is made again, as long as we have not registered."""
    while True:
        await sleep(context.clock, INTRODUCTION_SECONDS * (1 + context.random()))
        try:
            await introduce(hub, context)
        except KubeError as error:
            log.debug("cannot introduce this cluster again", cluster=context.cluster, error=str(error))


async def _until_changed(context: AgentContext, candidate: Candidate, failover: Failover) -> None:
    """The bootstrap kubeconfig has changed or gone, or others should have their chance."""
    news = asyncio.Event()
    ignore = context.bootstraps.on_change(news.set)
    end = context.clock.monotonic() + context.options.hub_connection_timeout
    try:
        while candidate in context.bootstraps.candidates:
            several = len(context.bootstraps.candidates) > 1
            left = end - context.clock.monotonic()
            if several and left <= 0:
                failover.failed(candidate.address)
                return
            await pause(context.clock, news, left if several else None)
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
