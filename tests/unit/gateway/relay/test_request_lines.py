"""Generated request lines and heads at the gateway's front, most of them nobody's: whatever they say, only what was judged arrives.

MUSTER_GATEWAY_FUZZ says how many (a few hundred unless told), MUSTER_GATEWAY_FUZZ_SEED which.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections import Counter

import pytest

from muster.apiserver.errors import ApiError
from muster.gateway.handler import UNAUTHENTICATED_PATHS
from muster.gateway.relay import ProxyPaths
from muster.gateway.request_decision import Granted
from muster.http import Request
from muster.kube.request_info import request_info
from tests.unit.gateway.authorization.hub import USER1, may_use, rule

from .conftest import StartCluster
from .handler_harness import USER_TOKEN, HandlerHarness
from .harness import PREFIX, TOKEN

COUNT = int(os.environ.get("MUSTER_GATEWAY_FUZZ", "500"))
SEED = int(os.environ.get("MUSTER_GATEWAY_FUZZ_SEED", "17"))
ANSWER_TIMEOUT = 0.25
"""Seconds for a request that is no whole one, which nobody answers."""

METHODS = ["GET"] * 40 + ["HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE", "get", "PRI", "FOO"]
ROOTS = [f"{PREFIX}/foo/proxy"] * 40 + [
    f"{PREFIX}/bar/proxy",
    f"{PREFIX}/FOO/proxy",
    f"{PREFIX}/f%6fo/proxy",
    f"{PREFIX}/foo/%70roxy",
    f"{PREFIX}/foo",
    PREFIX,
    f"{PREFIX}//foo/proxy",
    f"/{PREFIX}/foo/proxy",
    "/apis/open-cluster-management.io/clustergateways/foo/proxy",
    f"https://other{PREFIX}/foo/proxy",
    f"/healthz/..{PREFIX}",
    f"/readyz/%2e%2e{PREFIX}/foo/proxy",
    f"/livez{PREFIX}",
    "/api/..",
    "*",
    "",
]
INNER = [
    "/api/v1/pods",
    "/api/v1/namespaces/a/pods",
    "/api/v1/namespaces/a/pods/p",
    "/api/v1/watch/pods",
    "/api",
    "/version",
    "/api/v1/secrets",
    "/",
]
PIECES = [
    *("/", "//", "..", ".", "%2e", "%2E%2e", "%2F", "%252f", "%5c", "\\", "%00", "%", "%zz", "%c0%ae", "\x80", "\xff", ";", "#"),
    *("a", "pods", "secrets", "proxy", "exec", "log", "status", "namespaces", "watch", "~", ":", "@", "*", "'", " ", "\t", "\x7f"),
]
QUERIES = [
    *("", "", "", "", "watch=true", "watch=1&watch=0", "fieldSelector=metadata.name%3Dp", "%zz", "a=b;watch=true", "limit=1"),
    *("resourceVersion=1", "timeoutSeconds=1", "continue=x", "?watch=true", "command=id&stdin=true", "follow=true", "\xff"),
]
FIELDS = [
    *("Accept: */*", "X-Remote-User: root", "Impersonate-User: root", "Impersonate-Group: system:masters", "Cookie: a=b"),
    *("Connection: Upgrade", "Upgrade: websocket", "Upgrade: SPDY/3.1", "Upgrade: h2c", "Connection: Authorization, Via"),
    *("Content-Length: 0", "Content-Length: 3", "Transfer-Encoding: chunked", "Transfer-Encoding : chunked", "TE: trailers"),
    *("Host: other", "Expect: 100-continue", "X-HTTP-Method-Override: DELETE", "X-Original-URL: /api/v1/secrets"),
    *("Authorization: Bearer other", "Sec-WebSocket-Protocol: base64url.bearer.authorization.k8s.io.eA, v5.channel.k8s.io"),
    *("X: a\x00b", "X : y", ": y", "X", "\tfolded", "X: \xff", "Audit-Id: \x01", "Via: 1.1 x", "HTTP2-Settings: AAMA"),
]
REMOVED = (
    "x-remote-",
    "impersonate-",
    "cookie",
    "x-http-method",
    "x-original",
    "http2-settings",
    "expect",
)
ENDINGS = ["HTTP/1.1"] * 60 + ["HTTP/1.0", "HTTP/2.0", "HTTP/1.1 ", "http/1.1", ""]


class Generator:
    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def target(self) -> str:
        draw = self._random
        inner = draw.choice(INNER)
        for _ in range(draw.choice((0, 0, 0, 0, 0, 1, 1, 2, 4))):
            place = draw.randint(0, len(inner))
            inner = inner[:place] + draw.choice(PIECES) + inner[place:]
        query = draw.choice(QUERIES)
        return f"{draw.choice(ROOTS)}{inner}" + (f"?{query}" if query else "")

    def shot(self) -> bytes:
        draw = self._random
        fields = [
            "Host: gateway",
            *([USER_TOKEN] if draw.random() < 0.8 else []),
            *draw.choices(FIELDS, k=draw.choice((0, 0, 0, 1, 1, 2, 4))),
        ]
        line = f"{draw.choice(METHODS)} {self.target()} {draw.choice(ENDINGS)}"
        data = "\r\n".join([line, *fields, "", ""]).encode("latin-1")
        if draw.random() < 0.1:
            place = draw.randrange(len(data))
            data = (
                data[:place] + draw.choice((b"", b"\r", b"\n", b"\r\n", b" ", b"\0", b"\x80")) + data[place + draw.randint(0, 2) :]
            )
        return data + draw.choice((*[b""] * 12, b"abc", b"0\r\n\r\n", b"GET /api HTTP/1.1\r\n\r\n"))


async def status_of(harness: HandlerHarness, shot: bytes) -> int:
    """0 where there is no answer."""
    peer = await harness.peer()
    try:
        peer.send(shot)
        async with asyncio.timeout(ANSWER_TIMEOUT):
            return (await peer.head())[0]
    except (TimeoutError, ConnectionError, asyncio.IncompleteReadError):
        return 0
    finally:
        peer.close()


def stray(arrived: Request) -> list[str]:
    """What of a request that arrived is not the gateway's to send."""
    names = [name for name, _ in arrived.headers.items()]
    strays = [name for name in names if name.replace("_", "-").startswith(REMOVED)]
    if arrived.headers.getall("authorization") != [f"Bearer {TOKEN}"] or names.count("host") != 1 or names.count("via") != 1:
        strays.append("authorization, host or via")
    return strays


@pytest.mark.timeout(120 + COUNT // 20)
async def test_whatever_a_head_says_only_what_was_judged_arrives(start_cluster: StartCluster) -> None:
    foo, bar = await start_cluster("foo"), await start_cluster("bar")
    harness = HandlerHarness(may_use("foo", "get"), rule("foo/get foo/list", "pods"))
    await harness.start(foo, bar)
    generator, statuses, odd = Generator(SEED), Counter[int](), []
    for _ in range(COUNT):
        seen, shot = len(harness.request_authorizer.decisions), generator.shot()
        status = await status_of(harness, shot)
        statuses[status] += 1
        if status >= 500 and status not in (501, 505):
            odd.append((status, shot))
        for who, cluster, _inner, decision in harness.request_authorizer.decisions[seen:]:
            if isinstance(decision, Granted) and (who, cluster) != (USER1, "foo"):
                odd.append((status, shot))
        if status == 200 and USER_TOKEN.encode() not in shot and not any(page.encode() in shot for page in UNAUTHENTICATED_PATHS):
            odd.append((status, shot))
    await harness.stop()
    assert odd == [], f"seed {SEED}"
    assert harness.failures == []
    assert bar.received == []
    granted = iter([inner for _, _, inner, decision in harness.request_authorizer.decisions if isinstance(decision, Granted)])
    for arrived in foo.received:
        read = request_info(arrived.method, arrived.raw_path, arrived.query)
        assert read in granted, (SEED, arrived.target)
        assert not stray(arrived), (SEED, arrived.target)
        assert (read.resource == "pods" and read.verb in ("get", "list")) or not read.is_resource, (SEED, arrived.target)
    # Of everything there was some.
    assert len(foo.received) > COUNT / 20
    assert {200, 400, 401, 403} <= statuses.keys()


async def test_nobody_reaches_objects_by_the_pages_that_are_open(start_cluster: StartCluster) -> None:
    harness = HandlerHarness()
    await harness.start(await start_cluster("foo"))
    draw = random.Random(SEED)
    for _ in range(min(COUNT, 300)):
        steps = "".join(draw.choices(["/..", "/%2e%2e", "/.", "//", "%2f..", ";/..", "/", "?", "%00", "x"], k=draw.randint(0, 4)))
        peer = await harness.peer()
        peer.send(
            f"GET {draw.choice(UNAUTHENTICATED_PATHS)}{steps}{PREFIX}/foo HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode()
        )
        assert b'"ClusterGateway' not in await peer.rest(), steps
        peer.close()
    assert harness.failures == []
    await harness.stop()


def test_a_path_that_is_split_has_one_reading() -> None:
    """The cluster and what goes there, put together, are the very path that came; and another reader finds no other in it."""
    paths, generator, split = ProxyPaths(), Generator(SEED), 0
    for _ in range(20 * COUNT):
        raw, _, _ = generator.target().partition("?")
        try:
            found = paths.split(raw)
        except ApiError:
            continue
        if found is None:
            continue
        split += 1
        assert raw.endswith((f"/clustergateways/{found.cluster}/proxy{found.path}", f"/clustergateways/{found.cluster}/proxy"))
        assert paths.covers(raw)
        assert found.cluster in ("foo", "bar")
        assert found.path.isascii()
        assert not {"", ".", ".."} & set(found.path[1:].split("/")[:-1])
        assert found.path.rpartition("/")[2] not in (".", "..")
    assert split > COUNT
