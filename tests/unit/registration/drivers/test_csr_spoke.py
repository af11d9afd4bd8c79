"""The agent's side step by step: what is stored before what is asked, and what every answer of the hub leads to."""

from datetime import timedelta

import pytest

from muster.kube.certificates import subject
from muster.machinery.metrics import Metrics
from muster.registration.drivers import find
from muster.registration.drivers.certificates.agents import agent_profile
from muster.registration.drivers.certificates.certificate_manager import (
    HALTED_PAUSE,
    LONGEST_SLEEP,
    MOST_REQUESTS,
    REFUSED_PAUSE,
    UNHEARD_PAUSE,
)
from muster.registration.drivers.certificates.requests import new_key, request_object
from muster.registration.drivers.endpoints import HubAddress
from muster.registration.drivers.interfaces import DriverConfigError, SpokeContext
from muster.registration.drivers.kubeconfigs import hub_kubeconfig
from muster.registration.names import AgentIdentity
from muster.runtime.client.builtin import SIGNING_REQUESTS
from muster.runtime.client.errors import Unreachable
from tests.support.fake_clock import FakeClock
from tests.unit.registration.drivers.conftest import Agent
from tests.unit.registration.drivers.scripted_hub import ScriptedHub

AGENT = AgentIdentity("cluster1", "abcde")
YEAR = timedelta(days=365).total_seconds()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def hub(clock: FakeClock) -> ScriptedHub:
    return ScriptedHub(clock)


@pytest.fixture
def agent(clock: FakeClock) -> Agent:
    return Agent(AGENT, clock)


def pending(agent: Agent) -> str:
    return agent.pending["name"].decode()


async def join(agent: Agent, hub: ScriptedHub) -> None:
    await agent.settle(hub.client)
    hub.issue(pending(agent))
    await agent.settle(hub.client)


async def test_key_and_name_are_stored_before_anything_is_asked(agent: Agent, hub: ScriptedHub) -> None:
    first = await agent.step(hub.client)
    assert hub.calls == ["list"]
    assert hub.requests == {}
    assert sorted(first.pending) == ["key", "name"]
    assert first.again == 0

    second = await agent.step(hub.client)
    assert hub.calls == ["list", "create"]
    [name] = hub.requests
    assert name == pending(agent)
    assert name.startswith("cluster1-")
    assert len(name) == len("cluster1-") + 5
    assert (second.pending, second.credential) == ({}, None)
    assert second.watch is not None
    assert (second.watch.resource, second.watch.name) == (SIGNING_REQUESTS, name)


async def test_an_issued_certificate_comes_in_with_its_key_in_one_write(agent: Agent, hub: ScriptedHub, clock: FakeClock) -> None:
    await agent.settle(hub.client)
    key, certificate = agent.pending["key"], hub.issue(pending(agent))
    progress = await agent.step(hub.client)
    assert progress.credential == {"tls.crt": certificate, "tls.key": key}
    assert progress.report is not None
    assert (progress.report.status, progress.report.reason) == (True, "ClientCertificateUpdated")
    assert progress.report.message == (
        "client certificate rotated starting from 2026-01-01 00:00:00 +0000 UTC to 2027-01-01 00:00:00 +0000 UTC"
    )
    assert agent.driver.problem(agent.stored) == ""
    assert hub.calls == ["list", "create", "get"]


async def test_what_the_watch_has_seen_is_not_asked_for(agent: Agent, hub: ScriptedHub) -> None:
    await agent.settle(hub.client)
    asked = len(hub.calls)
    waiting = await agent.driver.advance(hub.client, agent.stored, agent.pending, hub.requests[pending(agent)])
    assert waiting.watch is not None
    hub.issue(pending(agent))
    agent.store(await agent.driver.advance(hub.client, agent.stored, agent.pending, hub.requests[pending(agent)]))
    assert agent.driver.problem(agent.stored) == ""
    assert len(hub.calls) == asked


async def test_what_the_watch_has_seen_of_another_request_is_of_no_use(agent: Agent, hub: ScriptedHub) -> None:
    await agent.settle(hub.client)
    other = request_object("cluster1-other", agent_profile(AGENT), new_key())
    progress = await agent.driver.advance(hub.client, agent.stored, agent.pending, other)
    assert hub.calls[-1] == "get"
    assert progress.watch is not None
    assert progress.watch.name == pending(agent)


@pytest.mark.parametrize("steps", [0, 1, 2, 3])
async def test_an_agent_that_dies_anywhere_asks_once_and_ends_with_the_same_key(agent: Agent, hub: ScriptedHub, steps: int) -> None:
    for _ in range(steps):
        await agent.step(hub.client)
    agent.restart()
    await agent.settle(hub.client)
    agent.restart()
    await join(agent, hub)
    assert len(hub.requests) == 1
    assert hub.calls.count("create") == 1
    assert agent.driver.problem(agent.stored) == ""


async def test_an_agent_that_dies_before_it_forgets_what_was_pending_asks_for_nothing_more(agent: Agent, hub: ScriptedHub) -> None:
    await agent.settle(hub.client)
    hub.issue(pending(agent))
    agent.store(await agent.driver.advance(hub.client, agent.stored, agent.pending), forget=False)
    hub.requests.clear()
    agent.restart()
    asked = len(hub.calls)
    await agent.settle(hub.client)
    assert agent.pending == {}
    assert agent.driver.problem(agent.stored) == ""
    assert len(hub.calls) == asked


async def test_an_agent_that_dies_before_storing_has_asked_for_nothing(agent: Agent, hub: ScriptedHub) -> None:
    await agent.driver.advance(hub.client, agent.stored, agent.pending)
    agent.restart()
    await join(agent, hub)
    assert len(hub.requests) == 1


async def test_a_lost_answer_to_the_request_makes_no_second_one(agent: Agent, hub: ScriptedHub) -> None:
    await agent.step(hub.client)
    hub.deaf = True
    with pytest.raises(Unreachable):
        await agent.step(hub.client)
    hub.deaf = False
    await join(agent, hub)
    assert len(hub.requests) == 1
    assert agent.driver.problem(agent.stored) == ""


async def test_a_hub_that_is_away_changes_nothing(agent: Agent, hub: ScriptedHub) -> None:
    hub.away = True
    with pytest.raises(Unreachable):
        await agent.step(hub.client)
    assert agent.pending == {}
    hub.away = False
    await agent.step(hub.client)
    hub.away, before = True, dict(agent.pending)
    with pytest.raises(Unreachable):
        await agent.step(hub.client)
    assert agent.pending == before


async def test_renewal_is_drawn_once_per_certificate_and_asked_for_in_time(
    agent: Agent, hub: ScriptedHub, clock: FakeClock
) -> None:
    await join(agent, hub)
    asked = len(hub.calls)
    moments = set()
    for _ in range(50):
        progress = await agent.step(hub.client)
        assert progress.again == LONGEST_SLEEP
    await clock.advance(YEAR * 0.75 - LONGEST_SLEEP)
    for _ in range(50):
        progress = await agent.step(hub.client)
        moments.add(progress.again)
    assert len(moments) == 1
    assert len(hub.calls) == asked, "a good certificate costs no request"

    await clock.advance(YEAR * 0.05 + LONGEST_SLEEP)
    old = dict(agent.stored)
    await agent.settle(hub.client)
    assert len(hub.live()) == 1
    assert {name: agent.stored[name] for name in old} == old, "the old certificate works on while the new one is asked for"

    hub.issue(pending(agent))
    progress = await agent.settle(hub.client)
    assert agent.stored["tls.key"] != old["tls.key"]
    assert agent.pending == {}
    assert agent.driver.problem(agent.stored) == ""
    assert progress.again == LONGEST_SLEEP


@pytest.mark.parametrize("verdict", ["Denied", "Failed"])
async def test_a_refused_request_is_told_and_asked_anew_after_a_pause(
    agent: Agent, hub: ScriptedHub, clock: FakeClock, verdict: str
) -> None:
    await agent.settle(hub.client)
    refused = pending(agent)
    hub.rule(refused, verdict, "not you")
    progress = await agent.settle(hub.client)
    assert progress.report is not None
    assert (progress.report.status, progress.report.reason) == (False, "ClientCertificateUpdateFailed")
    assert f"{verdict}: Test: not you" in progress.report.message
    assert progress.again is not None
    assert REFUSED_PAUSE <= progress.again <= 1.2 * REFUSED_PAUSE

    await clock.advance(REFUSED_PAUSE / 2)
    agent.restart()
    progress = await agent.settle(hub.client)
    assert list(hub.requests) == [refused], "restarting shortens nothing"
    assert progress.again is not None
    assert progress.again <= 0.6 * REFUSED_PAUSE + 1

    await clock.advance(REFUSED_PAUSE / 2)
    await agent.settle(hub.client)
    assert len(hub.requests) == 2
    assert pending(agent) != refused


async def test_a_refused_renewal_leaves_the_working_certificate_alone(agent: Agent, hub: ScriptedHub, clock: FakeClock) -> None:
    await join(agent, hub)
    certificate = agent.stored["tls.crt"]
    await clock.advance(YEAR * 0.81)
    await agent.settle(hub.client)
    hub.rule(pending(agent), "Denied")
    await agent.settle(hub.client)
    assert agent.stored["tls.crt"] == certificate
    assert agent.driver.problem(agent.stored) == ""


async def test_a_refused_request_that_somebody_removes_is_asked_anew_at_once(agent: Agent, hub: ScriptedHub) -> None:
    await agent.settle(hub.client)
    hub.rule(pending(agent), "Denied")
    await agent.settle(hub.client)
    del hub.requests[pending(agent)]
    await agent.settle(hub.client)
    assert hub.live() == [pending(agent)]


async def test_a_request_that_vanished_is_made_again_with_the_same_key(agent: Agent, hub: ScriptedHub) -> None:
    await agent.settle(hub.client)
    key = agent.pending["key"]
    hub.requests.clear()
    await agent.settle(hub.client)
    assert hub.live() == [pending(agent)]
    assert agent.pending["key"] == key


async def test_a_certificate_for_somebody_else_is_refused_and_asked_anew_later(
    agent: Agent, hub: ScriptedHub, clock: FakeClock
) -> None:
    await agent.settle(hub.client)
    wrong = hub.certificate(pending(agent), subject=subject(AgentIdentity("cluster2", "abcde").common_name))
    hub.issue(pending(agent), wrong)
    progress = await agent.settle(hub.client)
    assert progress.report is not None
    assert not progress.report.status
    assert "is for 'system:open-cluster-management:cluster2:abcde'" in progress.report.message
    assert "tls.crt" not in agent.stored
    await clock.advance(REFUSED_PAUSE)
    await agent.settle(hub.client)
    assert len(hub.live()) == 1


async def test_a_certificate_that_ended_before_it_was_fetched_is_asked_for_anew(
    agent: Agent, hub: ScriptedHub, clock: FakeClock
) -> None:
    await agent.settle(hub.client)
    hub.issue(pending(agent), hub.certificate(pending(agent), timedelta(hours=1)))
    await clock.advance(3600)
    await agent.settle(hub.client)
    assert "tls.crt" not in agent.stored
    assert len(hub.live()) == 1


async def test_a_certificate_that_cannot_be_read_is_no_certificate(agent: Agent, hub: ScriptedHub) -> None:
    await agent.settle(hub.client)
    hub.issue(pending(agent), b"junk")
    progress = await agent.settle(hub.client)
    assert progress.report is not None
    assert "cannot be read" in progress.report.message


async def test_a_name_that_is_anothers_on_the_hub_is_given_up(agent: Agent, hub: ScriptedHub) -> None:
    await agent.step(hub.client)
    taken = pending(agent)
    hub.requests[taken] = request_object(taken, agent_profile(AGENT), new_key())
    await agent.settle(hub.client)
    assert pending(agent) != taken
    assert set(hub.requests) == {taken, pending(agent)}


async def test_an_agent_with_a_new_name_asks_for_that(agent: Agent, hub: ScriptedHub) -> None:
    await agent.settle(hub.client)
    old = pending(agent)
    agent.identity = AgentIdentity("cluster1", "other")
    agent.restart()
    await agent.settle(hub.client)
    assert pending(agent) != old
    hub.issue(pending(agent))
    await agent.settle(hub.client)
    assert agent.driver.problem(agent.stored) == ""


async def test_a_certificate_of_another_name_is_a_problem_and_replaced(agent: Agent, hub: ScriptedHub) -> None:
    await join(agent, hub)
    agent.identity = AgentIdentity("cluster2", "abcde")
    agent.restart()
    assert "not for 'system:open-cluster-management:cluster2:abcde'" in agent.driver.problem(agent.stored)
    await join(agent, hub)
    assert agent.driver.problem(agent.stored) == ""


@pytest.mark.parametrize(
    ("stored", "pending"),
    [
        ({}, {"name": b"cluster1-aaaaa"}),
        ({}, {"key": new_key()}),
        ({}, {"name": b"cluster1-aaaaa", "key": b"broken"}),
        ({}, {"name": b"another-aaaaa", "key": new_key()}),
        ({}, {"name": b"\xff", "key": new_key()}),
        ({"tls.crt": b"junk", "tls.key": b"junk"}, {}),
        ({"tls.crt": b"junk", "tls.key": b"junk"}, {"name": b"cluster1-aaaaa", "key": b"junk"}),
    ],
)
async def test_a_secret_that_was_tampered_with_is_begun_anew(
    agent: Agent, hub: ScriptedHub, stored: dict[str, bytes], pending: dict[str, bytes]
) -> None:
    agent.stored, agent.pending = dict(stored), dict(pending)
    await join(agent, hub)
    assert agent.driver.problem(agent.stored) == ""
    assert len(hub.requests) == 1


async def test_with_too_many_requests_on_the_hub_none_is_added(agent: Agent, hub: ScriptedHub) -> None:
    for number in range(MOST_REQUESTS):
        hub.requests[f"cluster1-{number}"] = request_object(f"cluster1-{number}", agent_profile(AGENT), new_key())
    progress = await agent.settle(hub.client)
    assert len(hub.requests) == MOST_REQUESTS
    assert agent.pending == {}
    assert progress.report is not None
    assert (progress.report.event, progress.report.reason) == ("ClientCertificateCreationHalted", "ClientCertificateUpdateFailed")
    assert progress.again is not None
    assert progress.again >= HALTED_PAUSE
    hub.requests.popitem()
    await agent.settle(hub.client)
    assert len(hub.requests) == MOST_REQUESTS


async def test_approval_alone_is_waited_out(agent: Agent, hub: ScriptedHub, clock: FakeClock) -> None:
    await agent.settle(hub.client)
    hub.rule(pending(agent), "Approved")
    for _ in range(3):
        progress = await agent.settle(hub.client)
        assert progress.again == UNHEARD_PAUSE
        await clock.advance(3600)
    assert len(hub.requests) == 1


async def test_the_expiration_asked_for_is_the_configured_one(hub: ScriptedHub, clock: FakeClock) -> None:
    agent = Agent(AGENT, clock, {"client-cert-expiration-seconds": ("7200",)})
    await agent.settle(hub.client)
    [csr] = hub.requests.values()
    assert csr["spec"]["expirationSeconds"] == 7200


@pytest.mark.parametrize("value", ["1", "3599", "-1", "soon", "", str(2**31)])
def test_an_expiration_that_makes_no_sense_is_refused_at_the_start(clock: FakeClock, value: str) -> None:
    with pytest.raises(DriverConfigError) as error:
        Agent(AGENT, clock, {"client-cert-expiration-seconds": (value,)})
    assert (error.value.driver, error.value.option) == ("csr", "client-cert-expiration-seconds")


@pytest.mark.parametrize("value", ["0", "3600", "31536000"])
def test_sensible_expirations_are_taken(clock: FakeClock, value: str) -> None:
    Agent(AGENT, clock, {"client-cert-expiration-seconds": (value,)})


def test_an_option_that_does_not_exist_is_refused_by_name(clock: FakeClock) -> None:
    with pytest.raises(DriverConfigError, match="--clinet-cert-expiration-seconds"):
        Agent(AGENT, clock, {"clinet-cert-expiration-seconds": ("3600",)})


def test_the_driver_leaves_no_mark_on_the_cluster_and_names_its_files(clock: FakeClock) -> None:
    driver = find("csr").spoke(SpokeContext(AGENT, clock, lambda: 0.5, Metrics()))
    assert driver.decorate({"metadata": {"name": "cluster1"}}) == {"metadata": {"name": "cluster1"}}
    address = HubAddress("h", "https://hub:6443")
    assert driver.way_to(address) == {
        "kubeconfig": hub_kubeconfig(address, {"client-certificate": "tls.crt", "client-key": "tls.key"})
    }


async def test_the_secret_never_shows_in_what_a_step_says(agent: Agent, hub: ScriptedHub) -> None:
    progress = await agent.step(hub.client)
    assert "PRIVATE KEY" not in repr(progress)
    assert progress.pending["key"] is not None
    assert b"PRIVATE KEY" in progress.pending["key"]
