"""A gateway's relay between raw clients and clusters that record their requests."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any

from muster.apiserver.errors import ApiError
from muster.gateway import refusals
from muster.gateway.relay import ClusterRelay, ProxyPaths, audit_id
from muster.gateway.request_decision import Granted
from muster.gateway.target import BearerToken, ClientCertificate, Endpoint, Problem, Target, Trust
from muster.http import Answer, HttpServer, Request, Response, StreamResponse, StreamWriter, server_context
from muster.http.message import Headers
from muster.kube.request_info import RequestInfo
from tests.support.eventually import eventually
from tests.unit.http.pki import Authority, client_context
from tests.unit.http.wire import Peer, Reply, request

PREFIX = "/apis/proxy.open-cluster-management.io/v1alpha1/clustergateways"
TOKEN = "the-token-of-the-gateway"
ACCOUNT = "system:serviceaccount:open-cluster-management-agent-addon:cluster-gateway"

Behaviour = Callable[[Request], Awaitable[Answer]]


async def ok(incoming: Request) -> Answer:
    if incoming.body_stream is not None:
        await incoming.read_body()
    return Response(200, b"ok", [("Audit-Id", incoming.headers.get("audit-id") or "")])


class Cluster:
    """An API server that keeps every request it gets; `behaviour` answers."""

    def __init__(self, name: str, behaviour: Behaviour, authority: Authority, client_ca: Authority) -> None:
        self.name = name
        self.behaviour = behaviour
        self.authority = authority
        self.received: list[Request] = []
        certificate, key, _ = authority.issue("server", client=False)
        context = server_context(certificate, key, client_ca.pem)
        self.server = HttpServer(self._handle, tls=context, stream_body=lambda incoming: True, on_error=_quiet)

    async def _handle(self, incoming: Request) -> Answer:
        self.received.append(incoming)
        return await self.behaviour(incoming)

    @property
    def targets(self) -> list[str]:
        return [incoming.target for incoming in self.received]

    @property
    def last(self) -> Headers:
        return self.received[-1].headers

    def target(self, **changes: Any) -> Target:
        known = Target(
            self.name,
            (Endpoint("127.0.0.1", self.server.port),),
            Trust(self.authority.pem),
            BearerToken(TOKEN),
            account=ACCOUNT,
        )
        return replace(known, **changes)


def _quiet(incoming: Request | None, error: Exception) -> Response:
    return Response(500, repr(error).encode())


@dataclass
class Known:
    """`Targets` and `Observer` of tests."""

    targets: dict[str, Target] = field(default_factory=dict)
    on_hub: dict[str, Target] = field(default_factory=dict)
    """What asking the hub finds, where that is something else."""
    refreshes: int = 0
    answered_by: list[str] = field(default_factory=list)
    failures: list[tuple[str, Problem]] = field(default_factory=list)

    def find(self, cluster: str) -> Target | None:
        return self.targets.get(cluster)

    async def refreshed(self, cluster: str) -> Target | None:
        self.refreshes += 1
        return self.on_hub.get(cluster) or self.find(cluster)

    def answered(self, target: Target) -> None:
        self.answered_by.append(target.cluster)

    def failed(self, target: Target, problem: Problem) -> None:
        self.failures.append((target.cluster, problem))


@dataclass
class Counted:
    """`Traffic` of tests."""

    in_flight: dict[tuple[str, str], int] = field(default_factory=dict)
    began_in_all: int = 0
    bytes_sent: int = 0
    bytes_received: int = 0

    def began(self, cluster: str, kind: str) -> None:
        self.began_in_all += 1
        self.in_flight[cluster, kind] = self.in_flight.get((cluster, kind), 0) + 1

    def ended(self, cluster: str, kind: str) -> None:
        self.in_flight[cluster, kind] -= 1

    def sent(self, cluster: str, size: int) -> None:
        self.bytes_sent += size

    def received(self, cluster: str, size: int) -> None:
        self.bytes_received += size

    @property
    def now(self) -> int:
        return sum(self.in_flight.values())


def inner_request(method: str, path: str, query: str) -> RequestInfo:
    """As much of RequestInfo as the relay looks at."""
    parts = tuple(part for part in path.split("/") if part)
    verb = "watch" if "watch=true" in query or parts[2:3] == ("watch",) else method.lower()
    subresource = parts[-1] if parts[-1:] and parts[-1] in ("log", "exec", "attach", "portforward") else ""
    if len(parts) > 6 and parts[6] == "proxy":
        subresource = "proxy"
    return RequestInfo(parts[:1] in (("api",), ("apis",)), path, verb, subresource=subresource)


class Gateway:
    """The server that clients ask: a front without authentication, which grants everything."""

    def __init__(self, authority: Authority, **options: Any) -> None:
        self.known = Known()
        self.traffic = Counted()
        self.relay = ClusterRelay(self.known, self.known, traffic=self.traffic, **options)
        self.granted = Granted("all")
        self.user = "user1"
        self.without_access: set[str] = set()
        self.trouble: Exception | None = None
        """Of asking whether somebody still may."""
        self.asked_again = 0
        self._paths = ProxyPaths()
        self._trust = client_context(authority)
        certificate, key, _ = authority.issue("gateway", client=False)
        context: ssl.SSLContext = server_context(certificate, key)
        self.server = HttpServer(
            self._handle, tls=context, stream_body=lambda incoming: self._paths.covers(incoming.raw_path), on_error=_quiet
        )
        self._peers: list[Peer] = []

    async def _handle(self, incoming: Request) -> Answer:
        try:
            found = self._paths.split(incoming.raw_path)
            if found is None:
                return Response(404, b"not the relay's")
            target = self.known.find(found.cluster)
            if target is None:
                raise refusals.unknown_cluster(found.cluster)
        except ApiError as error:
            return refusals.answer(error)
        return await self.relay.send(
            incoming,
            target,
            found.path,
            incoming.query,
            self.granted,
            inner=inner_request(incoming.method, found.path, incoming.query),
            user=self.user,
            audit_id=audit_id(incoming.headers),
            still_allowed=self.still_allowed,
        )

    async def still_allowed(self) -> bool:
        self.asked_again += 1
        if self.trouble is not None:
            raise self.trouble
        return self.user not in self.without_access

    def knows(self, *targets: Target) -> None:
        self.known.targets |= {target.cluster: target for target in targets}

    async def peer(self) -> Peer:
        peer = await Peer.connect(self.server.port, self._trust)
        self._peers.append(peer)
        return peer

    async def get(self, cluster: str, path: str, *fields: str) -> Reply:
        return await self.ask("GET", f"{PREFIX}/{cluster}/proxy{path}", *fields)

    async def ask(self, method: str, target: str, *fields: str, body: bytes = b"") -> Reply:
        peer = await self.peer()
        try:
            peer.send(request(method, target, *fields, body=body))
            return await peer.reply(bodiless=method == "HEAD")
        finally:
            peer.close()

    async def emptied(self) -> None:
        """Wait until nothing is under way."""

        async def is_empty() -> bool:
            return not self.traffic.now

        await eventually(is_empty, "requests to end", timeout=10, poll=0.01)

    async def end(self) -> None:
        for peer in self._peers:
            peer.close()
        self.relay.close()
        await self.server.stop(0.2)


def certificate_of(authority: Authority, name: str) -> ClientCertificate:
    certificate, key, _ = authority.issue(name, client=True)
    return ClientCertificate(certificate, key)


def streaming(*pieces: bytes, then: Callable[[StreamWriter], Awaitable[None]] | None = None) -> StreamResponse:
    async def run(writer: StreamWriter) -> None:
        for piece in pieces:
            writer.write(piece)
        if then is not None:
            await then(writer)

    return StreamResponse(200, [("Content-Type", "application/json")], run)


async def arrived(cluster: Cluster, count: int) -> None:
    async with asyncio.timeout(5):
        while len(cluster.received) < count:  # noqa: ASYNC110 - servers have no event for what only tests wait for
            await asyncio.sleep(0.001)
