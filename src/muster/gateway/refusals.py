"""The gateway's refusals, as `Status` objects that Kubernetes clients read.

Between a client and a cluster are the hub's API server, the gateway and the cluster's own API server, and a client must be able
to tell which of them refused. The hub's refusals do not reach the gateway, and a cluster's answers are passed on unchanged. Every
Status created here begins with the gateway's name, names the ClusterGateway in its details, and has a machine-readable cause in
`details.causes`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import orjson

from muster.api.proxy.v1alpha1 import GROUP
from muster.apiserver.errors import ApiError
from muster.gateway import target
from muster.gateway.names import COMPONENT, RESOURCE
from muster.gateway.target import Problem
from muster.http import Response

BAD_PATH: Final = "UnacceptablePath"
BAD_REQUEST: Final = "UnacceptableRequest"
BODY_TOO_LARGE: Final = "RequestBodyTooLarge"
LOOP: Final = "GatewayLoop"
IMPERSONATION: Final = "ImpersonationImpossible"
UNKNOWN_CLUSTER: Final = "ClusterUnknown"
CHANGED: Final = "ClusterChanged"
ACCESS_REVOKED: Final = "RightEnded"
"""Causes in addition to those of `gateway/target.py`."""

_UNAVAILABLE: Final = "ServiceUnavailable"
_BUSY_SECONDS: Final = 1
_RETRY_SECONDS: Final = 5
_ANSWERS: Final[dict[str, tuple[int, str, int | None]]] = {
    target.CREDENTIAL_MISSING: (503, _UNAVAILABLE, None),
    target.CREDENTIAL_EXPIRED: (503, _UNAVAILABLE, None),
    target.CREDENTIAL_UNUSABLE: (503, _UNAVAILABLE, None),
    target.CREDENTIAL_REFUSED: (503, _UNAVAILABLE, None),
    target.ENDPOINT_MISSING: (503, _UNAVAILABLE, None),
    target.ENDPOINT_UNUSABLE: (503, _UNAVAILABLE, None),
    target.TUNNEL_MISSING: (503, _UNAVAILABLE, _RETRY_SECONDS),
    target.CLUSTER_UNREACHABLE: (503, _UNAVAILABLE, _RETRY_SECONDS),
    target.CLUSTER_TIMEOUT: (504, "Timeout", None),
    target.CERTIFICATE_MISMATCH: (502, target.CERTIFICATE_MISMATCH, None),
    target.CLUSTER_BROKEN: (502, target.CLUSTER_BROKEN, None),
    target.CLUSTER_REDIRECTED: (502, target.CLUSTER_REDIRECTED, None),
    target.CLUSTER_BUSY: (429, "TooManyRequests", _BUSY_SECONDS),
}
"""Code, reason and Retry-After by cause. Without Retry-After, a retry does not help until something is repaired."""


def refusal(code: int, reason: str, cluster: str, cause: str, text: str, retry_after: int | None = None) -> ApiError:
    """The gateway refuses a request for `cluster`, which may be empty if no cluster was named."""
    details: dict[str, Any] = {"name": cluster} if cluster else {}
    details |= {"group": GROUP, "kind": RESOURCE, "causes": [{"reason": cause, "message": text}]}
    if retry_after is not None:
        details["retryAfterSeconds"] = retry_after
    about = f'{COMPONENT}: cluster "{cluster}": {text}' if cluster else f"{COMPONENT}: {text}"
    return ApiError(code, reason, about, details, retry_after)


def unavailable(cluster: str, problem: Problem, retry_after: int | None = None) -> ApiError:
    """The answer to a client if the cluster cannot be reached through the gateway."""
    code, reason, seconds = _ANSWERS.get(problem.cause, (503, _UNAVAILABLE, None))
    return refusal(code, reason, cluster, problem.cause, problem.message, seconds if retry_after is None else retry_after)


def unknown_cluster(cluster: str) -> ApiError:
    text = f'{RESOURCE}.{GROUP} "{cluster}" not found: the hub has no accepted ManagedCluster and no credential of this name'
    return refusal(404, "NotFound", cluster, UNKNOWN_CLUSTER, text)


def withdrawn(cluster: str) -> ApiError:
    text = "the cluster, or the gateway's credential for it, was removed from the hub while the request was in flight"
    return refusal(503, _UNAVAILABLE, cluster, CHANGED, text)


def moved(cluster: str) -> ApiError:
    text = "the address of the cluster changed while the request was authorized; nothing was sent: try again"
    return refusal(503, _UNAVAILABLE, cluster, CHANGED, text, 1)


def access_revoked(cluster: str) -> ApiError:
    return refusal(403, "Forbidden", cluster, ACCESS_REVOKED, "the permission for this request was revoked while it was in flight")


def bad_path(text: str, cluster: str = "") -> ApiError:
    return refusal(400, "BadRequest", cluster, BAD_PATH, text)


def bad_request(cluster: str, text: str) -> ApiError:
    return refusal(400, "BadRequest", cluster, BAD_REQUEST, text)


def not_impersonated(cluster: str, text: str) -> ApiError:
    return refusal(403, "Forbidden", cluster, IMPERSONATION, f"{text}: change the impersonation rules")


def method_not_allowed(cluster: str, method: str) -> ApiError:
    return refusal(405, "MethodNotAllowed", cluster, BAD_REQUEST, f"{method} is not sent to clusters")


def body_too_large(cluster: str, limit: int) -> ApiError:
    text = f"the request's body exceeds the limit of {limit} bytes for requests through the gateway"
    return refusal(413, "RequestEntityTooLarge", cluster, BODY_TOO_LARGE, text)


def loop(cluster: str) -> ApiError:
    text = "the cluster's endpoint is this gateway itself: set it to the address of the cluster's own API server"
    return refusal(508, "LoopDetected", cluster, LOOP, text)


def answer(error: ApiError, fields: Iterable[tuple[str, str]] = ()) -> Response:
    """The HTTP answer, which must not be cached."""
    headers: list[tuple[str, str]] = [("Cache-Control", "no-cache, private"), *fields]
    if error.retry_after is not None:
        headers.append(("Retry-After", str(error.retry_after)))
    return Response(error.code, orjson.dumps(error.status()), headers, "application/json")


def warning(text: str) -> tuple[str, str]:
    """A Warning header field, which kubectl prints."""
    quoted = "".join(character if 31 < ord(character) < 127 else "?" for character in text)
    quoted = quoted.replace("\\", "\\\\").replace('"', '\\"')
    return "Warning", f'299 - "{quoted}"'
