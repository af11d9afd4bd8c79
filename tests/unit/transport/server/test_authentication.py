"""Who calls, by the credential alone."""

import asyncio
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from muster.api.agents import AgentIdentity
from muster.kube.certificates import CLIENT_AUTH, CertificateAuthority
from muster.machinery.authentication import UserInfo
from muster.runtime.auth import MAX_TOKEN
from muster.runtime.client.errors import Unreachable
from muster.transport.rpc.status import Code, RpcError
from muster.transport.server.authentication import CallerAuthentication
from tests.support.fake_clock import FakeClock, settle
from tests.unit.transport.server.fakes import FakeCall, code_of

START = datetime(2026, 1, 1, tzinfo=UTC)


class Tokens:
    """Knows one token."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.failing = False

    async def authenticate(self, token: str) -> UserInfo | None:
        self.asked.append(token)
        if self.failing:
            raise Unreachable("https://hub", "connection refused")
        return UserInfo("system:serviceaccount:hub:bootstrap", groups=("system:authenticated",)) if token == "good" else None


def call(der: bytes | None = None, authorization: str | None = None, chain: tuple[bytes, ...] = ()) -> FakeCall:
    made = FakeCall(None, metadata={} if authorization is None else {"authorization": authorization})
    made.connection.peer_certificate = der
    made.connection.peer_chain = chain
    return made


def certificate(name: str, *organizations: str, lifetime: timedelta = timedelta(hours=1)) -> bytes:
    authority = CertificateAuthority.create("ca", START, timedelta(days=1))
    pair = authority.issue(name, START, lifetime, organizations=organizations, usages=(CLIENT_AUTH,))
    return x509.load_pem_x509_certificate(pair.certificate).public_bytes(Encoding.DER)


@pytest.fixture
def tokens() -> Tokens:
    return Tokens()


@pytest.fixture
def authentication(tokens: Tokens, clock: FakeClock) -> CallerAuthentication:
    return CallerAuthentication(tokens, clock=clock)


async def test_an_agent_is_known_by_its_certificate(authentication: CallerAuthentication, tokens: Tokens) -> None:
    agent = AgentIdentity("cluster1", "agent1")
    der = certificate(agent.common_name, *agent.organizations)
    found = await authentication(call(der, "Bearer good"))
    assert (found.user.name, found.cluster, found.is_agent) == (agent.common_name, "cluster1", True)
    assert set(found.user.groups) == {*agent.organizations, "system:authenticated"}
    assert found.not_after == START + timedelta(hours=1)
    assert tokens.asked == [], "a token beside a certificate says nothing"


async def test_a_name_that_is_no_agents_has_no_cluster(authentication: CallerAuthentication) -> None:
    for name in ("admin", "system:open-cluster-management:cluster1", "system:open-cluster-management:managed-clusters:x"):
        assert (await authentication(call(certificate(name)))).cluster == ""


@pytest.mark.parametrize("authorization", ["Bearer good", "good"])
async def test_a_newcomer_is_known_by_its_token(authentication: CallerAuthentication, authorization: str) -> None:
    found = await authentication(call(authorization=authorization))
    assert (found.user.name, found.is_agent, found.not_after) == ("system:serviceaccount:hub:bootstrap", False, None)


@pytest.mark.parametrize(
    "authorization", [None, "", "Bearer ", "Bearer bad", "bearer good", "Basic good", f"Bearer {'x' * (MAX_TOKEN + 1)}"]
)
async def test_whoever_proves_nothing_is_unauthenticated(
    authentication: CallerAuthentication, tokens: Tokens, authorization: str | None
) -> None:
    with pytest.raises(RpcError) as refused:
        await authentication(call(authorization=authorization))
    assert refused.value.code is Code.UNAUTHENTICATED
    assert all(len(token) <= MAX_TOKEN for token in tokens.asked)


async def test_a_certificate_that_ends_on_a_living_connection_counts_no_more(
    authentication: CallerAuthentication, clock: FakeClock
) -> None:
    made = call(certificate("system:open-cluster-management:cluster1:agent1"))
    await authentication(made)
    await clock.advance(3600)
    with pytest.raises(RpcError) as refused:
        await authentication(made)
    assert refused.value.code is Code.UNAUTHENTICATED


async def test_a_certificate_that_tls_did_not_verify_is_nobodys(authentication: CallerAuthentication) -> None:
    made = call()
    made.connection.foreign_certificate = certificate("system:open-cluster-management:cluster1:agent1")
    with pytest.raises(RpcError) as refused:
        await authentication(made)
    assert refused.value.code is Code.UNAUTHENTICATED


async def test_a_certificate_of_an_authority_that_was_taken_away_counts_no_more(tokens: Tokens, clock: FakeClock) -> None:
    trusted = {b"root"}
    authentication = CallerAuthentication(tokens, trusts=trusted.__contains__, clock=clock)
    made = call(certificate("system:open-cluster-management:cluster1:agent1"), chain=(b"leaf", b"root"))
    await authentication(made)
    trusted.clear()
    with pytest.raises(RpcError):
        await authentication(made)


async def test_where_tokens_cannot_be_reviewed_the_caller_is_to_try_again(
    authentication: CallerAuthentication, tokens: Tokens
) -> None:
    tokens.failing = True
    with pytest.raises(RpcError) as refused:
        await authentication(call(authorization="Bearer good"))
    assert refused.value.code is Code.UNAVAILABLE
    assert "hub" not in refused.value.message.replace("the hub cannot", "")


async def test_many_tokens_of_one_address_wait_for_each_other_and_nobody_else_does(
    clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("muster.transport.server.authentication.REVIEWS_WAITING", 64)
    reviewed, gate = [], asyncio.Event()

    class SlowTokens:
        async def authenticate(self, token: str) -> UserInfo | None:
            reviewed.append(token)
            await gate.wait()
            return None

    authentication = CallerAuthentication(SlowTokens(), clock=clock)
    flood = [asyncio.create_task(code_of(authentication(call(authorization=f"flood{number}")))) for number in range(200)]
    await settle()
    other = call(authorization="other")
    other.connection.remote = ("192.0.2.2", 1)
    asked = asyncio.create_task(code_of(authentication(other)))
    await settle()
    assert reviewed == ["flood0", "flood1", "flood2", "flood3", "other"]
    gate.set()
    assert await asked == "UNAUTHENTICATED"
    assert Counter(await asyncio.gather(*flood)) == {"UNAUTHENTICATED": 68, "RESOURCE_EXHAUSTED": 132}
