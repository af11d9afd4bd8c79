"""One POST of JSON over HTTPS to a webhook: an address by URL or by service, trusted by its CA bundle.

Conversion and admission both call webhooks this way. A service is turned into an address by the caller's resolver; the certificate
must still be for `name.namespace.svc`. A webhook that asks for a certificate sees the server's own. Connections are kept for the
next call, and in a crowd a call waits a moment for one of `ENOUGH` to come free before it makes another: handshakes cost more than
most answers. Failures speak Go's words, because they end up in messages that people search for.
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
"""(namespace, name, port) to (host, port); raises LookupError if there is no such service."""
Identity = Callable[[], Awaitable["KeyPair"]]
"""The certificate that the server shows of itself; another object when it is another certificate."""
TIMEOUT_SECONDS: Final = 30
ENOUGH: Final = 16
"""So many calls to one webhook at a time are likely to be served faster than more would be."""
CROWD_SECONDS: Final = 0.2
"""The moment. A webhook that is slow, or that calls us back, must not keep others out."""
MAX_ANSWER: Final = 64 * 1024 * 1024
_UNTRUSTED: Final = frozenset({7, 18, 19, 20, 21})
"""OpenSSL's verify codes for a chain that does not end in a trusted authority."""
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
    """What a cluster's webhooks are called with: where its services are, and whom it shows itself as."""

    resolve: ResolveService | None = None
    identity: Identity | None = None


NO_ROUTE: Final = WebhookRoute()
"""Of a server without services and without a name."""


class WebhookFailed(Exception):
    """The call brought no usable answer."""


class WebhookTarget:
    """Where a `clientConfig` points."""

    def __init__(self, config: Mapping[str, Any], route: WebhookRoute = NO_ROUTE) -> None:
        self._config = config
        self._resolve = route.resolve
        self._identity = route.identity
        self._shown: KeyPair | None = None
        self._tls: ssl.SSLContext | None = None
        self._pool: UpstreamPool | None = None
        self._turns = asyncio.Semaphore(ENOUGH)

    async def _context(self) -> ssl.SSLContext:
        shown = None if self._identity is None else await self._identity()
        if self._tls is None or shown is not self._shown:
            context = trusting(base64.b64decode(self._config.get("caBundle") or ""))
            if shown is not None:
                await asyncio.to_thread(load_chain, context, shown.certificate, shown.key)
            self._tls, self._shown = context, shown
        return self._tls

    def _address(self) -> tuple[str, int, str, str | None]:
        """Host, port and path to call, and the name the certificate must carry where that is not the host."""
        url = self._config.get("url")
        if url is not None:
            parts = urlsplit(str(url))
            return parts.hostname or "", parts.port or 443, parts.path or "/", None
        service = self._config["service"]
        if self._resolve is None:
            raise LookupError(f"service {service['namespace']}/{service['name']} cannot be resolved here")
        host, port = self._resolve(service["namespace"], service["name"], service.get("port") or 443)
        return host, port, _path(service), f"{service['name']}.{service['namespace']}.svc"

    async def post(self, body: Any, seconds: int = TIMEOUT_SECONDS) -> Any:
        """The decoded answer; raises WebhookFailed."""
        try:
            async with asyncio.timeout(seconds), self._turn():
                status, kind, content = await self._exchange(gojson.dumps(body), seconds)
        except (TimeoutError, UpstreamTimeout):
            raise WebhookFailed(f"{self._asked(seconds)}: context deadline exceeded") from None
        except UpstreamError as problem:
            raise WebhookFailed(f"{self._asked(seconds)}: {go_words(problem)}") from None
        except (ssl.SSLError, OSError, LookupError, ValueError) as problem:
            raise WebhookFailed(f"{self._asked(seconds)}: {problem}") from None
        if not 200 <= status < 300:
            raise WebhookFailed(_refusal(status, kind, content))
        try:
            return orjson.loads(content)
        except orjson.JSONDecodeError as problem:
            raise WebhookFailed(f"couldn't get version/kind; json parse error: {problem}") from None

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(CROWD_SECONDS):
                await self._turns.acquire()
        except TimeoutError:
            yield
            return
        try:
            yield
        finally:
            self._turns.release()

    async def _exchange(self, payload: bytes, seconds: int) -> tuple[int, str, bytes]:
        host, port, path, server_name = self._address()
        if self._pool is None:
            self._pool = UpstreamPool(max_idle=ENOUGH)
        key: UpstreamKey = (host, port, await self._context(), server_name)
        fields = [
            ("Host", host_port(server_name or host, port)),
            ("User-Agent", "muster-apiserver"),
            ("Accept", "application/json, */*"),
            ("Content-Type", "application/json"),
        ]
        asked = encode_request("POST", f"{path}?timeout={seconds}s", fields, payload)
        answer, content = await self._pool.ask(key, asked, timeout=seconds, repeat=True, longest=MAX_ANSWER)
        return answer.status, answer.field("content-type") or "", content

    def _asked(self, seconds: int) -> str:
        """What was tried, as Go's HTTP client prints it."""
        if self._config.get("url") is not None:
            parts = urlsplit(str(self._config["url"]))
            return f'Post "https://{parts.netloc}{parts.path or "/"}?timeout={seconds}s"'
        service = self._config["service"]
        place = f"{service['name']}.{service['namespace']}.svc:{service.get('port') or 443}"
        return f'Post "https://{place}{_path(service)}?timeout={seconds}s"'


def trusting(bundle: bytes) -> ssl.SSLContext:
    """A client context that trusts the bundle alone, or the system's authorities if it is empty."""
    context = ssl.create_default_context(cadata=bundle.decode() if bundle.strip() else None)
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


def _path(service: Mapping[str, Any]) -> str:
    return "/" + (service.get("path") or "").lstrip("/")


def go_words(problem: UpstreamError) -> str:
    """How a connection failed, in Go's words for the common cases."""
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


def _refusal(status: int, kind: str, content: bytes) -> str:
    """What a failing answer means; only a plain text says more than its code."""
    said = content[:2048].decode("utf-8", "replace").strip() if kind.startswith("text/") else "unknown"
    if status == 403:
        return said
    known = _GENERIC.get(status)
    if known is not None:
        return known
    if status >= 500:
        return f"an error on the server ({quote(said)}) has prevented the request from succeeding"
    return f"the server responded with the status code {status} but did not return more information"
