"""Proxies requests to aggregated API servers: found by group and version, checked for availability, forwarded unchanged.
Corresponds to kube-aggregator's `handler_proxy.go` (`k8s.io/kube-aggregator/pkg/apiserver`).

Requests have been authenticated, impersonated and authorized before; the remote server gets the user in headers and authorizes
again. Path and query are not modified; bodies are streamed in both directions, and upgrades are supported.
"""

from __future__ import annotations

from typing import Final

from muster.apiserver.aggregation.openapi import RemoteOpenApi
from muster.apiserver.aggregation.remote import Fields, Remote, identity_fields
from muster.apiserver.cluster import Cluster
from muster.apiserver.context import Context
from muster.apiserver.registry.group_versions import GroupVersion
from muster.apiserver.request import split_cluster
from muster.apiserver.webhooks import go_error_text
from muster.http import Headers, Response, StreamResponse, Takeover, UpstreamError, UpstreamPool, end_to_end_fields, relay
from muster.kube.websocket_token import without_bearer_protocol

_NO_CACHE: Final = ("Cache-Control", "no-cache, private")
_NOT_FORWARDED: Final = ("authorization", "host")
_NOT_FORWARDED_PREFIXES: Final = ("x-remote-", "impersonate-")
_PROTOCOLS: Final = "sec-websocket-protocol"
"""Browsers send a bearer token in this header."""


class Aggregator:
    """The aggregated API servers of one cluster. `generation` changes with what discovery shows of them, `openapi_generation` with
    their OpenAPI documents."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.generation = 0
        self.openapi_generation = 0
        self.remotes: dict[tuple[str, str], Remote] = {}
        self._pool: UpstreamPool | None = None

    @property
    def pool(self) -> UpstreamPool:
        if self._pool is None:
            self._pool = UpstreamPool()
        return self._pool

    def put(self, remote: Remote) -> None:
        self.remotes[remote.group, remote.version] = remote
        self.generation += 1
        self.openapi_generation += 1

    def drop(self, name: str) -> None:
        for key in [key for key, remote in self.remotes.items() if remote.name == name]:
            del self.remotes[key]
            self.generation += 1
            self.openapi_generation += 1

    def named(self, name: str) -> Remote | None:
        return next((remote for remote in self.remotes.values() if remote.name == name), None)

    def group_versions(self) -> list[GroupVersion]:
        return [
            GroupVersion(
                remote.group,
                remote.version,
                list(remote.rows or ()),
                stale=not remote.available or remote.rows is None,
                priorities=remote.priorities,
            )
            for remote in self.remotes.values()
        ]

    def openapi(self) -> list[RemoteOpenApi]:
        return [remote.openapi for remote in self.remotes.values()]

    def covering(self, path: str) -> Remote | None:
        """The remote API server that serves a path of the cluster, if any."""
        if not self.remotes or not path.startswith("/apis/"):
            return None
        parts = path.split("/", 4)
        return self.remotes.get((parts[2], parts[3])) if len(parts) > 3 else None

    async def serve(self, ctx: Context) -> Response | StreamResponse | Takeover | None:
        path = split_cluster(ctx.request.raw_path)[1]
        remote = self.covering(path)
        if remote is None or _is_ambiguous(ctx, path):
            return None
        try:
            if not remote.available:
                raise LookupError
            host, port = remote.address()
        except LookupError:
            return _plain(503, "service unavailable")
        query = ctx.request.query
        try:
            answer = await relay(
                ctx.request,
                pool=self.pool,
                host=host,
                port=port,
                path=f"{path}?{query}" if query else path,
                headers=forwarded_headers(ctx.request.headers) + identity_fields(ctx.user),
                tls=await remote.tls(),
                server_hostname=remote.server_name,
                head_timeout=None,
            )
        except UpstreamError as problem:
            return _plain(503, f"error trying to reach service: {go_error_text(problem)}")
        if not isinstance(answer, Takeover) and not any(name.lower() == "cache-control" for name, _ in answer.headers):
            answer.headers = [*answer.headers, _NO_CACHE]
        return answer


def _is_ambiguous(ctx: Context, path: str) -> bool:
    """Whether the remote server might read a path differently: one with empty segments below a group version was authorized here as
    a discovery path, and could name an object there."""
    return not ctx.attributes.is_resource and path.rstrip("/").count("/") > 3


def forwarded_headers(headers: Headers) -> Fields:
    """The headers to forward: without credentials, and without identity headers of the client."""
    fields = [
        (name, value)
        for name, value in end_to_end_fields(headers)
        if name not in _NOT_FORWARDED and not name.startswith(_NOT_FORWARDED_PREFIXES)
    ]
    if _PROTOCOLS not in headers:
        return fields
    offered = [(name, without_bearer_protocol(value) if name == _PROTOCOLS else value) for name, value in fields]
    return [(name, value) for name, value in offered if value or name != _PROTOCOLS]


def _plain(code: int, text: str) -> Response:
    headers = [_NO_CACHE, ("X-Content-Type-Options", "nosniff")]
    return Response(code, text.encode() + b"\n", headers, "text/plain; charset=utf-8")
