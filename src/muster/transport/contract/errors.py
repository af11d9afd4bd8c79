"""Errors on the wire: an API's Status is sent as the JSON of Go's StatusError in the message of a gRPC status.

A hub's services raise KubeErrors; `to_rpc` converts them to the end of the call, without the hub's internal details: the address of
its API server, or a refusal of its own account. The agent gets the KubeError back from `from_rpc`, so that code that catches
Conflict, NotFound or Unreachable works as with an API server. Go's servers send `{}` for errors that are no Status, and plain texts
for failures before that; of these only the code is usable.

A status is sent in a header, so its text is cut to a size that all peers accept.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import orjson

from muster.machinery.objects import GVR
from muster.runtime.client import (
    BadRequest,
    Forbidden,
    KubeError,
    ServerFailure,
    StatusError,
    TooManyRequests,
    Unauthorized,
    Unreachable,
    status_error,
)
from muster.transport.contract.event import InvalidEvent
from muster.transport.contract.types import InvalidType
from muster.transport.rpc.status import Code, RpcError

PUBLISH_ERROR: Final = "PublishError"
"""OCM's reason for a request that may not have been executed, for unknown reasons."""
_LONGEST_MESSAGE: Final = 1_000
_MOST_CAUSES: Final = 8
_LONGEST_CAUSE: Final = 200
_DETAILS: Final = ("name", "group", "kind", "uid")


def to_rpc(error: KubeError | InvalidEvent | InvalidType) -> RpcError:
    """The gRPC status for an error."""
    if isinstance(error, InvalidEvent | InvalidType):
        return RpcError(Code.INVALID_ARGUMENT, _cut(str(error), _LONGEST_MESSAGE))
    if isinstance(error, Unauthorized) or not isinstance(error, StatusError):
        # Neither concerns the caller: our account is refused, or the API server is unreachable.
        return RpcError(Code.UNAVAILABLE, _written(503, "ServiceUnavailable", "the hub cannot reach its API; try again later"))
    return RpcError(Code.FAILED_PRECONDITION, _written(error.code, error.reason, error.message or str(error), error.details))


def _written(code: int, reason: str, message: str, details: Mapping[str, Any] | None = None) -> str:
    status: dict[str, Any] = {
        "metadata": {},
        "status": "Failure",
        "message": _cut(message, _LONGEST_MESSAGE),
        "reason": reason,
        "code": code,
    }
    if details:
        status["details"] = _cut_details(details)
    return orjson.dumps({"ErrStatus": status}).decode()


def _cut_details(details: Mapping[str, Any]) -> dict[str, Any]:
    kept: dict[str, Any] = {name: _cut(details[name], _LONGEST_CAUSE) for name in _DETAILS if details.get(name)}
    causes = [
        {name: _cut(text, _LONGEST_CAUSE) for name, text in cause.items() if text}
        for cause in (details.get("causes") or ())[:_MOST_CAUSES]
        if isinstance(cause, Mapping)
    ]
    if causes:
        kept["causes"] = causes
    if isinstance(details.get("retryAfterSeconds"), int):
        kept["retryAfterSeconds"] = details["retryAfterSeconds"]
    return kept


def _cut(text: object, longest: int) -> str:
    found = str(text)
    return found if len(found) <= longest else found[: longest - 1] + "…"


def from_rpc(error: RpcError, server: str, resource: GVR, name: str = "") -> KubeError:
    """The error of a request about a resource to `server`."""
    status = _read_status(error.message)
    if status is not None:
        code = status.get("code")
        if error.code is Code.UNAVAILABLE:
            return Unreachable(server, str(status.get("message") or error.message))
        return status_error(code if isinstance(code, int) and code >= 400 else 500, status)
    if error.code in _UNREACHABLE:
        return Unreachable(server, str(error))
    kind, code, reason = _BY_CODE.get(error.code, _UNSPECIFIED)
    message = "the hub refused it without a reason" if error.message == "{}" else str(error)
    details = {"group": resource.group, "kind": resource.plural, "name": name}
    return kind(code, reason, f"{resource.plural} {name!r} could not be sent: {message}" if name else message, details)


_UNREACHABLE: Final = frozenset((Code.UNAVAILABLE, Code.DEADLINE_EXCEEDED, Code.CANCELLED, Code.ABORTED))
_UNSPECIFIED: Final = (ServerFailure, 500, PUBLISH_ERROR)
_BY_CODE: Final[Mapping[Code, tuple[type[StatusError], int, str]]] = {
    Code.UNAUTHENTICATED: (Unauthorized, 401, "Unauthorized"),
    Code.PERMISSION_DENIED: (Forbidden, 403, "Forbidden"),
    Code.INVALID_ARGUMENT: (BadRequest, 400, "BadRequest"),
    Code.RESOURCE_EXHAUSTED: (TooManyRequests, 429, "TooManyRequests"),
    Code.UNIMPLEMENTED: (StatusError, 405, "MethodNotAllowed"),
}


def _read_status(message: str) -> Mapping[str, Any] | None:
    """The Status in a text, if there is a non-empty one."""
    if not message.startswith("{"):
        return None
    try:
        document = orjson.loads(message)
    except orjson.JSONDecodeError:
        return None
    status = document.get("ErrStatus") if isinstance(document, dict) else None
    return status if isinstance(status, dict) and (status.get("code") or status.get("reason")) else None
