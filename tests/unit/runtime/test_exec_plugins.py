"""When a plugin runs: once for many requests, ahead of the end without anybody waiting, and not again and again where it fails."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path

import orjson
import pytest

from muster.machinery.confinement import Confinement, ProgramFailed, confined
from muster.runtime.client.credentials import CredentialError, Credentials
from muster.runtime.client.kubeconfig import AuthInfo, ClientConfig, ExecPlugin
from tests.support.fake_clock import FakeClock, settle

VERSION = "client.authentication.k8s.io/v1"


class Program:
    """Issues t1, t2, … for ten minutes each, unless a test has it fail or wait."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self.runs = 0
        self.seconds: float | None = 600
        self.fails = False
        self.gate: asyncio.Event | None = None

    async def __call__(self, args: Sequence[str], environ: Mapping[str, str]) -> bytes:
        self.runs += 1
        number = self.runs
        if self.gate is not None:
            await self.gate.wait()
        if self.fails:
            raise ProgramFailed("assume_role: AccessDenied: not yet")
        status = {"token": f"t{number}"}
        if self.seconds is not None:
            status["expirationTimestamp"] = (self._clock.now() + timedelta(seconds=self.seconds)).isoformat()
        return orjson.dumps({"apiVersion": VERSION, "kind": "ExecCredential", "status": status})


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def program(clock: FakeClock) -> Program:
    return Program(clock)


@pytest.fixture
def pod(program: Program, tmp_path: Path) -> Iterator[None]:
    boundary = Confinement(pod="ns/p", ip="127.1.1.1", environ={}, mounts={}, scratch=tmp_path, plugins={"get": program})
    with confined(boundary):
        yield


@pytest.fixture
def credentials(clock: FakeClock) -> Credentials:
    config = ClientConfig("https://hub", identity=AuthInfo(exec_plugin=ExecPlugin("get")))
    return Credentials(config, clock, lambda: 0.0)


async def token(credentials: Credentials) -> str:
    (header,) = await credentials.headers()
    return header[1].removeprefix("Bearer ")


@pytest.mark.usefixtures("pod")
class TestPlugin:
    async def test_a_token_is_renewed_ahead_of_its_end_while_requests_go_on_with_the_old_one(
        self, credentials: Credentials, program: Program, clock: FakeClock
    ) -> None:
        assert await token(credentials) == "t1"
        await clock.advance(479)
        assert await token(credentials) == "t1"
        assert program.runs == 1
        program.gate = asyncio.Event()
        await clock.advance(2)
        for _ in range(5):
            assert await token(credentials) == "t1"
            await settle()
        assert program.runs == 2
        program.gate.set()
        await settle()
        assert await token(credentials) == "t2"
        await credentials.close()

    async def test_a_renewal_that_fails_is_tried_again_with_pauses_and_the_old_token_serves(
        self, credentials: Credentials, program: Program, clock: FakeClock
    ) -> None:
        await token(credentials)
        await clock.advance(500)
        program.fails = True
        for _ in range(60):
            assert await token(credentials) == "t1"
            await clock.advance(1)
        assert 3 <= program.runs <= 9
        program.fails = False
        await clock.advance(5)
        await token(credentials)
        await settle()
        assert await token(credentials) != "t1"
        await credentials.close()

    async def test_a_failing_plugin_is_not_run_for_every_request(
        self, credentials: Credentials, program: Program, clock: FakeClock
    ) -> None:
        program.fails = True
        for _ in range(50):
            with pytest.raises(CredentialError, match="get: assume_role: AccessDenied: not yet"):
                await token(credentials)
        assert program.runs == 1
        for _ in range(300):
            await clock.advance(1)
            with pytest.raises(CredentialError):
                await token(credentials)
        assert program.runs < 15
        program.fails = False
        await clock.advance(60)
        assert (await token(credentials)).startswith("t")

    async def test_a_refused_token_is_replaced_once_and_then_only_with_pauses(
        self, credentials: Credentials, program: Program, clock: FakeClock
    ) -> None:
        assert await token(credentials) == "t1"
        assert credentials.refused()
        assert await token(credentials) == "t2"
        for _ in range(20):
            assert not credentials.refused()
            assert await token(credentials) == "t2"
        await clock.advance(1)
        assert credentials.refused()
        assert await token(credentials) == "t3"
        await clock.advance(1)
        assert not credentials.refused()
        assert program.runs == 3

    async def test_tokens_of_seconds_never_leave_a_request_without_one(
        self, credentials: Credentials, program: Program, clock: FakeClock
    ) -> None:
        program.seconds = 5
        for _ in range(60):
            await token(credentials)
            await clock.advance(0.5)
        assert program.runs <= 9
        await credentials.close()

    async def test_a_client_that_is_closed_leaves_no_renewal_behind(
        self, credentials: Credentials, program: Program, clock: FakeClock
    ) -> None:
        await token(credentials)
        await clock.advance(500)
        program.gate = asyncio.Event()
        await token(credentials)
        await settle()
        await credentials.close()
        assert [task for task in asyncio.all_tasks() if task is not asyncio.current_task()] == []

    async def test_a_token_without_an_end_is_kept(self, credentials: Credentials, program: Program, clock: FakeClock) -> None:
        program.seconds = None
        await token(credentials)
        await clock.advance(10**6)
        assert await token(credentials) == "t1"


async def test_without_a_plugin_a_refusal_cures_nothing() -> None:
    credentials = Credentials(ClientConfig("https://hub", identity=AuthInfo(token="t")))
    assert not credentials.refused()
    await credentials.close()
