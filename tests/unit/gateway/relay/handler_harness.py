"""A complete handler of the gateway: callers with tokens, a hub with RBAC rules, and clusters that record their requests."""

from __future__ import annotations

from typing import cast

from muster.api.proxy.v1alpha1 import GROUP, VERSION, ClusterGateway
from muster.apiserver.virtual import Answer, VirtualApi, VirtualSubresource
from muster.gateway import refusals
from muster.gateway.authorization import GatewayAuthorizer, HubAccess
from muster.gateway.handler import GatewayHandler
from muster.gateway.metrics import GatewayMetrics
from muster.gateway.names import PROXY
from muster.gateway.relay import ClusterRelay
from muster.gateway.request_decision import RequestDecision
from muster.gateway.server import MAX_HEADERS
from muster.gateway.stream_access import StreamAccessReviewer
from muster.http import HttpServer, Request, Response
from muster.kube.rbac import Rule
from muster.kube.request_info import RequestInfo
from muster.machinery.authentication import ANONYMOUS, UserInfo
from muster.machinery.authorization import NO_OPINION, AccessAttributes, AccessDecision
from muster.machinery.metrics import Metrics
from muster.runtime.auth import CallerAuthentication, Unauthenticated
from tests.unit.gateway.authorization.hub import USER1, RecordingHub
from tests.unit.http.wire import Peer

from .harness import Cluster, Counted, Known

USER_TOKEN = "Authorization: Bearer of-user1"
SERVED = ((GROUP, VERSION),)


class Callers:
    """A `CallerAuthentication` for tests."""

    ready = True

    async def authenticate(self, request: Request) -> UserInfo:
        given = request.headers.get("authorization")
        if given is None:
            return ANONYMOUS
        if f"Authorization: {given}" != USER_TOKEN:
            raise Unauthenticated("not known")
        return USER1


class Hub(RecordingHub):
    """Only user1 has permissions."""

    async def authorize(self, who: UserInfo, asked: AccessAttributes) -> AccessDecision:
        decision = await super().authorize(who, asked)
        return decision if who == USER1 else NO_OPINION


class RecordingAuthorizer(GatewayAuthorizer):
    """Records its decisions."""

    def __init__(self, access: HubAccess) -> None:
        super().__init__(access)
        self.decisions: list[tuple[UserInfo, str, RequestInfo, RequestDecision]] = []

    async def authorize(self, who: UserInfo, cluster: str, inner: RequestInfo, request: Request) -> RequestDecision:
        decision = await super().authorize(who, cluster, inner, request)
        self.decisions.append((who, cluster, inner, decision))
        return decision


class HandlerHarness:
    def __init__(self, *rules: Rule) -> None:
        self.hub = Hub(*rules)
        self.known = Known()
        self.callers = Callers()
        self.failures: list[Exception] = []
        access = HubAccess(self.hub)
        self.request_authorizer = RecordingAuthorizer(access)
        self.traffic = Counted()
        self.relay = ClusterRelay(self.known, self.known, traffic=self.traffic)
        self.stream_access = StreamAccessReviewer(self.relay.open_streams)
        verbs = ("get", "create", "update", "patch", "delete")
        proxy = VirtualSubresource(_not_here, verbs, "ClusterGatewayProxyOptions", takes_path=True)
        self.api = VirtualApi(ClusterGateway, served=SERVED, subresources={PROXY: proxy})
        self.handler = GatewayHandler(
            self.api,
            SERVED,
            authentication=cast(CallerAuthentication, self.callers),
            authorizer=self.hub,
            access=access,
            request_authorizer=self.request_authorizer,
            targets=self.known,
            relay=self.relay,
            metrics=GatewayMetrics(Metrics(), lambda name: name in self.known.targets),
        )
        # Without TLS, which would be most of the work.
        self.server = HttpServer(
            self.handler.handle,
            max_headers=MAX_HEADERS,
            stream_body=self.handler.streams,
            reads_bodies=True,
            on_error=self._failed,
        )

    def _failed(self, request: Request | None, error: Exception) -> Response:
        self.failures.append(error)
        return Response(500, repr(error).encode())

    async def start(self, *clusters: Cluster) -> None:
        await self.api.start()
        for cluster in clusters:
            self.known.targets[cluster.name] = cluster.target()
            self.api.put({**_TYPED, "metadata": {"name": cluster.name}, "spec": {}})
        await self.server.start("127.0.0.1", 0)

    async def stop(self) -> None:
        self.relay.close()
        await self.server.stop(0.1)
        await self.api.stop()

    async def peer(self) -> Peer:
        return await Peer.connect(self.server.port)


_TYPED = {"apiVersion": f"{GROUP}/{VERSION}", "kind": ClusterGateway.resource.kind}


async def _not_here(request: Request, who: UserInfo, name: str) -> Answer:
    """As in the gateway: every plain path to a cluster is handled before."""
    raise refusals.bad_path("write everything plainly", name)
