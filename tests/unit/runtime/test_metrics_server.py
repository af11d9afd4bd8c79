"""Metrics on an address of their own, open or for those whom the cluster lets see them."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from muster.machinery.authentication import UserInfo
from muster.machinery.authorization import AccessAttributes, AccessDecision
from muster.machinery.metrics import Metrics
from muster.runtime.client import Unreachable
from muster.runtime.process import MetricsServer, SecureServing
from muster.runtime.webhook import make_pair


class Cluster:
    """Knows two tokens, one of which may see metrics."""

    away = False

    async def authenticate(self, token: str) -> UserInfo | None:
        if self.away:
            raise Unreachable("https://cluster", "away")
        return UserInfo(token) if token in ("reader", "stranger") else None

    async def authorize(self, who: UserInfo, asked: AccessAttributes) -> AccessDecision:
        return AccessDecision(who.name == "reader" and asked.verb == "get" and asked.path == "/metrics")


@asynccontextmanager
async def running(secured: SecureServing | None = None) -> AsyncIterator[MetricsServer]:
    metrics = Metrics()
    metrics.counter("answers_total", "Answers").inc(42)
    server = MetricsServer(metrics, ("127.0.0.1", 0), secured)
    await server.start()
    task = asyncio.create_task(server.run())
    try:
        yield server
        assert not task.done()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await server.stop()


async def ask(server: MetricsServer, path: str = "/metrics", token: str = "", *, tls: bool = False, method: str = "GET") -> str:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=context if tls else None)
    authorization = f"Authorization: Bearer {token}\r\n" if token else ""
    writer.write(f"{method} {path} HTTP/1.1\r\nHost: x\r\n{authorization}Connection: close\r\n\r\n".encode())
    answer = (await asyncio.wait_for(reader.read(), 10)).decode()
    writer.close()
    return answer


def secure(directory: Path) -> SecureServing:
    pair = make_pair(["localhost"], datetime.now(UTC), timedelta(days=1))
    (directory / "tls.crt").write_bytes(pair.cert)
    (directory / "tls.key").write_bytes(pair.key)
    cluster = Cluster()
    return SecureServing(directory, cluster, cluster)


async def test_metrics_and_nothing_else_are_served() -> None:
    async with running() as server:
        assert "answers_total 42" in await ask(server)
        assert "404" in await ask(server, "/healthz")
        assert "405" in await ask(server, method="POST")


async def test_secured_metrics_are_for_those_whom_the_cluster_lets_get_them(tmp_path: Path) -> None:
    async with running(secure(tmp_path)) as server:
        assert "answers_total 42" in await ask(server, token="reader", tls=True)
        for token, code in (("", "401"), ("unknown", "401"), ("stranger", "403")):
            answer = await ask(server, token=token, tls=True)
            assert f"HTTP/1.1 {code}" in answer
            assert "answers_total" not in answer


async def test_secured_metrics_stay_shut_while_the_cluster_cannot_be_asked(tmp_path: Path) -> None:
    secured = secure(tmp_path)
    secured.authenticator.away = True  # type: ignore[attr-defined]
    async with running(secured) as server:
        answer = await ask(server, token="reader", tls=True)
        assert "HTTP/1.1 500" in answer
        assert "answers_total" not in answer
