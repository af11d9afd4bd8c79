"""The agent of a managed cluster: gets and keeps an identity on a hub, and tells the hub how the cluster is.

Its life is a loop. *Choose* a hub: the one whose credential is stored, if that still works, else the first of the bootstrap
kubeconfigs that will have us. *Register* there with the bootstrap identity, when no stored credential works on it: introduce the
cluster, and let the driver get a credential. *Serve* with that credential: renew the lease, report the status, renew the
credential in time. When serving ends (the credential has expired or is refused, the bootstrap kubeconfig names another hub, the hub
has failed us and there are others), the loop begins again.

Everything that must outlive the process is in the hub secret, so a restart at any moment goes on where it was; and nothing here
ends the process: whatever is missing is waited for, with growing pauses and one line in the log. Nothing is global: a process may
run a thousand agents.
"""

from __future__ import annotations

import asyncio
import random as chance
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from muster.api.cluster.v1 import ManagedCluster
from muster.logs import get_logger
from muster.registration.agent.bootstrap import Bootstraps, Candidate
from muster.registration.agent.credential import CredentialKeeper
from muster.registration.agent.failover import Failover, denied, objection
from muster.registration.agent.hub_kubeconfig import HubAddress
from muster.registration.agent.hub_secret import AGENT_NAME, CLUSTER_NAME, KUBECONFIG, HubSecret, opened, part_of
from muster.registration.agent.identity import settle
from muster.registration.agent.joining import accepted, introduce
from muster.registration.agent.lease import LeaseKeeper
from muster.registration.agent.options import AgentOptions
from muster.registration.agent.status import StatusReporter
from muster.registration.agent.world import AgentWorld, first
from muster.registration.drivers.seam import Driver, SpokeContext
from muster.registration.kinds import MANAGED_CLUSTERS
from muster.runtime.cache import Snapshot
from muster.runtime.clock import SYSTEM, Backoff, Clock, Random, pause, sleep
from muster.runtime.errors import Conflict, Forbidden, KubeError, Unauthorized
from muster.runtime.events import EventRecorder
from muster.runtime.informer import Informer
from muster.runtime.kubeconfig import KubeconfigError
from muster.runtime.metrics import Metrics
from muster.runtime.resource import SECRETS
from muster.runtime.verbs import KubeClient

log = get_logger("muster.registration.agent")

CONTROLLER = "registration-agent"
HUB_CONTROLLER = "klusterlet-agent"
LOOK_SECONDS = 60.0
"""Between two looks at whether serving should end; what matters more is heard of at once."""
ACCEPTED_SECONDS = 2.0
"""So long after the credential came, acceptance is waited for with the bootstrap identity if it was not there yet."""
REFUSED_SECONDS = 120.0
"""So long must a hub say that it does not know us before a credential that looks good is given up."""
EXPIRED = "the client certificate expires and rebootstrap is required."

Connect = Callable[[Path], KubeClient]


class Leave(Enum):
    """Why serving ended."""

    EXPIRED = "the credential can no longer be used"
    REFUSED = "the hub does not take the credential"
    MOVED = "the bootstrap kubeconfig names another hub"
    FAILED = "the hub failed us"
    ACCEPTED = "the hub has accepted the cluster only now"


@dataclass
class AgentState:
    """What the agent is doing, for people and health checks."""

    phase: str = "starting"
    hub: str = ""
    problem: str = ""
    """What it waits for; empty when all goes well."""


class Agent:
    """`spoke` is the managed cluster, `management` the one that has the agent's Secrets if that is another."""

    def __init__(
        self,
        spoke: KubeClient,
        options: AgentOptions,
        *,
        management: KubeClient | None = None,
        clock: Clock = SYSTEM,
        random: Random = chance.random,
        metrics: Metrics | None = None,
        driver: Driver | None = None,
        connect: Connect | None = None,
    ) -> None:
        if driver is None:
            from muster.registration import drivers

            driver = drivers.find(options.driver)
        self._spoke = spoke
        self._management = management or spoke
        self._options = options
        self._clock = clock
        self._random = random
        self._metrics = metrics or Metrics()
        self._driver = driver
        self._connect_by = connect
        self._failover = Failover(clock, options.hub_connection_timeout)
        self._news = asyncio.Event()
        # By name: what else is in the namespace is none of our business.
        self._own_secret = self._watch_of(options.hub_secret)
        given = () if options.bootstrap_kubeconfigs else options.bootstrap_secrets
        self._given_secrets = {name: self._watch_of(name) for name in given}
        self._secret: HubSecret
        self._bootstraps: Bootstraps
        self._world: AgentWorld | None = None
        self._registered = False
        self.state = AgentState()

    @property
    def cluster_name(self) -> str:
        """Empty until it is settled."""
        return self._world.cluster if self._world else ""

    def unhealthy(self) -> str | None:
        """Why this process is no longer of use as it is; None when it is."""
        return EXPIRED if self._registered and self._problem() else None

    def unready(self) -> str | None:
        return None if self.state.phase == "serving" else self.state.problem or self.state.phase

    async def run(self) -> None:
        """Until cancelled."""
        with tempfile.TemporaryDirectory(prefix="muster-agent-") as scratch:
            options = self._options
            directory = options.hub_kubeconfig_dir or Path(scratch) / "hub"
            self._secret = HubSecret(self._management, options.namespace, options.hub_secret, directory)
            self._own_secret.on_change(self._secret.seen)
            self._bootstraps = Bootstraps(
                self._given_secrets,
                options.namespace,
                options.bootstrap_kubeconfigs,
                Path(scratch) / "bootstrap",
                self._clock,
            )
            self._bootstraps.on_change(self._news.set)
            events = EventRecorder(
                self._management,
                CONTROLLER,
                options.agent_name or CONTROLLER,
                metrics=self._metrics,
                clock=self._clock,
                random=self._random,
            )
            watches = [informer.run() for informer in (self._own_secret, *self._given_secrets.values())]
            await first(self._live(events), self._secret.run(), self._bootstraps.run(), events.run(), *watches)

    def _watch_of(self, name: str) -> Informer[Snapshot]:
        return Informer(
            self._management,
            SECRETS,
            self._options.namespace,
            field_selector=f"metadata.name={name}",
            clock=self._clock,
            random=self._random,
        )

    async def _live(self, events: EventRecorder) -> None:
        for informer in (self._own_secret, *self._given_secrets.values()):
            await informer.synced()
        await self._bootstraps.refresh()
        self._world = self._settled(events)
        log.info("agent", cluster=self._world.cluster, agent=self._world.identity.agent, driver=self._driver.name)
        while True:
            hub = await self._choose()
            if isinstance(hub, Candidate) and self._problem(hub.address):
                await self._register(hub)
            else:
                address = hub.address if isinstance(hub, Candidate) else hub
                await self._after(await self._serve(address), address)

    def _settled(self, events: EventRecorder) -> AgentWorld:
        identity = settle(self._options, self._secret.data, self._random)
        context = SpokeContext(identity, self._clock, self._random, self._metrics, self._options.driver_options)
        return AgentWorld(
            self._spoke,
            self._secret,
            events,
            self._options,
            identity,
            self._driver.spoke(context),
            self._metrics,
            self._clock,
            self._random,
        )

    @property
    def _here(self) -> AgentWorld:
        assert self._world is not None
        return self._world

    def _problem(self, address: HubAddress | None = None) -> str:
        """Why the stored credential is of no use (for this hub); empty when it is."""
        if self._world is None:
            return "not begun"
        stored = part_of(self._secret.data, "")
        if address is not None and self._secret.address != address:
            return "no credential for this hub is stored"
        names = {CLUSTER_NAME: self._here.identity.cluster, AGENT_NAME: self._here.identity.agent}
        if any(stored.get(key, name.encode()) != name.encode() for key, name in names.items()):
            return "the stored credential is another agent's"
        return self._here.driver.problem(stored)

    # Choosing a hub

    async def _choose(self) -> Candidate | HubAddress:
        backoff = Backoff(5.0, 60.0, random=self._random)
        while True:
            self._news.clear()
            found = self._from_store() or await self._from_candidates()
            if found is not None:
                return found
            self._say("choosing", "", self._nothing_to_go_to())
            await pause(self._clock, self._news, backoff.next())

    def _from_store(self) -> Candidate | HubAddress | None:
        """The hub that the stored credential is for, unless it failed us or the bootstrap kubeconfigs no longer name it."""
        stored = self._secret.address
        if stored is None or self._problem(stored):
            return None
        candidates = self._bootstraps.candidates
        if not candidates:
            # A bootstrap kubeconfig may be taken away once it has served its purpose.
            return stored
        match = next((candidate for candidate in candidates if candidate.address == stored), None)
        return None if match is not None and len(candidates) > 1 and self._failover.is_failed(stored) else match

    async def _from_candidates(self) -> Candidate | None:
        candidates = self._failover.order(self._bootstraps.candidates)
        if len(candidates) < 2:
            return candidates[0] if candidates else None
        for candidate in candidates:
            problem = await self._objection(candidate)
            if not problem:
                log.info("hub chosen", hub=candidate.address.server, source=candidate.source)
                return candidate
            log.info("hub passed over", hub=candidate.address.server, source=candidate.source, problem=problem)
        # None will have us: whoever we have a credential for may change its mind.
        return next((candidate for candidate in candidates if not self._problem(candidate.address)), None)

    async def _objection(self, candidate: Candidate) -> str:
        try:
            hub = self._connect(candidate.path)
        except KubeconfigError as error:
            return str(error)
        try:
            return await objection(hub, self._here.cluster, self._driver.name)
        finally:
            await hub.close()

    def _nothing_to_go_to(self) -> str:
        problems = "; ".join(f"{source}: {problem}" for source, problem in self._bootstraps.problems.items())
        return f"no hub to register with: {problems or 'none of the bootstrap kubeconfigs can be used'}"

    # Registering

    async def _register(self, candidate: Candidate) -> None:
        """Until there is a credential that works, or it would be wrong to go on with this bootstrap kubeconfig."""
        self._say("registering", candidate.address.server, "")
        try:
            hub = self._connect(candidate.path)
        except KubeconfigError as error:
            self._say("registering", candidate.address.server, str(error))
            await pause(self._clock, self._news, 60.0)
            return
        try:
            await first(self._join(hub, candidate), self._until_changed(candidate))
        finally:
            await hub.close()

    async def _join(self, hub: KubeClient, candidate: Candidate) -> None:
        def trouble(error: Exception | None) -> None:
            self._say("registering", candidate.address.server, _bootstrap_problem(error, candidate) if error else "")

        backoff = Backoff(1.0, 60.0, random=self._random)
        never = asyncio.Event()
        while True:
            try:
                prefix = await self._open(candidate)
                await introduce(hub, self._here)
                break
            except Conflict:
                await pause(self._clock, never, backoff.next() / 10)
            except (KubeError, OSError) as error:
                trouble(error)
                await pause(self._clock, never, backoff.next())
        keeper = CredentialKeeper(self._here, hub, candidate.address, prefix, trouble=trouble)
        await keeper.run(until_usable=True)
        log.info("registered", cluster=self._here.cluster, hub=candidate.address.server)

    async def _open(self, candidate: Candidate) -> str:
        """Make room in the secret for what this registration stores."""
        prefix, changes = opened(self._secret.data, self._secret.address, candidate.address, self._here.identity)
        await self._secret.store(changes)
        return prefix

    async def _until_changed(self, candidate: Candidate) -> None:
        """The bootstrap kubeconfig has changed or gone, or others should have their chance."""
        began = self._clock.monotonic()
        while candidate in self._bootstraps.candidates:
            several = len(self._bootstraps.candidates) > 1
            left = began + self._options.hub_connection_timeout - self._clock.monotonic()
            if several and left <= 0:
                self._failover.failed(candidate.address)
                return
            await pause(self._clock, self._news, left if several else None)

    # Serving

    async def _serve(self, address: HubAddress) -> Leave:
        world = self._here
        await self._secret.mirrored()
        try:
            hub = self._connect(self._secret.directory / KUBECONFIG)
        except KubeconfigError as error:
            self._say("serving", address.server, str(error))
            await pause(self._clock, self._news, LOOK_SECONDS)
            return Leave.EXPIRED
        self._registered = True
        self._say("serving", address.server, "")
        events = EventRecorder(
            hub, HUB_CONTROLLER, world.identity.agent, metrics=self._metrics, clock=self._clock, random=self._random
        )
        clusters: Informer[ManagedCluster] = Informer(
            hub,
            MANAGED_CLUSTERS,
            field_selector=f"metadata.name={world.cluster}",
            decode=ManagedCluster.decode,
            clock=self._clock,
            random=self._random,
        )
        lease = LeaseKeeper(world, hub, clusters)
        status = StatusReporter(world, hub, clusters, lease, events, address.server_hash)
        lease.on_answered(status.wake)
        keeper = CredentialKeeper(world, hub, address, trouble=_quiet, report=status.report)
        parts: list[Any] = [informer.run() for informer in (clusters, *status.informers)]
        parts += [keeper.run(), lease.run(), status.run(), events.run(), self._until_over(address, clusters, lease)]
        parts.append(self._until_accepted(address, clusters))
        try:
            leave: Leave = await first(*parts)
            return leave
        finally:
            await hub.close()

    async def _until_accepted(self, address: HubAddress, clusters: Informer[ManagedCluster]) -> Leave:
        """If the hub does not let us see our cluster yet, the bootstrap identity waits for the moment when it does."""
        await sleep(self._clock, ACCEPTED_SECONDS)
        candidate = next((candidate for candidate in self._bootstraps.candidates if candidate.address == address), None)
        if not clusters.has_synced and candidate is not None:
            try:
                hub = self._connect(candidate.path)
            except KubeconfigError:
                hub = None
            if hub is not None:
                try:
                    await first(accepted(hub, self._here), clusters.synced())
                finally:
                    await hub.close()
                if not clusters.has_synced:
                    return Leave.ACCEPTED
        await asyncio.Event().wait()
        raise AssertionError("nobody ends this waiting")

    async def _until_over(self, address: HubAddress, clusters: Informer[ManagedCluster], lease: LeaseKeeper) -> Leave:
        ignore = self._secret.on_change(self._news.set)
        clusters.on_change(lambda old, new: self._news.set())
        timeout = self._options.hub_connection_timeout
        try:
            while True:
                cluster = clusters.cache.named(self._here.cluster)
                leave = self._reason_to_leave(address, cluster, lease)
                if leave is not None:
                    return leave
                await pause(self._clock, self._news, min(LOOK_SECONDS, timeout / 4))
        finally:
            ignore()

    def _reason_to_leave(self, address: HubAddress, cluster: ManagedCluster | None, lease: LeaseKeeper) -> Leave | None:
        now = self._clock.monotonic()
        candidates = self._bootstraps.candidates
        if candidates and all(candidate.address != address for candidate in candidates):
            return Leave.MOVED
        if self._problem():
            return Leave.EXPIRED
        if len(candidates) > 1:
            if cluster is not None and denied(cluster):
                return Leave.FAILED
            if now - lease.heard >= self._options.hub_connection_timeout:
                return Leave.FAILED
        if lease.refused_since is not None and now - lease.refused_since >= REFUSED_SECONDS and candidates:
            return Leave.REFUSED
        return None

    async def _after(self, leave: Leave, address: HubAddress) -> None:
        if leave is Leave.ACCEPTED:
            return
        log.warning("leaving the hub", cluster=self._here.cluster, hub=address.server, reason=leave.value)
        if leave is Leave.FAILED:
            self._failover.failed(address)
        elif leave is Leave.REFUSED:
            try:
                # Only the names are kept: what was pending was asked for with an identity that is gone.
                await self._secret.store({key: None for key in self._secret.data if key not in (CLUSTER_NAME, AGENT_NAME)})
            except (KubeError, OSError) as error:
                log.warning("cannot give up the refused credential", error=str(error))

    def _connect(self, kubeconfig: Path) -> KubeClient:
        return self._connect_by(kubeconfig) if self._connect_by else self._here.driver.connect(kubeconfig)

    def _say(self, phase: str, hub: str, problem: str) -> None:
        """Note what is going on; log it when that is news."""
        if problem and problem != self.state.problem:
            log.warning("waiting", cluster=self.cluster_name, phase=phase, problem=problem)
        elif not problem and (phase, hub) != (self.state.phase, self.state.hub):
            log.info(phase, cluster=self.cluster_name, hub=hub)
        self.state.phase, self.state.hub, self.state.problem = phase, hub, problem


def _bootstrap_problem(error: Exception, candidate: Candidate) -> str:
    """What an administrator should know and do."""
    if isinstance(error, Unauthorized):
        return (
            f"the hub {candidate.address.server} does not take the bootstrap kubeconfig in {candidate.source}: "
            "its credential has expired or was revoked; put a new one there"
        )
    if isinstance(error, Forbidden):
        return f"the bootstrap kubeconfig in {candidate.source} does not give the rights to register: {error}"
    return f"cannot register: {error or type(error).__name__}"


def _quiet(error: Exception | None) -> None:
    """While serving, a hub that is away is reported by those who follow it."""
    if error is not None:
        log.debug("cannot renew the credential now", error=str(error))
