"""One POST of JSON over HTTPS to a webhook: an address by URL or by service, trusted by its CA bundle.

A service is turned into an address by the caller's resolver; the certificate must still be for `name.namespace.svc`. The HTTP
client is loaded on first use, since most definitions never convert.
"""

from __future__ import annotations

import base64
import ssl
from collections.abc import Callable, Mapping
from typing import Any, Final

import orjson

ResolveService = Callable[[str, str, int], tuple[str, int]]
"""(namespace, name, port) to (host, port); raises LookupError if there is no such service."""
TIMEOUT_SECONDS: Final = 30
MAX_ANSWER: Final = 64 * 1024 * 1024


class WebhookFailed(Exception):
    """The call brought no usable answer."""


class WebhookTarget:
    """Where a `clientConfig` points."""

    def __init__(self, config: Mapping[str, Any], resolve_service: ResolveService | None) -> None:
        self._config = config
        self._resolve = resolve_service
        self._tls: ssl.SSLContext | None = None

    def _context(self) -> ssl.SSLContext:
        if self._tls is None:
            bundle = base64.b64decode(self._config.get("caBundle") or "")
            self._tls = ssl.create_default_context(cadata=bundle.decode() if bundle.strip() else None)
            self._tls.verify_flags &= ~ssl.VERIFY_X509_STRICT
        return self._tls

    def _address(self) -> tuple[str, str | None]:
        """URL to call and the name the certificate must carry where that is not the URL's host."""
        url = self._config.get("url")
        if url is not None:
            return str(url), None
        service = self._config["service"]
        port = service.get("port") or 443
        path = "/" + (service.get("path") or "").lstrip("/")
        if self._resolve is None:
            raise LookupError(f"service {service['namespace']}/{service['name']} cannot be resolved here")
        host, real_port = self._resolve(service["namespace"], service["name"], port)
        return f"https://{host}:{real_port}{path}", f"{service['name']}.{service['namespace']}.svc"

    async def post(self, body: Any) -> Any:
        """The decoded answer; raises WebhookFailed."""
        import aiohttp

        shown = self._shown_url()
        try:
            url, server_name = self._address()
            timeout = aiohttp.ClientTimeout(total=TIMEOUT_SECONDS)
            headers = {"Content-Type": "application/json", "Accept": "application/json"}
            async with (
                aiohttp.ClientSession(timeout=timeout) as session,
                session.post(
                    url, data=orjson.dumps(body), headers=headers, ssl=self._context(), server_hostname=server_name
                ) as response,
            ):
                content = await response.content.read(MAX_ANSWER)
                if response.status != 200:
                    raise WebhookFailed(_refusal(response.status, content))
        except TimeoutError:
            raise WebhookFailed(f'Post "{shown}": context deadline exceeded') from None
        except aiohttp.ClientConnectorError as problem:
            raise WebhookFailed(f'Post "{shown}": {_dial_problem(problem)}') from None
        except (aiohttp.ClientError, ssl.SSLError, OSError, LookupError, ValueError) as problem:
            raise WebhookFailed(f'Post "{shown}": {problem}') from None
        try:
            return orjson.loads(content)
        except orjson.JSONDecodeError as problem:
            raise WebhookFailed(f"couldn't get version/kind; json parse error: {problem}") from None

    def _shown_url(self) -> str:
        if self._config.get("url") is not None:
            return f"{self._config['url']}?timeout={TIMEOUT_SECONDS}s"
        service = self._config["service"]
        path = "/" + (service.get("path") or "").lstrip("/")
        port = service.get("port") or 443
        return f"https://{service['name']}.{service['namespace']}.svc:{port}{path}?timeout={TIMEOUT_SECONDS}s"


def _dial_problem(problem: Any) -> str:
    """How a connection failed, in Go's words for the common cases."""
    if isinstance(problem.os_error, ConnectionRefusedError):
        return f"dial tcp {problem.host}:{problem.port}: connect: connection refused"
    if isinstance(problem.os_error, ssl.SSLCertVerificationError):
        return f"tls: failed to verify certificate: {problem.os_error.verify_message}"
    return str(problem)


def _refusal(status: int, content: bytes) -> str:
    """What a non-200 answer means: the message of a Status, else the code."""
    try:
        body = orjson.loads(content)
    except orjson.JSONDecodeError:
        body = None
    if isinstance(body, dict) and body.get("kind") == "Status" and body.get("message"):
        return str(body["message"])
    if status == 404:
        return "the server could not find the requested resource"
    return f"an error on the server ({quote_body(content)}) has prevented the request from succeeding"


def quote_body(content: bytes) -> str:
    text = content[:2048].decode("utf-8", "replace").strip()
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
