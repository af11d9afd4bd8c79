"""The kubelet API for a kube-apiserver: logs; exec, attach and port-forward are refused.

Served over TLS on loopback. As with a kubelet, a caller is authenticated by a client certificate of the given CA and authorized for
`nodes/proxy` by the cluster's RBAC (a SubjectAccessReview); kube-apiserver has such a certificate when it is started with
`--kubelet-client-certificate`. The serving certificate is self-signed, which kube-apiserver accepts by default.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path
from urllib.parse import parse_qs

from cryptography import x509

from muster.apiserver.nodes import LogOptions, NoLogs, limited, send_log, terminal_unsupported
from muster.fleet.node.addresses import NODE_IP
from muster.fleet.node.clusternode import ClusterNode
from muster.http import HttpServer, Request, Response, StreamResponse, StreamWriter, server_context
from muster.kube.certificates import common_name, organizations
from muster.machinery.authentication import UserInfo
from muster.machinery.authorization import AccessAttributes
from muster.machinery.clock import Clock
from muster.runtime.auth import AccessReviewer
from muster.runtime.client import KubeClient, KubeError
from muster.runtime.client.builtin import PODS
from muster.runtime.webhook import make_pair

LIFETIME = timedelta(days=365)
TEXT = "text/plain; charset=utf-8"
TERMINALS = {"exec": "exec", "attach": "attach", "portForward": "portforward"}
"""First segment of the path, and the name of the subresource in messages."""
STOP_SECONDS = 1.0
STRANGERS = 0.25
"""The share of connections for clients without a certificate."""


class KubeletApi:
    def __init__(self, client: KubeClient, node: ClusterNode, client_ca: Path, clock: Clock) -> None:
        self._node = node
        self._reviewer = AccessReviewer(client, clock=clock)
        pair = make_pair([node.name, NODE_IP], clock.now(), LIFETIME)
        self._server = HttpServer(
            self._answer,
            tls=server_context(pair.cert, pair.key, client_ca),
            reads_bodies=True,  # their content is not used
            strangers=STRANGERS,
        )

    @asynccontextmanager
    async def open(self, port: int = 0) -> AsyncIterator[int]:
        """Serve; yields the port."""
        await self._server.start(NODE_IP, port)
        try:
            yield self._server.port
        finally:
            await self._server.stop(STOP_SECONDS)

    async def _answer(self, request: Request) -> Response | StreamResponse:
        refused = await self._refusal(request)
        if refused is not None:
            return refused
        what, *rest = request.path.lstrip("/").split("/")
        pod = self._node.attached.view.read(PODS, "/".join(rest[:2])) if len(rest) >= 2 else None
        if pod is None:
            return _text_response(404, f"pod {'/'.join(rest[:2])} does not exist")
        if what in TERMINALS:
            return _text_response(501, terminal_unsupported(TERMINALS[what], pod))
        if what != "containerLogs" or len(rest) != 3 or request.method != "GET":
            return _text_response(404, "404 page not found")
        try:
            options = _options(rest[2], request.query)
            pieces = await self._node.logs(pod, options)
        except (NoLogs, ValueError) as problem:
            return _text_response(400, str(problem))

        async def run(writer: StreamWriter) -> None:
            await send_log(limited(pieces, options.limit_bytes), writer)

        return StreamResponse(200, [("Content-Type", TEXT)], run)

    async def _refusal(self, request: Request) -> Response | None:
        certificate = request.connection.peer_certificate
        if certificate is None:
            return _text_response(401, "Unauthorized")
        name = x509.load_der_x509_certificate(certificate).subject
        who = UserInfo(common_name(name), groups=(*organizations(name), "system:authenticated"))
        verb = "get" if request.method == "GET" else "create"
        try:
            verdict = await self._reviewer.authorize(who, AccessAttributes(verb, "", "*", "nodes", "proxy", name=self._node.name))
        except KubeError as problem:
            return _text_response(500, f"the cluster's API server does not answer: {problem}")
        return (
            None
            if verdict.allowed
            else _text_response(403, f"Forbidden (user={who.name}, verb={verb}, resource=nodes, subresource=proxy)")
        )


def _text_response(status: int, text: str) -> Response:
    return Response(status, text.encode(), content_type=TEXT)


def _options(container: str, query: str) -> LogOptions:
    """The options as an API server sends them; it has validated them already."""
    given = {name: values[-1] for name, values in parse_qs(query).items()}
    number = {name: int(given[name]) if name in given else None for name in ("sinceSeconds", "tailLines", "limitBytes")}
    return LogOptions(
        container,
        given.get("follow") == "true",
        given.get("previous") == "true",
        given.get("timestamps") == "true",
        number["sinceSeconds"],
        datetime.fromisoformat(given["sinceTime"]) if "sinceTime" in given else None,
        number["tailLines"],
        number["limitBytes"],
    )
