"""Whatever the hub answers and whenever the agent dies: never two live requests, never a lost key, and in the end a certificate."""

import asyncio
import base64
import contextlib
from collections.abc import Coroutine
from datetime import timedelta
from typing import Any

from cryptography import x509
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from muster.kube.certificates import KeyPair, common_name, load_key, subject
from muster.registration.drivers.certificates.agents import agent_profile
from muster.registration.drivers.certificates.requests import is_for, validity_of
from muster.registration.names import AgentIdentity
from muster.runtime.client.errors import Unreachable
from tests.support.fake_clock import FakeClock
from tests.unit.registration.drivers.conftest import Agent
from tests.unit.registration.drivers.scripted_hub import ScriptedHub

AGENT = AgentIdentity("cluster1", "abcde")


class Fates(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.clock = FakeClock()
        self.hub = ScriptedHub(self.clock)
        self.agent = Agent(AGENT, self.clock)
        self.used: set[bytes] = set()
        """Keys that were in use once."""

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run_until_complete(work)

    def teardown(self) -> None:
        try:
            self.ends_well()
        finally:
            self.loop.close()

    def pass_time(self, seconds: float) -> None:
        self.run(self.clock.advance(seconds))

    # What the agent does.

    async def _step(self) -> None:
        with contextlib.suppress(Unreachable):
            await self.agent.step(self.hub.client)

    @rule()
    def the_agent_takes_a_step(self) -> None:
        self.run(self._step())
        self.note_used()

    def note_used(self) -> None:
        self.used |= {self.agent.stored[name] for name in ("tls.key",) if name in self.agent.stored}

    @rule()
    def the_agent_restarts(self) -> None:
        self.agent.restart()

    @rule()
    def the_agent_dies_after_acting_and_before_storing(self) -> None:
        with contextlib.suppress(Unreachable):
            self.run(self.agent.driver.advance(self.hub.client, self.agent.stored, self.agent.pending))
        self.agent.restart()

    @rule()
    def the_agent_dies_before_it_forgets_what_is_done(self) -> None:
        with contextlib.suppress(Unreachable):
            done = self.run(self.agent.driver.advance(self.hub.client, self.agent.stored, self.agent.pending))
            self.agent.store(done, forget=False)
        self.agent.restart()
        self.note_used()

    # What the hub does.

    @rule(away=st.booleans(), deaf=st.booleans())
    def the_network_changes(self, away: bool, deaf: bool) -> None:
        self.hub.away, self.hub.deaf = away, deaf

    @precondition(lambda self: self.hub.live())
    @rule(verdict=st.sampled_from(["Approved", "Denied", "Failed"]))
    def somebody_rules(self, verdict: str) -> None:
        self.hub.rule(self.hub.live()[0], verdict)

    @precondition(lambda self: self.hub.live())
    @rule(hours=st.integers(1, 24 * 400))
    def the_signer_issues(self, hours: int) -> None:
        name = self.hub.live()[0]
        self.hub.issue(name, self.hub.certificate(name, timedelta(hours=hours)))

    @precondition(lambda self: self.hub.live())
    @rule()
    def the_signer_errs(self) -> None:
        name = self.hub.live()[0]
        self.hub.issue(name, self.hub.certificate(name, subject=subject("system:open-cluster-management:cluster2:abcde")))

    @precondition(lambda self: self.hub.requests)
    @rule(choice=st.integers(0, 20))
    def somebody_removes_a_request(self, choice: int) -> None:
        names = list(self.hub.requests)
        del self.hub.requests[names[choice % len(names)]]

    @rule(seconds=st.sampled_from([1.0, 300.0, 3600.0, 24 * 3600.0, 300 * 24 * 3600.0]))
    def time_passes(self, seconds: float) -> None:
        self.pass_time(seconds)

    # What holds at every moment.

    @invariant()
    def there_is_never_more_than_one_live_request(self) -> None:
        assert len(self.hub.live()) <= 1

    @invariant()
    def the_key_of_what_may_become_a_certificate_is_stored(self) -> None:
        for name in self.hub.live():
            assert self.agent.pending["name"].decode() == name
            assert is_for(self.hub.requests[name], agent_profile(AGENT), self.agent.pending["key"])

    @invariant()
    def the_key_of_every_answered_request_was_or_can_still_be_used(self) -> None:
        keys = [self.agent.pending.get("key"), *self.used]
        for name, csr in self.hub.requests.items():
            if (csr.get("status") or {}).get("certificate") and not self.refused(name):
                assert any(is_for(csr, agent_profile(AGENT), key) for key in keys if key is not None)

    def refused(self, name: str) -> bool:
        """Answered with something of no use to the agent: nothing is lost with its key."""
        certificate = base64.b64decode(self.hub.requests[name]["status"]["certificate"])
        named = common_name(x509.load_pem_x509_certificate(certificate).subject)
        return named != AGENT.common_name or validity_of(certificate).until <= self.clock.now()

    @invariant()
    def a_certificate_in_use_is_the_agents_and_with_its_key(self) -> None:
        assert ("tls.crt" in self.agent.stored) == ("tls.key" in self.agent.stored)
        assert ("name" in self.agent.pending) == ("key" in self.agent.pending)
        if "tls.crt" in self.agent.stored:
            certificate = self.agent.stored["tls.crt"]
            assert KeyPair(certificate, self.agent.stored["tls.key"]).matches()
            assert common_name(x509.load_pem_x509_certificate(certificate).subject) == AGENT.common_name

    # And where it leads.

    def ends_well(self) -> None:
        """With a hub that answers, an hour's pauses later, there is a certificate."""
        self.hub.away = self.hub.deaf = False
        for _ in range(20):
            self.run(self._step())
            for name in self.hub.live():
                self.hub.issue(name)
            self.hub.requests = {name: csr for name, csr in self.hub.requests.items() if name in self.kept()}
            self.pass_time(600)
        assert self.agent.driver.problem(self.agent.stored) == ""
        load_key(self.agent.stored["tls.key"])

    def kept(self) -> set[str]:
        """Kubernetes removes requests in time; never the one that waits to be fetched."""
        return {self.agent.pending.get("name", b"").decode()}


TestFates = Fates.TestCase
TestFates.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)
