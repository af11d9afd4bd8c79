"""Who calls a server behind the aggregator: what each credential proves, and everything that proves nothing."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator, Iterable
from datetime import timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from muster.fleet.in_process import InProcessClient
from muster.http import Headers, HttpServer, Request, Response, server_context
from muster.http.message import Connection
from muster.http.tls import load_chain
from muster.kube.certificates import CLIENT_AUTH, SERVER_AUTH, CertificateAuthority
from muster.kube.client_certificates import CREDENTIAL_ID
from muster.machinery.authentication import ANONYMOUS, AUTHENTICATED, MASTERS, UserInfo
from muster.machinery.clock import SYSTEM, Clock
from muster.runtime.auth import CallerAuthentication, Unauthenticated
from muster.runtime.cache import Informers
from muster.runtime.client import KubeError, Unreachable
from muster.runtime.client.builtin import CONFIG_MAPS
from tests.support.fake_clock import FakeClock
from tests.unit.runtime.conftest import eventually

NAMESPACE, NAME = "kube-system", "extension-apiserver-authentication"
DAY = timedelta(days=1)


class Tokens:
    """Knows one token."""

    def __init__(self) -> None:
        self.failing = False

    async def authenticate(self, token: str) -> UserInfo | None:
        if self.failing:
            raise Unreachable("https://hub", "connection refused")
        return UserInfo("robot", groups=("robots",)) if token == "good" else None


class Hub:
    """What the hub says of callers, in the words of its ConfigMap."""

    def __init__(self, client: InProcessClient, clock: Clock) -> None:
        self.client = client
        self.clock = clock
        self.clients, self.proxies = self.authority("client-ca"), self.authority("front-proxy-ca")
        self.tokens = Tokens()
        self.informers = Informers(client)
        self.callers = CallerAuthentication(self.informers, tokens=self.tokens, clock=clock)

    def authority(self, name: str) -> CertificateAuthority:
        return CertificateAuthority.create(name, self.clock.now(), 10 * DAY)

    async def announce(self, **changes: str | None) -> None:
        """Returns when it is heeded."""
        data: dict[str, str | None] = {
            "client-ca-file": self.clients.pem.decode(),
            "requestheader-client-ca-file": self.proxies.pem.decode(),
            "requestheader-allowed-names": '["aggregator"]',
            "requestheader-username-headers": '["X-Remote-User"]',
            "requestheader-uid-headers": '["X-Remote-Uid"]',
            "requestheader-group-headers": '["X-Remote-Group"]',
            "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
        }
        data |= {key.replace("_", "-"): value for key, value in changes.items()}
        found = await self.client.get(CONFIG_MAPS, NAME, NAMESPACE)
        found["data"] = {key: value for key, value in data.items() if value is not None}
        version = (await self.client.update(CONFIG_MAPS, found))["metadata"]["resourceVersion"]
        informer = self.informers.of(CONFIG_MAPS, NAMESPACE, field_selector=f"metadata.name={NAME}")
        await eventually(lambda: informer.resource_version == version or None)

    async def who(self, connection: Connection, *headers: tuple[str, str], upgrade: bool = False) -> UserInfo:
        fields = [(name.encode(), value.encode()) for name, value in headers]
        return await self.callers.authenticate(Request("GET", "/", Headers(fields), connection, received=0.0, upgrade=upgrade))


@pytest.fixture
async def hub(client: InProcessClient, clock: FakeClock) -> AsyncIterator[Hub]:
    hub = Hub(client, clock)
    following = asyncio.create_task(hub.informers.run())
    await hub.informers.synced()
    await hub.announce()
    yield hub
    following.cancel()


def connection(
    authority: CertificateAuthority | None = None,
    name: str = "",
    *,
    organizations: Iterable[str] = (),
    usage: x509.ObjectIdentifier = CLIENT_AUTH,
    lifetime: timedelta = DAY,
    now: FakeClock | None = None,
) -> Connection:
    """One on which TLS has verified a certificate of the authority, if there is one."""
    made = Connection(("127.0.0.1", 1), "https")
    if authority is not None:
        at = (now or FakeClock()).now()
        pair = authority.issue(name, at, lifetime, organizations=organizations, usages=(usage,))
        leaf = x509.load_pem_x509_certificate(pair.certificate).public_bytes(Encoding.DER)
        made.peer_certificate = leaf
        made.peer_chain = (leaf, authority.certificate.public_bytes(Encoding.DER))
    return made


ALICE = ("X-Remote-User", "alice")


async def test_a_front_proxy_speaks_for_others(hub: Hub) -> None:
    user = await hub.who(
        connection(hub.proxies, "aggregator"),
        ALICE,
        ("X-Remote-Uid", "7"),
        ("X-Remote-Group", "friends"),
        ("x-remote-group", "grupa ł"),
        ("X-Remote-Extra-Example.org%2fScope", "s1"),
        ("X-Remote-Extra-example.org%2Fscope", "s2"),
        ("X-Remote-Extra-Bad%zz", "x"),
    )
    extra = {"example.org/scope": ("s1", "s2"), "bad%zz": ("x",)}
    assert user == UserInfo("alice", "7", ("friends", "grupa ł", AUTHENTICATED), extra)


async def test_one_connection_of_a_front_proxy_carries_many_users(hub: Hub) -> None:
    shared = connection(hub.proxies, "aggregator")
    assert [(await hub.who(shared, ("X-Remote-User", name))).name for name in ("a", "b", "a")] == ["a", "b", "a"]


async def test_an_anonymous_user_stays_anonymous_behind_a_front_proxy(hub: Hub) -> None:
    user = await hub.who(connection(hub.proxies, "aggregator"), ("X-Remote-User", ANONYMOUS.name))
    assert user.groups == ()


async def test_without_a_certificate_headers_say_nothing(hub: Hub) -> None:
    assert await hub.who(connection(), ALICE, ("X-Remote-Group", MASTERS)) == ANONYMOUS


async def test_a_user_with_a_certificate_cannot_speak_for_others(hub: Hub) -> None:
    user = await hub.who(connection(hub.clients, "mallory", organizations=("devs",)), ALICE, ("X-Remote-Group", MASTERS))
    assert (user.name, user.groups) == ("mallory", ("devs", AUTHENTICATED))
    assert user.extra[CREDENTIAL_ID][0].startswith("X509SHA256=")


async def test_not_even_under_the_front_proxys_name(hub: Hub) -> None:
    assert (await hub.who(connection(hub.clients, "aggregator"), ALICE)).name == "aggregator"


@pytest.mark.parametrize(
    "attack", ["another name", "no user", "two users", "two uids", "server's usage", "namesake", "user's without a name"]
)
async def test_certificates_that_prove_nothing_are_refused(hub: Hub, attack: str) -> None:
    proxy = connection(hub.proxies, "aggregator")
    attempts = {
        "another name": (connection(hub.proxies, "mallory"), [ALICE]),
        "no user": (proxy, [("X-Remote-Group", MASTERS)]),
        "two users": (proxy, [ALICE, ("x-remote-user", "bob")]),
        "two uids": (proxy, [ALICE, ("X-Remote-Uid", "1"), ("X-Remote-Uid", "2")]),
        "server's usage": (connection(hub.proxies, "aggregator", usage=SERVER_AUTH), [ALICE]),
        "namesake": (connection(hub.authority("front-proxy-ca"), "aggregator"), [ALICE]),
        "user's without a name": (connection(hub.clients, ""), [ALICE]),
    }
    shown, headers = attempts[attack]
    with pytest.raises(Unauthenticated):
        await hub.who(shown, *headers)


async def test_a_certificate_of_users_that_only_servers_may_use_is_refused(hub: Hub) -> None:
    with pytest.raises(Unauthenticated):
        await hub.who(connection(hub.clients, "mallory", usage=SERVER_AUTH))


async def test_a_chain_is_followed_to_its_authority_and_no_further(hub: Hub) -> None:
    """A leaf of nobody's authority does not become anybody's by showing a real one behind it."""
    forged = connection(hub.authority("front-proxy-ca"), "aggregator")
    forged.peer_chain = (forged.peer_chain[0], hub.proxies.certificate.public_bytes(Encoding.DER))
    with pytest.raises(Unauthenticated):
        await hub.who(forged, ALICE)


async def test_an_intermediate_authority_vouches_for_the_front_proxy(hub: Hub) -> None:
    below = hub.authority("intermediate")
    shown = connection(below, "aggregator")
    between = x509.load_pem_x509_certificate(hub.proxies.vouch(below)).public_bytes(Encoding.DER)
    shown.peer_chain = (shown.peer_chain[0], between, hub.proxies.certificate.public_bytes(Encoding.DER))
    assert (await hub.who(shown, ALICE)).name == "alice"


async def test_an_expired_certificate_is_refused_though_its_connection_lives(hub: Hub, clock: FakeClock) -> None:
    user, proxy = connection(hub.clients, "bob"), connection(hub.proxies, "aggregator")
    assert (await hub.who(user)).name == "bob"
    assert (await hub.who(proxy, ALICE)).name == "alice"
    await clock.advance(2 * DAY.total_seconds())
    for lapsed in (user, proxy):
        with pytest.raises(Unauthenticated):
            await hub.who(lapsed, ALICE)
    foreign = connection()
    foreign.foreign_certificate = b"expired when it came"
    with pytest.raises(Unauthenticated):
        await hub.who(foreign)


async def test_an_authority_that_is_gone_takes_what_its_connections_proved(hub: Hub) -> None:
    user, proxy = connection(hub.clients, "bob"), connection(hub.proxies, "aggregator")
    assert (await hub.who(user)).name == "bob"
    assert (await hub.who(proxy, ALICE)).name == "alice"
    told: list[bytes] = []
    hub.callers.on_rotation(lambda: told.append(hub.callers.client_cas()))
    gone, hub.proxies = hub.proxies, hub.authority("next-front-proxy-ca")
    await hub.announce()
    assert told == [hub.proxies.pem + hub.clients.pem]
    with pytest.raises(Unauthenticated):
        await hub.who(proxy, ALICE)
    assert (await hub.who(user)).name == "bob", "others lose nothing"
    assert (await hub.who(connection(hub.proxies, "aggregator"), ALICE)).name == "alice"
    await hub.announce(requestheader_client_ca_file=(gone.pem + hub.proxies.pem).decode())
    assert (await hub.who(proxy, ALICE)).name == "alice", "it is trusted again"


async def test_names_are_taken_away_without_a_rotation(hub: Hub) -> None:
    proxy = connection(hub.proxies, "aggregator")
    assert (await hub.who(proxy, ALICE)).name == "alice"
    told: list[None] = []
    hub.callers.on_rotation(lambda: told.append(None))
    await hub.announce(requestheader_allowed_names='["another"]')
    with pytest.raises(Unauthenticated):
        await hub.who(proxy, ALICE)
    await hub.announce(requestheader_allowed_names="[]")
    assert (await hub.who(proxy, ALICE)).name == "alice", "no names are all names"
    assert not told


async def test_only_configured_fields_count_and_all_are_named_for_removal(hub: Hub) -> None:
    await hub.announce(
        requestheader_username_headers='["X-Secret-User", "X-Other-User"]', requestheader_extra_headers_prefix='["X-Secret-Extra-"]'
    )
    proxy = connection(hub.proxies, "aggregator")
    with pytest.raises(Unauthenticated):
        await hub.who(proxy, ALICE)
    user = await hub.who(proxy, ALICE, ("X-Other-User", "bob"), ("X-Remote-Extra-A", "no"), ("X-Secret-Extra-A", "yes"))
    assert (user.name, dict(user.extra)) == ("bob", {"a": ("yes",)})
    headers = hub.callers.headers
    assert {"x-secret-user", "x-other-user", "x-remote-group"} <= headers.names
    assert set(headers.prefixes) == {"x-remote-", "x-secret-extra-"}


@pytest.mark.parametrize("key", ["client-ca-file", "requestheader-client-ca-file", "requestheader-allowed-names"])
async def test_malformed_content_leaves_what_was_there(hub: Hub, key: str) -> None:
    before = hub.callers.client_cas()
    await hub.announce(**{key: "-----BEGIN nonsense", "requestheader-username-headers": '["X-Evil"]'})
    assert hub.callers.client_cas() == before
    assert (await hub.who(connection(hub.proxies, "aggregator"), ALICE)).name == "alice"


async def test_without_a_word_of_front_proxies_there_are_none(hub: Hub) -> None:
    await hub.announce(requestheader_client_ca_file=None, client_ca_file=None)
    assert b"BEGIN CERTIFICATE" in hub.callers.client_cas(), "TLS must ask for certificates from the start on"
    for authority in (hub.proxies, hub.clients):
        with pytest.raises(Unauthenticated):
            await hub.who(connection(authority, "aggregator"), ALICE)
    assert await hub.who(connection(), ALICE) == ANONYMOUS


async def test_a_config_map_that_is_gone_takes_all_trust_in_certificates(hub: Hub) -> None:
    proxy = connection(hub.proxies, "aggregator")
    assert (await hub.who(proxy, ALICE)).name == "alice"
    rotations: list[None] = []
    hub.callers.on_rotation(lambda: rotations.append(None))
    await hub.client.delete(CONFIG_MAPS, NAME, NAMESPACE)
    await eventually(lambda: rotations)
    with pytest.raises(Unauthenticated):
        await hub.who(proxy, ALICE)


@pytest.mark.parametrize("header", ["Bearer good", "bearer good", " Bearer good trailing"])
async def test_a_token_is_reviewed(hub: Hub, header: str) -> None:
    assert await hub.who(connection(), ("Authorization", header), ALICE) == UserInfo("robot", groups=("robots", AUTHENTICATED))


async def test_a_token_beside_a_certificate_that_proves_nothing_counts(hub: Hub) -> None:
    assert (await hub.who(connection(hub.proxies, "mallory"), ALICE, ("Authorization", "Bearer good"))).name == "robot"


async def test_an_unknown_token_is_refused_and_one_that_cannot_be_reviewed_is_not_anonymous(hub: Hub) -> None:
    with pytest.raises(Unauthenticated) as refused:
        await hub.who(connection(), ("Authorization", "Bearer hunter2"))
    assert "hunter2" not in str(refused.value)
    hub.tokens.failing = True
    with pytest.raises(KubeError):
        await hub.who(connection(), ("Authorization", "Bearer good"))


@pytest.mark.parametrize("header", ["Basic YTpi", "Bearer", "Bearer  good", ""])
async def test_what_is_no_token_is_no_credential(hub: Hub, header: str) -> None:
    assert await hub.who(connection(), ("Authorization", header)) == ANONYMOUS


def offered(token: bytes) -> str:
    return "base64url.bearer.authorization.k8s.io." + base64.urlsafe_b64encode(token).rstrip(b"=").decode()


async def test_a_websocket_has_its_token_among_the_protocols(hub: Hub) -> None:
    upgrade, protocols = ("Upgrade", "WebSocket"), ("Sec-WebSocket-Protocol", f"{offered(b'good')}, v4.channel.k8s.io")
    assert (await hub.who(connection(), upgrade, protocols, upgrade=True)).name == "robot"
    assert await hub.who(connection(), protocols) == ANONYMOUS, "only of a WebSocket"
    for value in (offered(b"bad") + ",v4", offered(b"good"), offered(b"\xff") + ",v4", f"{offered(b'good')},{offered(b'good')},v4"):
        with pytest.raises(Unauthenticated):
            await hub.who(connection(), upgrade, ("Sec-WebSocket-Protocol", value), upgrade=True)


async def test_until_the_hub_was_heard_nobody_is_ready(client: InProcessClient, clock: FakeClock) -> None:
    informers = Informers(client)
    callers = CallerAuthentication(informers, tokens=Tokens(), clock=clock)
    before = callers.ready
    following = asyncio.create_task(informers.run())
    await informers.synced()
    assert (before, callers.ready) == (False, True)
    following.cancel()


class Speaker:
    """A client on a connection of its own, by TLS."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def of(cls, port: int, authority: CertificateAuthority, name: str, usage: x509.ObjectIdentifier = CLIENT_AUTH) -> Speaker:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        pair = authority.issue(name, SYSTEM.now(), DAY, usages=(usage,))
        load_chain(context, pair.certificate, pair.key)
        return cls(*await asyncio.open_connection("127.0.0.1", port, ssl=context))

    async def name(self) -> str:
        """As whom the server knows it when it says that it is alice."""
        self._writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nX-Remote-User: alice\r\n\r\n")
        head = await self._reader.readuntil(b"\r\n\r\n")
        length = next(line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:"))
        return (await self._reader.readexactly(int(length.partition(b":")[2]))).decode()

    def close(self) -> None:
        self._writer.close()


async def test_by_real_tls_each_authority_vouches_for_its_own_and_rotation_reaches_live_connections(
    client: InProcessClient,
) -> None:
    hub = Hub(client, SYSTEM)
    following = asyncio.create_task(hub.informers.run())
    await hub.informers.synced()
    await hub.announce()
    serving = hub.authority("serving-ca").issue("server", SYSTEM.now(), DAY, usages=(SERVER_AUTH,), hosts=("127.0.0.1",))

    def tls() -> ssl.SSLContext:
        return server_context(serving.certificate, serving.key, hub.callers.client_cas())

    async def handler(request: Request) -> Response:
        try:
            return Response(200, (await hub.callers.authenticate(request)).name.encode())
        except Unauthenticated:
            return Response(401, b"nobody")

    server = HttpServer(handler, tls=tls())
    hub.callers.on_rotation(lambda: server.replace_tls(tls()))
    await server.start("127.0.0.1", 0)
    port = server.port
    speakers = [
        await Speaker.of(port, hub.proxies, "aggregator"),
        await Speaker.of(port, hub.proxies, "mallory"),
        await Speaker.of(port, hub.clients, "aggregator"),
    ]
    assert [await speaker.name() for speaker in speakers] == ["alice", "nobody", "aggregator"]
    with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
        await (await Speaker.of(port, hub.proxies, "aggregator", SERVER_AUTH)).name()
    hub.proxies = hub.authority("next-front-proxy-ca")
    await hub.announce()
    speakers.append(await Speaker.of(port, hub.proxies, "aggregator"))
    assert [await speaker.name() for speaker in speakers] == ["nobody", "nobody", "aggregator", "alice"]
    for speaker in speakers:
        speaker.close()
    await server.stop(grace=0.0)
    following.cancel()
