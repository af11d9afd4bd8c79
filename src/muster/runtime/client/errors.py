"""Errors of the client, by how a caller handles them.

A `StatusError` is the server's response with its Status; subclasses exist for those that callers catch. `Unreachable` means that
there was no response: the request may or may not have been executed. Exceptions of the HTTP library never leave the client.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson


class KubeError(Exception):
    """The base of all errors of a client."""


class Unreachable(KubeError):
    """No response: refused, reset, timed out, or not trusted. `sent` is False if the request was certainly not sent."""

    def __init__(self, server: str, reason: str, *, sent: bool = True) -> None:
        super().__init__(f"{server}: {reason}")
        self.server = server
        self.reason = reason
        self.sent = sent


class NoCredential(Unreachable):
    """Nothing was sent, because no usable certificate, token or plugin is available; the message names it."""

    def __init__(self, server: str, reason: str) -> None:
        super().__init__(server, reason, sent=False)


class Untrusted(Unreachable):
    """Nothing was sent, because the server's certificate is not signed by a trusted CA."""

    def __init__(self, server: str, reason: str) -> None:
        super().__init__(server, reason, sent=False)


class StatusError(KubeError):
    """The server answered with a failure. `reason` is Kubernetes' reason, e.g. `AlreadyExists`."""

    def __init__(
        self,
        code: int,
        reason: str = "",
        message: str = "",
        details: Mapping[str, Any] | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message or reason or f"HTTP {code}")
        self.code = code
        self.reason = reason
        self.message = message
        self.details: Mapping[str, Any] = details or {}
        self.retry_after = retry_after

    @property
    def by_webhook(self) -> bool:
        """Whether an admission webhook denied the request. The server's own refusals have details about the object, and those for a
        failed webhook call the cause; a denial has only what the webhook sent. A proxy's answer has no reason."""
        return not self.details and self.code != 401 and (self.code < 500 or bool(self.reason))

    @property
    def causes(self) -> list[Mapping[str, Any]]:
        return list(self.details.get("causes") or ())


class BadRequest(StatusError):
    pass


class Unauthorized(StatusError):
    pass


class Forbidden(StatusError):
    pass


class NotFound(StatusError):
    pass


class AlreadyExists(StatusError):
    pass


class Conflict(StatusError):
    """Another client has written in between, or (apply) another manager owns a field: read again and decide again."""


class Expired(StatusError):
    """The requested resourceVersion is no longer kept (410): list again."""


class Invalid(StatusError):
    """The object is invalid (422); `causes` names the fields."""


class TooManyRequests(StatusError):
    pass


class ServerFailure(StatusError):
    """5xx: the server failed; a later attempt may succeed."""


_BY_CODE: Mapping[int, type[StatusError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Expired,
    422: Invalid,
    429: TooManyRequests,
}


def status_error(code: int, body: bytes | Mapping[str, Any], retry_after: str | None = None) -> StatusError:
    """The error for a response's code and body; a body that is no Status (of a proxy) becomes the message, truncated."""
    status: Mapping[str, Any] = {}
    text = ""
    if isinstance(body, bytes):
        try:
            decoded = orjson.loads(body)
        except orjson.JSONDecodeError:
            decoded = None
            text = body[:300].decode(errors="replace").strip()
        if isinstance(decoded, dict):
            status = decoded
    else:
        status = body
    reason = str(status.get("reason") or "")
    details = status.get("details")
    details = details if isinstance(details, Mapping) else {}
    kind = _BY_CODE.get(code, ServerFailure if code >= 500 else StatusError)
    if reason == "AlreadyExists":
        kind = AlreadyExists
    return kind(code, reason, str(status.get("message") or text), details, _seconds(retry_after, details))


def _seconds(header: str | None, details: Mapping[str, Any]) -> float | None:
    for value in (header, details.get("retryAfterSeconds")):
        try:
            seconds = float(value)  # type: ignore[arg-type]  # both may be absent or, from a proxy, a date
        except (TypeError, ValueError):
            continue
        if seconds > 0:
            return seconds
    return None
