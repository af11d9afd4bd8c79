"""A gRPC server on a real socket under TLS, with one method of each kind, and channels to it."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import uvloop

from muster.http.http2.server import ServerLimits
from muster.http.tls import server_context
from muster.transport.rpc.interfaces import Call, CallHead, Methods, ServerStream, Streaming, Unary
from muster.transport.rpc.server import RpcServer
from muster.transport.rpc.status import Code, RpcError
from tests.unit.http.pki import Authority

ECHO = "/test.Service/Echo"
COUNT = "/test.Service/Count"
HANG = "/test.Service/Hang"
WAIT = 10.0
TOKEN = "a-good-token"


def pytest_asyncio_loop_factories(config: pytest.Config, item: pytest.Item) -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.fixture(scope="session")
def server_ca() -> Authority:
    return Authority("server-ca")


@pytest.fixture(scope="session")
def client_ca() -> Authority:
    return Authority("client-ca")


class Site:
    """A server, what its methods saw, and what is still running in it."""

    def __init__(self, server_ca: Authority, client_ca: Authority) -> None:
        self.server_ca = server_ca
        self.client_ca = client_ca
        self.heads: list[CallHead] = []
        self.calls: list[tuple[Call, bytes]] = []
        self.hanging = 0
        self.cancelled = 0
        self.streams: list[ServerStream] = []
        self.asked = asyncio.Event()
        """Somebody asks to be authenticated."""
        self.knowing = asyncio.Event()
        """While it is clear, nobody is told who anybody is."""
        self.knowing.set()
        self.server: RpcServer
        self.observed: list[tuple[str, ...]] = []

    @property
    def methods(self) -> Methods:
        return {ECHO: Unary(self._echo), COUNT: Streaming(self._count), HANG: Streaming(self._hang)}

    def tls(self, **more: Any) -> ssl.SSLContext:
        certificate, key, _ = self.server_ca.issue("server", client=False)
        return server_context(certificate, key, self.client_ca.pem, alpn="h2", **more)

    async def authenticate(self, head: CallHead) -> str:
        self.heads.append(head)
        self.asked.set()
        if not self.knowing.is_set():
            await self.knowing.wait()
        if head.connection.peer_certificate is not None:
            return "certificate"
        if head.metadata.get("authorization") == f"Bearer {TOKEN}":
            return "token"
        raise RpcError(Code.UNAUTHENTICATED, "no credential that is known: give a token or a certificate")

    async def _echo(self, call: Call, message: bytes) -> bytes:
        self.calls.append((call, message))
        if message.startswith(b"fail "):
            raise RpcError(Code.FAILED_PRECONDITION, message[5:].decode())
        if message == b"break":
            raise ZeroDivisionError
        if message == b"wait":
            await self._forever()
        return message

    async def _count(self, call: Call, message: bytes, stream: ServerStream) -> None:
        self.calls.append((call, message))
        stream.start({"subscription-id": "s-1"})
        for number in range(int(message)):
            stream.send(b"%d" % number)
            if stream.unsent > 1 << 16:
                await stream.writable()

    async def _hang(self, call: Call, message: bytes, stream: ServerStream) -> None:
        self.calls.append((call, message))
        self.streams.append(stream)
        stream.start({"subscription-id": "s-2"})
        await self._forever()

    def is_quiet(self) -> bool:
        return not self.hanging

    async def _forever(self) -> None:
        self.hanging += 1
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.hanging -= 1

    # An observer

    def started(self, method: str) -> None:
        self.observed.append(("started", method))

    def received(self, method: str, size: int) -> None:
        self.observed.append(("received", method, str(size)))

    def sent(self, method: str, size: int) -> None:
        self.observed.append(("sent", method, str(size)))

    def handled(self, method: str, code: Code, seconds: float) -> None:
        self.observed.append(("handled", method, code.name))


Serve = Callable[..., Awaitable[Site]]


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(WAIT):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


@pytest.fixture
async def serve(server_ca: Authority, client_ca: Authority) -> AsyncIterator[Serve]:
    sites: list[Site] = []

    async def start(limits: dict[str, Any] | None = None, *, tls: bool = True, **options: Any) -> Site:
        site = Site(server_ca, client_ca)
        site.server = RpcServer(
            site.methods,
            site.authenticate,
            tls=site.tls() if tls else None,
            limits=ServerLimits(**(limits or {})),
            observer=site,
            **options,
        )
        await site.server.start("127.0.0.1", 0)
        sites.append(site)
        return site

    yield start
    for site in sites:
        await site.server.stop(0.0)
        assert site.server.connections == 0
        assert not site.server.calls
        await until(site.is_quiet)
