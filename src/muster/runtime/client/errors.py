"""What can go wrong between a client and an API server, by what a caller does about it.

A `StatusError` is the server's answer and carries its Status; subclasses exist for the answers somebody catches. `Unreachable`
means that no answer came: the request may or may not have been carried out. Errors of the HTTP library never leave the client.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson


class KubeError(Exception):
    """Anything a client raises."""


class Unreachable(KubeError):
    """No answer: refused, reset, timed out, or not trusted. `sent` is False when the request surely never left."""

    def __init__(self, server: str, reason: str, *, sent: bool = True) -> None:
        super().__init__(f"{server}: {reason}")
        self.server = server
        self.reason = reason
        self.sent = sent


class NoCredential(Unreachable):
    """Nothing was sent, for want of a usable certificate, token or plugin; the message says which."""

    def __init__(self, server: str, reason: str) -> None:
        super().__init__(server, reason, sent=False)


class Untrusted(Unreachable):
    """Nothing was sent, because no authority that is trusted here vouches for the server."""

    def __init__(self, server: str, reason: str) -> None:
        super().__init__(server, reason, sent=False)


class StatusError(KubeError):
    """The server answered with a failure. `reason` is Kubernetes' machine-readable word, e.g. `AlreadyExists`."""

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
        """Whether an admission webhook denied the request. A server says in the details of its own refusals what they are about,
        and of a webhook that it could not call, why; a denial is as the webhook made it. What a proxy answers has no reason."""
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
    """Somebody wrote in between, or (apply) another manager owns a field: read again and decide again."""


class Expired(StatusError):
    """The revision asked for is no longer kept (410): list again."""


class Invalid(StatusError):
    """The object breaks a rule (422); `causes` names the fields."""


class TooManyRequests(StatusError):
    pass


class ServerFailure(StatusError):
    """5xx: the server could not; trying later may help."""


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
    """The error for an answer's code and body; a body that is no Status (a proxy's page) becomes the message, cut short."""
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
