"""The loop around a driver: what it says is stored before it is asked again, and what it waits for wakes it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from muster.machinery.authentication import UserInfo
from muster.registration.agent.context import AgentContext
from muster.registration.agent.hub_credential import hub_credential_keeper
from muster.registration.drivers.endpoints import HubAddress
from muster.registration.drivers.interfaces import CredentialReport, StepResult, WatchTarget
from muster.registration.kinds import MANAGED_CLUSTERS
from muster.runtime.client.builtin import EVENTS
from muster.runtime.client.errors import Unreachable
from tests.unit.registration.agent.conftest import Fleet, Link, until
from tests.unit.registration.agent.contexts import IdleDriver, context_of

ADDRESS = HubAddress("hub", "https://hub.example:6443")
BOOTSTRAP = UserInfo("bootstrap", groups=("system:authenticated",))
CERTIFICATE = {"tls.crt": b"c", "tls.key": b"k"}


@asynccontextmanager
async def keeping(
    fleet: Fleet, driver: IdleDriver, troubles: list[Exception | None] | None = None, **options: bool
) -> AsyncIterator[tuple[AgentContext, "asyncio.Task[None]"]]:
    context = context_of(fleet, driver)
    heard = [] if troubles is None else troubles
    keeper = hub_credential_keeper(context, Link(fleet.hub, BOOTSTRAP), ADDRESS, trouble=heard.append)
    task, events = asyncio.create_task(keeper.run(**options)), asyncio.create_task(context.events.run())
    try:
        yield context, task
    finally:
        task.cancel()
        events.cancel()
        await asyncio.gather(task, events, return_exceptions=True)


async def test_what_a_driver_says_is_stored_before_it_is_asked_again(fleet: Fleet) -> None:
    driver = IdleDriver(StepResult({"key": b"p"}, again=0), StepResult(credential=CERTIFICATE))
    async with keeping(fleet, driver, until_usable=True) as (_, task):
        await asyncio.wait_for(task, 10)
    assert driver.pending == [{}, {"key": b"p"}]
    assert driver.stored == [{}, {}]
    stored = await fleet.stored()
    assert stored["tls.crt"] == b"c"
    assert b"https://hub.example:6443" in stored["kubeconfig"]
    assert await fleet.pending() == {}


async def test_a_credential_appears_whole_in_one_write_and_then_what_was_pending_goes(fleet: Fleet) -> None:
    driver = IdleDriver(StepResult({"key": b"p"}, again=0), StepResult(credential=CERTIFICATE))
    async with keeping(fleet, driver, until_usable=True) as (_, task):
        await asyncio.wait_for(task, 10)
    assert set(await fleet.stored()) == {"cluster-name", "agent-name", "kubeconfig", "tls.crt", "tls.key"}
    writes = [(verb, path.partition("agent/")[2]) for verb, path in fleet.spoke.requests if "/secrets" in path]
    assert writes == [("POST", "secrets"), ("POST", "secrets"), ("DELETE", "secrets/hub-kubeconfig-secret-pending")]


async def test_a_credential_that_its_driver_cannot_use_is_not_stored(fleet: Fleet) -> None:
    driver, troubles = (
        IdleDriver(StepResult(credential={"tls.key": b"k"}), StepResult(credential=CERTIFICATE)),
        list[Exception | None](),
    )
    async with keeping(fleet, driver, troubles, until_usable=True) as (_, task):
        await until(lambda: troubles, "trouble")
        assert await fleet.stored() == {}
        await fleet.advance(3)
        await asyncio.wait_for(task, 10)
    assert "it cannot use itself: no certificate" in str(troubles[0])


async def test_a_credential_is_told_of_though_what_was_pending_cannot_be_forgotten(fleet: Fleet) -> None:
    done = CredentialReport(True, "ClientCertificateUpdated", "rotated", "ClientCertificateCreated")
    driver = IdleDriver(StepResult({"key": b"p"}, again=0), StepResult(credential=CERTIFICATE, report=done))

    async def no_removal() -> None:
        if fleet.spoke.requests[-1][0] == "DELETE":
            raise Unreachable("spoke", "away")

    fleet.spoke.fate = no_removal
    async with keeping(fleet, driver, until_usable=True) as (_, task):
        await asyncio.wait_for(task, 10)
        found = await until(lambda: _events(fleet), "an event")
    assert found[0]["reason"] == "ClientCertificateCreated"
    assert (await fleet.stored())["tls.crt"] == b"c"
    assert (await fleet.pending())["key"] == b"p"


async def test_while_a_renewal_is_pending_the_credential_in_use_is_not_touched(fleet: Fleet) -> None:
    driver = IdleDriver(
        StepResult(credential=CERTIFICATE, again=0), StepResult({"key": b"next"}, again=0), StepResult({"key": None})
    )
    async with keeping(fleet, driver):
        await until(lambda: len(driver.pending) == 3, "three steps")
        assert driver.pending == [{}, {}, {"key": b"next"}]
        await until(lambda: _nothing_pending(fleet), "what was given up to be forgotten")
    assert (await fleet.stored())["tls.key"] == b"k"
    assert not [path for verb, path in fleet.spoke.requests if verb == "PATCH" and path.endswith("/hub-kubeconfig-secret")]


async def test_a_driver_is_woken_when_its_time_has_come_and_not_before(fleet: Fleet) -> None:
    driver = IdleDriver(StepResult(credential=CERTIFICATE, again=100), StepResult())
    async with keeping(fleet, driver):
        await until(lambda: 100 in fleet.clock.pending, "a timer")
        await fleet.advance(99)
        assert len(driver.stored) == 1
        await fleet.advance(2)
        await until(lambda: len(driver.stored) == 2, "a second step")


async def test_a_change_of_what_it_waits_for_wakes_a_driver_and_is_shown_to_it(fleet: Fleet) -> None:
    kind = {"apiVersion": MANAGED_CLUSTERS.api_version, "kind": MANAGED_CLUSTERS.kind}
    await fleet.hub.admin.create(MANAGED_CLUSTERS, {**kind, "metadata": {"name": "c1"}})
    watched = WatchTarget(MANAGED_CLUSTERS, "c1")
    driver = IdleDriver(*[StepResult(watch=watched) for _ in range(5)])
    async with keeping(fleet, driver):
        await until(lambda: driver.seen and driver.seen[-1], "the object being seen")
        await fleet.hub.admin.patch(MANAGED_CLUSTERS, "c1", {"metadata": {"labels": {"a": "b"}}})
        await until(lambda: (driver.seen[-1] or {}).get("metadata", {}).get("labels") == {"a": "b"}, "the change being seen")
    assert fleet.hub.count("WATCH", "/managedclusters") == 1


async def test_a_step_that_fails_is_tried_again_later_and_later(fleet: Fleet) -> None:
    class Failing(IdleDriver):
        async def advance(self, *given: object) -> StepResult:
            await super().advance(*given)  # type: ignore[arg-type]
            raise Unreachable("hub", "away")

    driver, troubles = Failing(), list[Exception | None]()
    async with keeping(fleet, driver, troubles):
        await until(lambda: len(driver.stored) == 1, "a first step")
        await fleet.advance(300, step=1)
        assert 6 <= len(driver.stored) <= 15
    assert all(isinstance(error, Unreachable) for error in troubles)


async def test_a_driver_that_breaks_is_tried_again(fleet: Fleet) -> None:
    class Broken(IdleDriver):
        async def advance(self, *given: object) -> StepResult:
            if not self.stored:
                self.stored.append({})
                raise ZeroDivisionError
            return await super().advance(*given)  # type: ignore[arg-type]

    driver = Broken(StepResult(credential=CERTIFICATE))
    async with keeping(fleet, driver, until_usable=True) as (_, task):
        await fleet.advance(3)
        await asyncio.wait_for(task, 10)


async def test_what_is_reported_becomes_an_event_on_the_agents_own_cluster(fleet: Fleet) -> None:
    report = CredentialReport(False, "ClientCertificateUpdateFailed", "too many requests", "ClientCertificateCreationHalted")
    async with keeping(fleet, IdleDriver(StepResult(report=report))):
        found = await until(lambda: _events(fleet), "an event")
    assert (found[0]["reason"], found[0]["type"]) == ("ClientCertificateCreationHalted", "Warning")


async def _nothing_pending(fleet: Fleet) -> bool:
    return not await fleet.pending()


async def _events(fleet: Fleet) -> list[dict[str, object]]:
    return (await fleet.admin.list(EVENTS)).items
