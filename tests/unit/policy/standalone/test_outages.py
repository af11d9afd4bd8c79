"""A hub that cannot be reached: what stands in for it, what does not, and how it heals."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from muster.machinery.clock import sleep
from muster.machinery.objects import Object
from muster.runtime.client import (
    KubeError,
    NoCredential,
    ServerFailure,
    TooManyRequests,
    Unauthorized,
    Unreachable,
    Untrusted,
)
from muster.runtime.client.builtin import CONFIG_MAPS
from tests.support.mortal_hub import Life
from tests.unit.policy.standalone.conftest import COLOUR, SHOP, FastClock, Outage, Site, value_of

SERVER = "https://hub"
FAULTS: dict[str, Callable[[], KubeError]] = {
    "refused": lambda: Unreachable(SERVER, "connection refused", sent=False),
    "reset": lambda: Unreachable(SERVER, "connection reset by peer"),
    "unknown name": lambda: Unreachable(SERVER, "Name or service not known", sent=False),
    "TLS broken": lambda: Untrusted(SERVER, "certificate verify failed"),
    "no certificate": lambda: NoCredential(SERVER, "tls.crt: no such file"),
    "load balancer": lambda: ServerFailure(503, "", "no healthy upstream"),
    "no database": lambda: ServerFailure(500, "InternalError", "etcdserver: leader changed"),
}
SILENCE = "silence"


@pytest.fixture(params=[*FAULTS, SILENCE])
def fault(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def begin(outage: Outage, fault: str) -> None:
    if fault == SILENCE:
        outage.silence()
    else:
        outage.begin(FAULTS[fault])


async def resolved_once(site: Site, policy: Object) -> Object:
    async with site.controller() as controller:
        await controller.resolve(policy)
    secret = await site.secret(policy)
    assert secret is not None
    return secret


async def test_what_is_followed_still_answers_and_nothing_is_written(site: Site, fault: str) -> None:
    policy = await site.policy()
    async with site.controller(clock=FastClock()) as controller:
        await controller.resolve(policy)
        begin(site.outage, fault)
        found = await controller.resolve(policy)
        assert (value_of(found), found.from_cache) == ("red", False)
        assert len(controller.life.writes) == 1


async def test_after_a_restart_the_last_resolved_state_stands_in_until_the_hub_is_back(site: Site, fault: str) -> None:
    policy = await site.policy()
    before = await resolved_once(site, policy)
    begin(site.outage, fault)
    async with site.controller(clock=FastClock()) as controller:
        found = await controller.resolve(policy)
        assert (value_of(found), found.from_cache, found.sensitive) == ("red", True, True)
        assert await site.secret(policy) == before
        await site.settings(colour="blue")
        site.outage.end()
        await controller.told(policy)
        healed = await controller.healed(policy, lambda found: not found.from_cache)
        assert value_of(healed) == "blue"
    saved = await site.saved(policy)
    assert saved is not None
    assert saved["spec"]["object-templates"][0]["objectDefinition"]["data"] == {"value": "blue"}


async def test_another_generation_is_not_what_was_resolved_but_is_kept(site: Site, fault: str) -> None:
    policy = await site.policy()
    before = await resolved_once(site, policy)
    edited = await site.policy(COLOUR + "!")
    begin(site.outage, fault)
    async with site.controller(clock=FastClock()) as controller:
        assert "failed to resolve the template" in await controller.fails(edited)
        assert await site.secret(policy) == before
        site.outage.end()
        assert value_of(await controller.healed(edited, lambda found: True)) == "red!"


async def test_without_anything_to_stand_in_the_failure_is_told_until_the_hub_is_back(site: Site, fault: str) -> None:
    policy = await site.policy()
    begin(site.outage, fault)
    async with site.controller(clock=FastClock()) as controller:
        assert "failed to resolve the template" in await controller.fails(policy)
        assert await site.secret(policy) is None
        site.outage.end()
        assert value_of(await controller.healed(policy, lambda found: True)) == "red"


async def test_kinds_are_found_again_when_the_hub_is_back(site: Site, fault: str) -> None:
    """Upstream remembers for ten minutes that it could not ask."""
    policy = await site.policy('{{hub fromConfigMap "shop" "settings" "colour" hub}}')
    await resolved_once(site, policy)
    begin(site.outage, fault)
    async with site.controller(clock=FastClock()) as controller:
        assert (await controller.resolve(policy)).from_cache
        site.outage.end()
        assert not (await controller.healed(policy, lambda found: not found.from_cache)).from_cache
        assert await site.secret(policy) is not None


async def test_edits_while_disconnected_resolve_from_memory_as_long_as_they_ask_nothing_new(site: Site) -> None:
    await site.settings("other", colour="green")
    policy = await site.policy()
    async with site.controller(clock=FastClock()) as controller:
        await controller.resolve(policy)
        site.outage.begin(FAULTS["refused"])
        edited = await site.policy(COLOUR + "!")
        assert value_of(await controller.resolve(edited)) == "red!"
        saved = await site.saved(policy)
        assert saved is not None
        assert saved["metadata"]["generation"] == 2

        asking_more = await site.policy(COLOUR + COLOUR.replace("settings", "other"))
        assert "connection refused" in await controller.fails(asking_more)
        assert (await site.saved(policy)) == saved

        reverted = await site.policy()
        assert value_of(await controller.resolve(reverted)) == "red"


@pytest.mark.parametrize(
    "answer", [Unauthorized(401, "Unauthorized", "Unauthorized"), TooManyRequests(429, "TooManyRequests", "busy")]
)
async def test_a_hub_that_does_not_know_us_or_has_no_time_is_not_stood_in_for_and_what_is_kept_stays(
    site: Site, answer: KubeError
) -> None:
    policy = await site.policy()
    before = await resolved_once(site, policy)
    site.outage.begin(lambda: answer)
    async with site.controller(clock=FastClock()) as controller:
        await controller.fails(policy)
        assert await site.secret(policy) == before
        site.outage.end()
        assert value_of(await controller.healed(policy, lambda found: True)) == "red"


async def test_one_lost_request_is_no_outage_and_is_asked_again(site: Site) -> None:
    policy = await site.policy()
    async with site.controller(clock=FastClock()) as controller:
        assert controller.hub is not None
        controller.hub.lose("configmaps")
        assert "lost" in await controller.fails(policy)
        found = await controller.healed(policy, lambda found: True)
        assert (value_of(found), found.from_cache) == ("red", False)


async def test_a_hub_that_answers_but_keeps_losing_requests_is_not_stood_in_for(site: Site) -> None:
    policy = await site.policy()
    before = await resolved_once(site, policy)
    async with site.controller(clock=FastClock()) as controller:
        assert controller.hub is not None
        controller.hub.lose("configmaps", times=100)
        assert "lost" in await controller.fails(policy)
        assert await site.secret(policy) == before


class TestAnAnswer:
    """What the hub itself says counts: nothing that was kept does any longer."""

    async def test_a_refusal_removes_what_was_kept(self, site: Site) -> None:
        policy = await site.policy()
        await resolved_once(site, policy)
        await site.revoke("configmaps")
        async with site.controller() as controller:
            complaint = await controller.fails(policy)
            assert "forbidden" in complaint
            assert "ensure the client has the list and watch permissions" in complaint
            assert await site.secret(policy) is None
            await site.grant("configmaps")
            assert value_of(await controller.healed(policy, lambda found: True)) == "red"

    async def test_a_missing_object_removes_what_was_kept(self, site: Site) -> None:
        policy = await site.policy()
        async with site.controller() as controller:
            await controller.resolve(policy)
            await site.hub.delete(CONFIG_MAPS, "settings", SHOP)
            await controller.told(policy)
            assert 'configmaps "settings" not found' in await controller.fails(policy)
            assert await site.secret(policy) is None
            await site.settings(colour="blue")
            assert value_of(await controller.healed(policy, lambda found: True)) == "blue"

    async def test_a_template_that_cannot_be_parsed_removes_what_was_kept(self, site: Site) -> None:
        policy = await site.policy()
        async with site.controller() as controller:
            await controller.resolve(policy)
            broken = await site.policy("{{hub nonsense hub}}")
            assert "not defined" in await controller.fails(broken)
            assert await site.secret(policy) is None

    async def test_a_refusal_while_disconnected_stays_a_refusal(self, site: Site) -> None:
        await site.revoke("configmaps")
        policy = await site.policy()
        async with site.controller(clock=FastClock()) as controller:
            await controller.fails(policy)
            site.outage.begin(FAULTS["refused"])
            assert "forbidden" in await controller.fails(policy)


class TestForgeries:
    """A Secret in the place of the last resolved state that is not this policy's own."""

    @pytest.fixture
    async def genuine(self, site: Site) -> tuple[Object, Object]:
        policy = await site.policy()
        await resolved_once(site, policy)
        saved = await site.saved(policy)
        assert saved is not None
        site.outage.begin(FAULTS["refused"])
        return policy, saved

    async def test_the_genuine_one_is_used(self, site: Site, genuine: tuple[Object, Object]) -> None:
        policy, saved = genuine
        await site.forge(policy, saved)
        async with site.controller() as controller:
            assert value_of(await controller.resolve(policy)) == "red"

    @pytest.mark.parametrize(
        "change",
        [
            {"uid": "00000000-0000-0000-0000-000000000000"},
            {"generation": 7},
            {"generation": "1"},
            {"generation": None},
            {"name": "another"},
            {"namespace": "another"},
        ],
    )
    async def test_one_of_another_policy_or_generation_is_not(
        self, site: Site, genuine: tuple[Object, Object], change: Object
    ) -> None:
        policy, saved = genuine
        await site.forge(policy, saved | {"metadata": saved["metadata"] | change})
        await self.is_not_used(site, policy)

    @pytest.mark.parametrize("change", [{"kind": "OperatorPolicy"}, {"apiVersion": "v1"}, {"spec": None}, {"metadata": None}])
    async def test_one_of_another_kind_or_form_is_not(self, site: Site, genuine: tuple[Object, Object], change: Object) -> None:
        policy, saved = genuine
        await site.forge(policy, saved | change)
        await self.is_not_used(site, policy)

    async def test_one_with_templates_left_is_not(self, site: Site, genuine: tuple[Object, Object]) -> None:
        policy, saved = genuine
        await site.forge(policy, saved | {"spec": policy["spec"]})
        await self.is_not_used(site, policy)

    @pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b'"text"'])
    async def test_what_is_no_policy_is_not(self, site: Site, genuine: tuple[Object, Object], content: bytes) -> None:
        policy, _ = genuine
        await site.forge(policy, content)
        await self.is_not_used(site, policy)

    @pytest.mark.parametrize("owners", [[], [{"apiVersion": "v1", "kind": "ConfigMap", "name": "p", "uid": "x"}]])
    async def test_one_that_the_policy_does_not_own_is_not(
        self, site: Site, genuine: tuple[Object, Object], owners: list[Object]
    ) -> None:
        policy, saved = genuine
        await site.forge(policy, saved, ownerReferences=owners)
        await self.is_not_used(site, policy)

    async def test_an_immutable_one_is_replaced_when_the_hub_is_back(self, site: Site, genuine: tuple[Object, Object]) -> None:
        policy, saved = genuine
        await site.forge(policy, saved | {"metadata": saved["metadata"] | {"generation": 7}}, immutable=True)
        async with site.controller(clock=FastClock()) as controller:
            await controller.fails(policy)
            site.outage.end()
            await controller.healed(policy, lambda found: True)
        assert await site.saved(policy) == saved

    async def is_not_used(self, site: Site, policy: Object) -> None:
        async with site.controller() as controller:
            assert "connection refused" in await controller.fails(policy)


class TestDeaths:
    """The program is killed at each of its writes, before or after it is carried out, and another one starts with a hub away."""

    @pytest.mark.parametrize("before", [True, False])
    async def test_at_the_first_write(self, site: Site, before: bool) -> None:
        policy = await site.policy()
        async with site.controller(life=Life(0, before=before)) as controller:
            with pytest.raises(Unreachable, match="died"):
                await controller.resolve(policy)
        site.outage.begin(FAULTS["refused"])
        async with site.controller() as controller:
            if before:
                assert "connection refused" in await controller.fails(policy)
            else:
                assert value_of(await controller.resolve(policy)) == "red"

    @pytest.mark.parametrize("before", [True, False])
    async def test_at_a_later_write(self, site: Site, before: bool) -> None:
        policy = await site.policy()
        await resolved_once(site, policy)
        await site.settings(colour="blue")
        async with site.controller(life=Life(0, before=before)) as controller:
            with pytest.raises(Unreachable, match="died"):
                await controller.resolve(policy)
        site.outage.begin(FAULTS["refused"])
        async with site.controller() as controller:
            assert value_of(await controller.resolve(policy)) == ("red" if before else "blue")

    @pytest.mark.parametrize("before", [True, False])
    async def test_at_the_removal(self, site: Site, before: bool) -> None:
        policy = await site.policy()
        await resolved_once(site, policy)
        await site.hub.delete(CONFIG_MAPS, "settings", SHOP)
        async with site.controller(life=Life(0, before=before)) as controller:
            with pytest.raises(Unreachable, match="died"):
                await controller.resolve(policy)
        async with site.controller() as controller:
            assert "not found" in await controller.fails(policy)
            assert await site.secret(policy) is None

    @pytest.mark.parametrize("writes", [0, 1, 2])
    @pytest.mark.parametrize("before", [True, False])
    async def test_at_the_replacement_of_an_immutable_forgery(self, site: Site, writes: int, before: bool) -> None:
        policy = await site.policy()
        await site.forge(policy, {}, immutable=True)
        async with site.controller(life=Life(writes, before=before)) as controller:
            with pytest.raises(Unreachable, match="died"):
                await controller.resolve(policy)
        async with site.controller() as controller:
            assert value_of(await controller.resolve(policy)) == "red"
        saved = await site.saved(policy)
        assert saved is not None
        assert saved["metadata"]["uid"] == policy["metadata"]["uid"]


async def test_a_silent_hub_delays_only_who_needs_it(site: Site) -> None:
    await site.settings("other", colour="green")
    known, new, plain = [
        await site.policy(COLOUR, name="known"),
        await site.policy(COLOUR.replace("settings", "other"), name="new"),
        await site.policy("plain", name="plain"),
    ]
    async with site.controller() as controller:
        await controller.resolve(known)
        site.outage.silence()
        waiting = asyncio.create_task(controller.resolve(new))
        await asyncio.sleep(0)
        async with asyncio.timeout(1):
            assert value_of(await controller.resolve(known)) == "red"
            assert value_of(await controller.resolve(plain)) == "plain"
        assert not waiting.done()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)


async def test_a_dead_hub_is_probed_less_and_less_often_by_one_for_all(site: Site) -> None:
    policies = [await site.policy(name=f"p{number}") for number in range(10)]
    site.outage.begin(FAULTS["refused"])
    clock = FastClock()
    async with site.controller(clock=clock) as controller:
        for policy in policies:
            await controller.fails(policy)
        assert controller.hub is not None
        assert len(controller.hub.asked) <= 2, "whoever comes later takes what the first has found"
        before = len(controller.hub.asked)
        await sleep(clock, 120)
        assert 120 / 15 <= len(controller.hub.asked) - before <= 20
        site.outage.end()
        for policy in policies:
            assert value_of(await controller.healed(policy, lambda found: True)) == "red"


async def test_a_run_that_is_given_up_keeps_what_was_followed(site: Site) -> None:
    await site.settings("other", colour="green")
    policy = await site.policy()
    async with site.controller() as controller:
        await controller.resolve(policy)
        site.outage.silence()
        edited = await site.policy(COLOUR + COLOUR.replace("settings", "other"))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await controller.resolve(edited)
        reverted = await site.policy()
        assert value_of(await controller.resolve(reverted)) == "red"


async def test_a_cluster_that_will_not_have_the_secret_gets_none_but_the_policy_counts(site: Site) -> None:
    policy = await site.policy()
    await resolved_once(site, policy)
    await site.settings(colour="blue")
    life = Life()
    refusal = ServerFailure(413, "RequestEntityTooLarge", "too large")
    life.refuse = lambda method, path: refusal if method == "PATCH" and "/secrets" in path else None
    async with site.controller(life=life) as controller:
        assert value_of(await controller.resolve(policy)) == "blue"
        assert await site.secret(policy) is None, "an older state must not come back"


async def test_a_cluster_that_fails_is_no_failure_of_the_policy(site: Site) -> None:
    policy = await site.policy()
    life = Life()
    life.refuse = lambda method, path: Unreachable("managed", "away") if method == "POST" else None
    async with site.controller(life=life) as controller:
        with pytest.raises(Unreachable):
            await controller.resolve(policy)
        life.refuse = lambda method, path: None
        assert value_of(await controller.resolve(policy)) == "red"
