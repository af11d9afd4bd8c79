"""Metrics on an address of their own, for processes whose health checks may be read by more users than their metrics.

By default it is plain HTTP, for a local address. `secured` is controller-runtime's secure serving: TLS with a certificate from
files that are renewed, and for every request the cluster reviews the token and whether its user may `get` the path.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from muster.http import HttpServer, Request, Response
from muster.http.tls import server_context
from muster.machinery.authorization import AccessAttributes
from muster.machinery.metrics import CONTENT_TYPE, Metrics
from muster.runtime.auth.delegation import Authenticator, Authorizer
from muster.runtime.client.errors import KubeError
from muster.runtime.webhook.certificates import follow_files

PATH = "/metrics"
_TEXT = "text/plain; charset=utf-8"
_UNAUTHORIZED = Response(401, b"Unauthorized\n", content_type=_TEXT)
_FORBIDDEN = Response(403, b"Forbidden\n", content_type=_TEXT)


@dataclass(frozen=True)
class SecureServing:
    """`restrict` applies further restrictions to the TLS context."""

    directory: Path
    """Contains tls.crt and tls.key."""
    authenticator: Authenticator
    authorizer: Authorizer
    restrict: Callable[[ssl.SSLContext], None] = lambda context: None

    @property
    def files(self) -> tuple[Path, Path]:
        return self.directory / "tls.crt", self.directory / "tls.key"

    def context(self, cert: bytes | Path, key: bytes | Path) -> ssl.SSLContext:
        context = server_context(cert, key)
        self.restrict(context)
        return context


class MetricsServer:
    """Raises OSError if there is no certificate at the start."""

    def __init__(self, metrics: Metrics, address: tuple[str, int], secured: SecureServing | None = None) -> None:
        self._metrics = metrics
        self._address = address
        self._secured = secured
        tls = None if secured is None else secured.context(*secured.files)
        self._http = HttpServer(self._handle, tls=tls, reads_bodies=True)  # and has no use for any

    @property
    def port(self) -> int:
        return self._http.port

    async def start(self) -> None:
        """Raises OSError when it cannot listen."""
        await self._http.start(*self._address)

    async def stop(self) -> None:
        await self._http.stop(1.0)

    async def run(self) -> None:
        """Watch the certificate files until cancelled."""
        secured = self._secured
        if secured is None:
            await asyncio.Event().wait()
            return

        async def replace(cert: bytes, key: bytes) -> None:
            self._http.replace_tls(secured.context(cert, key))

        await follow_files(*secured.files, replace)

    async def _handle(self, request: Request) -> Response:
        if request.method not in ("GET", "HEAD"):
            return Response(405, b"method not allowed\n", content_type=_TEXT)
        if self._secured is not None and (refusal := await self._refusal(self._secured, request)):
            return refusal
        if request.path != PATH:
            return Response(404, b"404 page not found\n", content_type=_TEXT)
        return Response(200, self._metrics.render(), content_type=CONTENT_TYPE)

    async def _refusal(self, secured: SecureServing, request: Request) -> Response | None:
        kind, _, token = (request.headers.get("authorization") or "").partition(" ")
        try:
            who = await secured.authenticator.authenticate(token.strip()) if kind.lower() == "bearer" else None
            if who is None:
                return _UNAUTHORIZED
            decision = await secured.authorizer.authorize(who, AccessAttributes("get", path=request.path))
        except KubeError:
            return Response(500, b"the cluster could not be asked\n", content_type=_TEXT)
        return None if decision.allowed else _FORBIDDEN
