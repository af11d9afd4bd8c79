"""The registration agent of a managed cluster: gets and renews an identity on a hub, and reports the cluster's state.

It is a loop. *Select* a hub: the one of the stored credential, if that still works, else the first of the bootstrap kubeconfigs
that accepts the cluster. *Register* there with the bootstrap identity, if no stored credential works: create the ManagedCluster,
and let the driver get a credential. *Serve* with that credential: renew the lease, report the status, renew the credential in
time. When serving ends (the credential has expired or is refused, the bootstrap kubeconfig has another hub, the hub has failed and
there are others), the loop starts again.

Everything that must outlive the process is in two Secrets, so a restart at any moment continues where it was. Nothing here ends the
process: it waits for whatever is missing, with growing intervals and one line in the log. Nothing is global: a process may run a
thousand agents.
"""

from __future__ import annotations

import random as chance
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from muster.aws.process_env import found
from muster.machinery.backoff import Backoff
from muster.machinery.clock import SYSTEM, Clock, Random, sleep
from muster.machinery.confinement import temporary_directory
from muster.machinery.logs import get_logger
from muster.machinery.metrics import EXPIRATION_HELP, EXPIRATION_METRIC, Labels, Metrics
from muster.machinery.tasks import race
from muster.registration.agent.bootstrap_session import register
from muster.registration.agent.context import AgentContext, AgentState, Connect
from muster.registration.agent.failover import Failover
from muster.registration.agent.hub_selection import choose
from muster.registration.agent.hub_session import SessionEnd, run_session
from muster.registration.agent.options import AgentOptions
from muster.registration.agent.state.bootstrap import Bootstraps, Candidate
from muster.registration.agent.state.hub_secret import HubSecret, names_of
from muster.registration.agent.state.identity import settle
from muster.registration.agent.state.old_layout import take_over
from muster.registration.drivers.certificates.profile import CERTIFICATE
from muster.registration.drivers.certificates.requests import validity_of
from muster.registration.drivers.endpoints import ClientSettings, EndpointError, HubAddress, HubEndpoint
from muster.registration.drivers.interfaces import Driver, SpokeContext
from muster.runtime.cache import Informer, Informers, Snapshot
from muster.runtime.client import KubeClient, KubeError
from muster.runtime.client.builtin import SECRETS
from muster.runtime.controller import EventRecorder

log = get_logger("muster.registration.agent")

CONTROLLER = "registration-agent"
CLIENT = "muster-registration-agent"
"""As whom hubs see its requests."""
EXPIRED = "the client certificate expires and rebootstrap is required."


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
        self._informers = Informers(spoke, clock=clock, random=random)
        self._management = management or spoke
        self._options = options
        self._clock = clock
        self._random = random
        self._metrics = metrics or Metrics()
        self._driver = driver
        self._connect = connect or self._connected
        self._failover = Failover(clock, options.hub_connection_timeout)
        self._context: AgentContext | None = None
        self.state = AgentState()
        self._metrics.gauges(EXPIRATION_METRIC, EXPIRATION_HELP, self._read_expiration)

    @property
    def cluster_name(self) -> str:
        """Empty until it is settled."""
        return self.state.cluster

    def unhealthy(self) -> str | None:
        """Why this process is no longer of use as it is; None when it is."""
        gone = self.state.registered and self._context is not None and self._context.credential_problem()
        return EXPIRED if gone else None

    def unready(self) -> str | None:
        return None if self.state.phase == "serving" else self.state.problem or self.state.phase

    @property
    def ready(self) -> bool:
        return self.unready() is None

    def _read_expiration(self) -> Iterable[tuple[Labels, float]]:
        """Of the agent's certificate at the hub, if its driver has one that can be read."""
        certificate = self._context.secret.data.get(CERTIFICATE) if self._context is not None else None
        if certificate:
            with suppress(ValueError):
                yield (("certificate", "hub-client"),), validity_of(certificate).until.timestamp()

    async def run(self) -> None:
        """Until cancelled."""
        with temporary_directory("muster-agent-") as scratch:
            options = self._options
            files = options.bootstrap_kubeconfigs
            own = self._watch_of(options.hub_secret)
            given = {name: self._watch_of(name) for name in (() if files else options.bootstrap_secrets)}
            directory = options.hub_kubeconfig_dir or Path(scratch) / "hub"
            secret = HubSecret(self._management, options.namespace, options.hub_secret, directory, self._driver.endpoints)
            own.on_change(secret.seen)
            bootstraps = Bootstraps(
                given, options.namespace, files, Path(scratch) / "bootstrap", self._driver.endpoints, self._clock
            )
            events = self._recorder()
            watches = [own, *given.values()]
            live = self._live(watches, secret, bootstraps, events)
            following = (watch.run() for watch in watches)
            await race(live, secret.run(), bootstraps.run(), events.run(), self._informers.run(), *following)

    def _watch_of(self, secret: str) -> Informer[Snapshot]:
        """By name: what else is in the namespace is none of our business."""
        return Informer(
            self._management,
            SECRETS,
            self._options.namespace,
            field_selector=f"metadata.name={secret}",
            clock=self._clock,
            random=self._random,
        )

    def _connected(self, endpoint: HubEndpoint) -> KubeClient:
        settings = ClientSettings(CLIENT, self._metrics, self._clock, self._random, cluster=self.state.cluster)
        return endpoint.connect(settings)

    def _recorder(self) -> EventRecorder:
        name = self._options.agent_name or CONTROLLER
        return EventRecorder(self._management, CONTROLLER, name, metrics=self._metrics, clock=self._clock, random=self._random)

    async def _live(
        self, watches: list[Informer[Snapshot]], secret: HubSecret, bootstraps: Bootstraps, events: EventRecorder
    ) -> None:
        self.state.problem = f"the Secrets in namespace {self._options.namespace} are not known yet"
        for informer in watches:
            await informer.synced()
        await self._remembered(secret)
        await bootstraps.refresh()
        context = self._context = self._settled(secret, bootstraps, events)
        log.info("agent", cluster=context.cluster, agent=context.identity.agent, driver=self._driver.name)
        backoff = Backoff(1.0, 60.0, random=self._random)
        while True:
            hub = await choose(context, self._failover)
            address = hub.address if isinstance(hub, Candidate) else hub
            for_want_of_better = self._failover.is_failed(address)
            try:
                if isinstance(hub, Candidate) and context.credential_problem(address):
                    await register(context, hub, self._failover)
                else:
                    await self._after(await run_session(context, address), address)
            except (OSError, EndpointError) as error:
                context.state.report("serving", address.server, f"the hub's kubeconfig cannot be used: {error}")
                for_want_of_better = True
            if for_want_of_better:
                await sleep(self._clock, backoff.next())
            else:
                backoff.reset()

    async def _remembered(self, secret: HubSecret) -> None:
        """Until what was begun is known, and is where it belongs."""
        backoff = Backoff(1.0, 60.0, random=self._random)
        while True:
            try:
                await secret.pending.load()
                await take_over(secret)
                return
            except (KubeError, OSError) as error:
                self.state.report("starting", "", f"cannot read what was begun: {error}")
                await sleep(self._clock, backoff.next())

    def _settled(self, secret: HubSecret, bootstraps: Bootstraps, events: EventRecorder) -> AgentContext:
        identity = settle(self._options, {**secret.pending.data, **secret.data}, self._random)
        options = self._options
        driver = self._driver.spoke(
            SpokeContext(
                identity,
                self._clock,
                self._random,
                self._metrics,
                options.driver_options,
                options.hub_kubeconfig_dir,
                process_env=found(),
            )
        )
        self.state.cluster = identity.cluster
        return AgentContext(
            self._spoke,
            self._informers,
            events,
            self._metrics,
            self._clock,
            self._random,
            management=self._management,
            secret=secret,
            bootstraps=bootstraps,
            options=self._options,
            identity=identity,
            driver=driver,
            connect=self._connect,
            state=self.state,
        )

    async def _after(self, leave: SessionEnd, address: HubAddress) -> None:
        assert self._context is not None
        log.warning("leaving the hub", cluster=self.state.cluster, hub=address.server, reason=leave.value)
        if leave is SessionEnd.FAILED:
            self._failover.failed(address)
        elif leave in (SessionEnd.REFUSED, SessionEnd.REPLACED):
            await self._give_up(self._context, address)

    async def _give_up(self, context: AgentContext, address: HubAddress) -> None:
        """Only the names are kept: pending requests were made with an identity that is gone."""
        others = [candidate.address for candidate in context.bootstraps.candidates if candidate.address != address]
        try:
            await context.secret.pending.begin(names_of(context.identity), others)
            await context.secret.remove()
        except KubeError as error:
            log.warning("cannot give up the refused credential", error=str(error))
