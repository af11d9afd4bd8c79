"""Selection of the hub: the one of the stored credential, if it still works, else the first that accepts the cluster.

A single bootstrap kubeconfig is not checked before: registration reports its problems. With several, each hub is checked for the
permission to register and for a denial. If none accepts the cluster, the agent returns to the hub of its credential, which may
accept it again. If there is no hub at all, it waits for one.
"""

from __future__ import annotations

import asyncio

from muster.machinery.backoff import Backoff
from muster.machinery.clock import pause
from muster.machinery.logs import get_logger
from muster.registration.agent.context import AgentContext
from muster.registration.agent.failover import Failover, objection
from muster.registration.agent.state.bootstrap import Candidate
from muster.registration.drivers.endpoints import EndpointError, HubAddress

log = get_logger("muster.registration.agent")


async def choose(context: AgentContext, failover: Failover) -> Candidate | HubAddress:
    """A hub to register with or to serve; only the address of one that needs no registering."""
    backoff = Backoff(5.0, 60.0, random=context.random)
    news = asyncio.Event()
    ignore = context.bootstraps.on_change(news.set)
    try:
        while True:
            found = from_store(context, failover) or await _from_candidates(context, failover)
            if found is not None:
                return found
            context.state.report("choosing", "", _nothing_to_go_to(context))
            await pause(context.clock, news, backoff.next())
    finally:
        ignore()


def from_store(context: AgentContext, failover: Failover) -> Candidate | HubAddress | None:
    """The hub that the stored credential is for, unless it failed us or the bootstrap kubeconfigs no longer name it."""
    stored = context.secret.address
    if stored is None or context.credential_problem(stored):
        return None
    if not context.bootstraps.candidates:
        # A bootstrap kubeconfig may be taken away once it has served its purpose.
        return stored
    if len(context.bootstraps.candidates) > 1 and failover.is_failed(stored):
        return None
    return context.candidate(stored)


async def _from_candidates(context: AgentContext, failover: Failover) -> Candidate | None:
    candidates = failover.order(context.bootstraps.candidates)
    if len(candidates) < 2:
        return candidates[0] if candidates else None
    for candidate in candidates:
        problem = await _objection(context, candidate)
        if not problem:
            log.info("hub chosen", hub=candidate.address.server, source=candidate.source)
            return candidate
        log.info("hub passed over", hub=candidate.address.server, source=candidate.source, problem=problem)
    return next((candidate for candidate in candidates if not context.credential_problem(candidate.address)), None)


async def _objection(context: AgentContext, candidate: Candidate) -> str:
    try:
        hub = context.connect(candidate.endpoint)
    except EndpointError as error:
        return str(error)
    try:
        return await objection(hub, context.cluster, context.options.driver)
    finally:
        await hub.close()


def _nothing_to_go_to(context: AgentContext) -> str:
    problems = "; ".join(f"{source}: {problem}" for source, problem in context.bootstraps.problems.items())
    return f"no hub to register with: {problems or 'none of the bootstrap kubeconfigs can be used'}"
