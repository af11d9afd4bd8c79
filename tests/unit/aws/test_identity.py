"""Who a program is, by its surroundings; and sessions that end are renewed before they do, one at a time."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from muster.aws.client import Threads
from muster.aws.errors import AccessDenied, NoIdentity, Unavailable
from muster.aws.identity import RenewedCredentials, assumed_role, connect, own_identity
from muster.aws.interfaces import AwsCredentials
from muster.aws.process_env import ProcessEnv, found
from muster.machinery.confinement import Confinement, Outside, confined
from tests.support.fake_clock import FakeClock

ROLE = "arn:aws:iam::222222222222:role/ocm-managed-cluster-1"


class Service:
    """Gives sessions of an hour, or what a test wants."""

    def __init__(self, clock: FakeClock, seconds: float = 3600) -> None:
        self.clock = clock
        self.seconds = seconds
        self.tokens: list[str] = []
        self.roles: list[str] = []
        self.fault: Exception | None = None
        self.gate: asyncio.Event | None = None

    @property
    def given(self) -> int:
        return len(self.roles)

    async def assume_role(self, role_arn: str, session: str, seconds: int = 3600) -> AwsCredentials:
        self.roles.append(role_arn)
        count = self.given
        if self.gate is not None:
            await self.gate.wait()
        if self.fault is not None:
            raise self.fault
        return AwsCredentials(f"ASIA{count}", "hush", "token", self.clock.now() + timedelta(seconds=self.seconds))

    async def assume_role_with_web_identity(self, role_arn: str, session: str, token: str, seconds: int = 3600) -> AwsCredentials:
        self.tokens.append(token)
        return await self.assume_role(role_arn, session, seconds)

    async def caller_identity(self):
        raise AssertionError("nobody asks")


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def service(clock: FakeClock) -> Service:
    return Service(clock)


@pytest.fixture
def threads():
    threads = Threads(1)
    yield threads
    threads.close()


def role_of(service: Service, clock: FakeClock):
    return assumed_role(service, ROLE, "s", clock=clock, random=lambda: 0.0)


async def test_keys_in_variables_come_first(threads: Threads) -> None:
    environ = {"AWS_ACCESS_KEY_ID": "AKID", "AWS_SECRET_ACCESS_KEY": "hush", "AWS_SESSION_TOKEN": "t", "AWS_ROLE_ARN": ROLE}
    source = own_identity(ProcessEnv(environ), "us-west-2", threads)
    assert await source.credentials() == AwsCredentials("AKID", "hush", "t")


async def test_a_pods_token_is_read_anew_for_each_session(
    clock: FakeClock, service: Service, threads: Threads, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    file.write_text("first\n")
    environ = {"AWS_ROLE_ARN": ROLE, "AWS_WEB_IDENTITY_TOKEN_FILE": str(file)}
    source = own_identity(ProcessEnv(environ), "us-west-2", threads, clock=clock, sts=service)
    assert (await source.credentials()).access_key_id == "ASIA1"
    file.write_text("second\n")
    await clock.advance(3400)
    assert (await source.credentials()).access_key_id == "ASIA2"
    assert (service.tokens, service.roles) == (["first", "second"], [ROLE, ROLE])


@pytest.mark.parametrize("content", [None, "", "\n"])
async def test_a_token_that_is_not_there_is_named(
    content: str | None, service: Service, clock: FakeClock, threads: Threads, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    if content is not None:
        file.write_text(content)
    environ = {"AWS_ROLE_ARN": ROLE, "AWS_WEB_IDENTITY_TOKEN_FILE": str(file)}
    source = own_identity(ProcessEnv(environ), "us-west-2", threads, clock=clock, sts=service)
    with pytest.raises(NoIdentity, match="AWS_WEB_IDENTITY_TOKEN_FILE"):
        await source.credentials()
    assert not service.tokens


async def test_who_has_nothing_is_told_what_could_be_there(threads: Threads) -> None:
    with pytest.raises(NoIdentity, match="AWS_ROLE_ARN"):
        await own_identity(ProcessEnv(), "us-west-2", threads).credentials()


async def test_on_a_users_machine_a_profile_counts_and_the_process_own_variables_do_not(
    threads: Threads, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "WRONG")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "WRONG")
    (tmp_path / "credentials").write_text("[work]\naws_access_key_id = AKIDWORK\naws_secret_access_key = hush\n")
    (tmp_path / "config").write_text("[profile script]\ncredential_process = /bin/cat " + str(tmp_path / "printed") + "\n")
    (tmp_path / "printed").write_text('{"Version": 1, "AccessKeyId": "AKIDSCRIPT", "SecretAccessKey": "hush"}')
    files = {
        "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "credentials"),
        "AWS_CONFIG_FILE": str(tmp_path / "config"),
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    for profile, key in (("work", "AKIDWORK"), ("script", "AKIDSCRIPT")):
        process_env = ProcessEnv({**files, "AWS_PROFILE": profile}, of_machine=True)
        assert (await own_identity(process_env, "us-west-2", threads).credentials()).access_key_id == key
        with pytest.raises(NoIdentity):
            await own_identity(ProcessEnv(process_env.environ), "us-west-2", threads).credentials()
    for profile in ("nobody", "default"):
        process_env = ProcessEnv({**files, "AWS_PROFILE": profile}, of_machine=True)
        with pytest.raises(NoIdentity):
            await own_identity(process_env, "us-west-2", threads).credentials()


async def test_a_session_is_used_until_it_is_due_and_then_replaced_once(clock: FakeClock, service: Service) -> None:
    source = role_of(service, clock)
    for _ in range(3):
        assert (await source.credentials()).access_key_id == "ASIA1"
    await clock.advance(3600 - 301)
    assert (await source.credentials()).access_key_id == "ASIA1"
    await clock.advance(1)
    assert {(await source.credentials()).access_key_id for _ in range(3)} == {"ASIA2"}
    assert service.given == 2


async def test_sessions_of_seconds_are_renewed_as_well(clock: FakeClock) -> None:
    service = Service(clock, seconds=10)
    source = role_of(service, clock)
    for _ in range(50):
        expires = (await source.credentials()).expires
        assert expires is not None
        assert expires > clock.now()
        await clock.advance(1)
    assert service.given <= 8


async def test_whoever_comes_while_it_is_renewed_goes_on_with_the_old_one(clock: FakeClock, service: Service) -> None:
    source = role_of(service, clock)
    await source.credentials()
    await clock.advance(3400)
    service.gate = asyncio.Event()
    renewing = asyncio.create_task(source.credentials())
    await asyncio.sleep(0)
    assert (await source.credentials()).access_key_id == "ASIA1"
    service.gate.set()
    assert (await renewing).access_key_id == "ASIA2"
    assert service.given == 2


async def test_many_who_wait_for_the_first_one_share_it(clock: FakeClock, service: Service) -> None:
    source = role_of(service, clock)
    found = await asyncio.gather(*(source.credentials() for _ in range(5)))
    assert {one.access_key_id for one in found} == {"ASIA1"}


async def test_one_who_gives_up_waiting_takes_nothing_from_the_others(clock: FakeClock, service: Service) -> None:
    source = role_of(service, clock)
    service.gate = asyncio.Event()
    first, second = asyncio.create_task(source.credentials()), asyncio.create_task(source.credentials())
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    service.gate.set()
    assert (await second).access_key_id == "ASIA2"


async def test_a_failing_service_is_left_alone_for_a_while_and_the_old_session_serves(clock: FakeClock, service: Service) -> None:
    source = role_of(service, clock)
    await source.credentials()
    await clock.advance(3400)
    service.fault = Unavailable("assume_role", "", "away")
    for _ in range(20):
        assert (await source.credentials()).access_key_id == "ASIA1"
    assert service.given == 2
    await clock.advance(200)
    with pytest.raises(Unavailable):
        await source.credentials()
    tried = service.given
    for _ in range(20):
        with pytest.raises(Unavailable):
            await source.credentials()
    assert service.given == tried
    service.fault = None
    await clock.advance(60)
    await source.credentials()


async def test_a_role_that_is_not_there_yet_is_asked_for_with_growing_pauses(clock: FakeClock, service: Service) -> None:
    service.fault = AccessDenied("assume_role", "AccessDenied", "not yet")
    source = role_of(service, clock)
    for _ in range(300):
        with pytest.raises(AccessDenied):
            await source.credentials()
        await clock.advance(1)
    assert service.given < 15


async def test_what_aws_refuses_is_replaced_unless_it_is_fresh(clock: FakeClock, service: Service) -> None:
    source = role_of(service, clock)
    first = await source.credentials()
    source.discard(first)
    assert await source.credentials() is first
    await clock.advance(11)
    source.discard(first)
    second = await source.credentials()
    assert second.access_key_id == "ASIA2"
    source.discard(first)
    assert await source.credentials() is second


async def test_what_does_not_end_is_kept(clock: FakeClock) -> None:
    keys = AwsCredentials("AKID", "hush")

    async def fetch() -> AwsCredentials:
        return keys

    source = RenewedCredentials(fetch, clock=clock)
    await source.credentials()
    await clock.advance(10**6)
    assert await source.credentials() is keys


def test_without_a_region_nothing_can_be_asked() -> None:
    with pytest.raises(NoIdentity, match="AWS_REGION"):
        connect(ProcessEnv())


def test_a_pods_surroundings_stay_the_pods_wherever_they_are_looked_at(tmp_path: Path) -> None:
    (tmp_path / "mounted").mkdir()
    (tmp_path / "mounted" / "token").write_text("pod's")
    (tmp_path / "token").write_text("machine's")
    environ = {"AWS_REGION": "eu-west-1", "AWS_ENDPOINT_URL": "https://a", "AWS_ENDPOINT_URL_STS": "https://b"}
    pod = Confinement(
        pod="ns/pod", ip="127.1.2.3", environ=environ, mounts={"/var/token": tmp_path / "mounted"}, scratch=tmp_path / "scratch"
    )
    with confined(pod):
        process_env = found()
    assert process_env.read(Path("/var/token/token")) == b"pod's"
    with pytest.raises(FileNotFoundError):
        process_env.read(tmp_path / "token")
    (tmp_path / "mounted" / "link").symlink_to(tmp_path / "token")
    with pytest.raises(Outside):
        process_env.read(Path("/var/token/link"))
    assert (process_env.region, process_env.endpoint("iam"), process_env.endpoint("sts")) == (
        "eu-west-1",
        "https://a",
        "https://b",
    )
    assert not process_env.of_machine
    assert found().of_machine
