"""Calls of webhooks: one POST of JSON over HTTPS to a URL or Service, verified with its CA bundle. Follows
`k8s.io/apiserver/pkg/util/webhook`; used by conversion and admission.

A Service is resolved to an address by the caller's resolver; the certificate must still be valid for `name.namespace.svc`. A
webhook that requests a client certificate gets the server's. Connections are reused. When many calls run concurrently, a call waits
a moment for one of `PREFERRED_CALLS` slots before it opens another connection, because a handshake costs more than most answers.
Errors have Go's texts, because they become part of messages that people search for.
"""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import orjson

from muster.http.pool import UpstreamKey, UpstreamPool
from muster.http.tls import load_chain
from muster.http.upstream import UpstreamError, UpstreamTimeout, UpstreamUnavailable, encode_request, host_port
from muster.machinery.golang import json as gojson
from muster.machinery.golang.quoting import quote

if TYPE_CHECKING:
    from muster.kube.certificates import KeyPair

ResolveService = Callable[[str, str, int], tuple[str, int]]
"""(namespace, name, port) → (host, port). Raises LookupError if the service cannot be resolved."""
Identity = Callable[[], Awaitable["KeyPair"]]
"""Returns the client certificate of the server; the same object until it is renewed."""
DEFAULT_TIMEOUT: Final = 30
PREFERRED_CALLS: Final = 16
"""Number of concurrent calls to one webhook beyond which more connections are unlikely to be faster."""
SLOT_TIMEOUT: Final = 0.2
"""How long a call waits for a slot: a slow webhook, or one that calls this server, must not block others."""
MAX_ANSWER: Final = 64 * 1024 * 1024
_UNTRUSTED: Final = frozenset({7, 18, 19, 20, 21})
"""OpenSSL's verify codes for a chain without a trusted CA."""
_GENERIC: Final = {
    400: "the server rejected our request for an unknown reason",
    401: "the server has asked for the client to provide credentials",
    404: "the server could not find the requested resource",
    405: "the server does not allow this method on the requested resource",
    409: "the server reported a conflict",
    413: "the request is too large",
    422: "the server rejected our request due to an error in our request",
    429: "the server has received too many requests and has asked us to try again later",
    503: "the server is currently unable to handle the request",
    504: "the server was unable to return a response in the time allotted, but may still be processing the request",
}


@dataclass(frozen=True)
class WebhookRoute:
    """How a cluster calls webhooks: its service resolver and its client certificate."""

    resolve: ResolveService | None = None
    identity: Identity | None = None


NO_ROUTE: Final = WebhookRoute()
"""For a server without services and client certificate."""


class WebhookFailed(Exception):
    """The call failed or the answer is not JSON."""


class WebhookTarget:
    """The endpoint of a `clientConfig`."""

    def __init__(self, config: Mapping[str, Any], route: WebhookRoute = NO_ROUTE) -> None:
        self._config = config
        self._resolve = route.resolve
        self._identity = route.identity
        self._presented: KeyPair | None = None
        self._tls: ssl.SSLContext | None = None
        self._pool: UpstreamPool | None = None
        self._slots = asyncio.Semaphore(PREFERRED_CALLS)

    async def _context(self) -> ssl.SSLContext:
        presented = None if self._identity is None else await self._identity()
        if self._tls is None or presented is not self._presented:
            context = client_context(base64.b64decode(self._config.get("caBundle") or ""))
            if presented is not None:
                await asyncio.to_thread(load_chain, context, presented.certificate, presented.key)
            self._tls, self._presented = context, presented
        return self._tls

    def _address(self) -> tuple[str, int, str, str | None]:
        """Host, port and path to call, and the name in the certificate if it is not the host."""
        url = self._config.get("url")
        if url is not None:
            parts = urlsplit(str(url))
            return parts.hostname or "", parts.port or 443, parts.path or "/", None
        service = self._config["service"]
        if self._resolve is None:
            raise LookupError(f"service {service['namespace']}/{service['name']} cannot be resolved here")
        host, port = self._resolve(service["namespace"], service["name"], service.get("port") or 443)
        return host, port, _path(service), f"{service['name']}.{service['namespace']}.svc"

    async def post(self, body: Any, seconds: int = DEFAULT_TIMEOUT) -> Any:
        """The decoded answer. Raises WebhookFailed."""
        try:
            async with asyncio.timeout(seconds), self._slot():
                status, kind, content = await self._exchange(gojson.dumps(body), seconds)
        except (TimeoutError, UpstreamTimeout):
            raise WebhookFailed(f"{self._go_request(seconds)}: context deadline exceeded") from None
        except UpstreamError as problem:
            raise WebhookFailed(f"{self._go_request(seconds)}: {go_error_text(problem)}") from None
        except (ssl.SSLError, OSError, LookupError, ValueError) as problem:
            raise WebhookFailed(f"{self._go_request(seconds)}: {problem}") from None
        if not 200 <= status < 300:
            raise WebhookFailed(_status_text(status, kind, content))
        try:
            return orjson.loads(content)
        except orjson.JSONDecodeError as problem:
            raise WebhookFailed(f"couldn't get version/kind; json parse error: {problem}") from None

    @asynccontextmanager
    async def _slot(self) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(SLOT_TIMEOUT):
                await self._slots.acquire()
        except TimeoutError:
            yield
            return
        try:
            yield
        finally:
            self._slots.release()

    async def _exchange(self, payload: bytes, seconds: int) -> tuple[int, str, bytes]:
        host, port, path, server_name = self._address()
        if self._pool is None:
            self._pool = UpstreamPool(max_idle=PREFERRED_CALLS)
        key: UpstreamKey = (host, port, await self._context(), server_name)
        fields = [
            ("Host", host_port(server_name or host, port)),
            ("User-Agent", "muster-apiserver"),
            ("Accept", "application/json, */*"),
            ("Content-Type", "application/json"),
        ]
        request = encode_request("POST", f"{path}?timeout={seconds}s", fields, payload)
        answer, content = await self._pool.request(key, request, timeout=seconds, repeat=True, longest=MAX_ANSWER)
        return answer.status, answer.field("content-type") or "", content

    def _go_request(self, seconds: int) -> str:
        """The request as Go's HTTP client prints it in errors."""
        if self._config.get("url") is not None:
            parts = urlsplit(str(self._config["url"]))
            return f'Post "https://{parts.netloc}{parts.path or "/"}?timeout={seconds}s"'
        service = self._config["service"]
        host = f"{service['name']}.{service['namespace']}.svc:{service.get('port') or 443}"
        return f'Post "https://{host}{_path(service)}?timeout={seconds}s"'


def client_context(bundle: bytes) -> ssl.SSLContext:
    """A TLS client context that trusts only the CA bundle, or the system's CAs if it is empty."""
    context = ssl.create_default_context(cadata=bundle.decode() if bundle.strip() else None)
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


def _path(service: Mapping[str, Any]) -> str:
    return "/" + (service.get("path") or "").lstrip("/")


def go_error_text(problem: UpstreamError) -> str:
    """The text of a connection error, as Go's in the common cases."""
    cause = problem.__cause__
    if isinstance(cause, ConnectionRefusedError):
        return f"dial tcp {problem.upstream}: connect: connection refused"
    if isinstance(cause, ssl.SSLCertVerificationError):
        if cause.verify_code in _UNTRUSTED:
            return "tls: failed to verify certificate: x509: certificate signed by unknown authority"
        return f"tls: failed to verify certificate: x509: {cause.verify_message}"
    if isinstance(problem, UpstreamUnavailable) and cause is None:
        return "EOF"
    return problem.reason


def _status_text(status: int, kind: str, content: bytes) -> str:
    """The text for an error status, as client-go composes it; only a plain text body is used."""
    text = content[:2048].decode("utf-8", "replace").strip() if kind.startswith("text/") else "unknown"
    if status == 403:
        return text
    known = _GENERIC.get(status)
    if known is not None:
        return known
    if status >= 500:
        return f"an error on the server ({quote(text)}) has prevented the request from succeeding"
    return f"the server responded with the status code {status} but did not return more information"
