"""Classifies refusals: by the hub, by the gateway on behalf of the hub, or by the cluster itself.

Client libraries raise errors of their own with the server's answer in them. `refusal` classifies such an answer, `blame` such an
error. Both return one of the errors below, or None for any other answer (a Pod that does not exist, a conflict); the caller then
handles the library's own error. `Status.details` decides, never the message.

A cluster's answers are passed on unchanged, so a cluster could pretend that its hub had refused. These errors must not be used
for access decisions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final

import orjson

from muster.api.proxy.v1alpha1 import GROUP
from muster.gateway import target
from muster.gateway.client.paths import GATEWAY_API, GatewayApi
from muster.gateway.names import RESOURCE
from muster.runtime.client import StatusError

VIRTUAL_VERB_FORBIDDEN: Final = "VirtualVerbForbidden"
"""Cause of a refusal by the gateway: the hub's RBAC does not grant the request for a cluster."""
_FORBIDDEN: Final = frozenset(("GatewayDenied", "ImpersonationForbidden"))
_UNDECIDED: Final = "AccessReviewFailed"
"""The gateway's other causes of refusals by itself."""
_UNAVAILABLE: Final = frozenset(
    (
        target.CREDENTIAL_MISSING,
        target.CREDENTIAL_EXPIRED,
        target.CREDENTIAL_UNUSABLE,
        target.CREDENTIAL_REFUSED,
        target.ENDPOINT_MISSING,
        target.ENDPOINT_UNUSABLE,
        target.CLUSTER_UNREACHABLE,
        target.CLUSTER_TIMEOUT,
        target.CERTIFICATE_MISMATCH,
        target.CLUSTER_BROKEN,
        target.CLUSTER_REDIRECTED,
        target.CLUSTER_BUSY,
    )
)


class GatewayError(Exception):
    """The gateway, the hub or the cluster refused a request for a cluster. This base class itself is raised for other refusals:
    the gateway could not parse the request, or the hub did not decide whether it is allowed."""

    def __init__(self, cluster: str, answer: Answer, cause: str = "") -> None:
        super().__init__(f"cluster {cluster}: {answer.message or f'HTTP {answer.code}'}")
        self.cluster = cluster
        self.code = answer.code
        self.cause = cause
        """Which of the gateway's causes it was, e.g. `CredentialExpired`; empty if it was none of them."""
        self.status = answer.status
        """The server's Status, as it was."""
        self.warnings = answer.warnings


class ClusterUnknown(GatewayError):
    """The hub has no such cluster, or has not accepted it."""


class ClusterUnavailable(GatewayError):
    """The gateway cannot reach the cluster, or has no valid credential for it; `cause` is the reason."""


class HubForbidden(GatewayError):
    """The hub's RBAC does not allow this user to use the gateway of this cluster with this method: `clustergateways/proxy`."""


class GatewayForbidden(GatewayError):
    """The gateway's own rules forbid the request for everybody, or for this user; `cause` is the reason."""


class VirtualVerbForbidden(GatewayForbidden):
    """The hub's RBAC does not allow this user the request: the verb `<cluster>/<verb>` on the resource."""


class ClusterForbidden(GatewayError):
    """The cluster does not allow the request to the gateway's account."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The parts of a server's answer that are known."""

    code: int
    status: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    @property
    def message(self) -> str:
        return str(self.status.get("message") or "")

    @property
    def details(self) -> Mapping[str, Any]:
        found = self.status.get("details")
        return found if isinstance(found, Mapping) else {}

    @property
    def causes(self) -> list[str]:
        found = self.details.get("causes")
        return [str(one.get("reason") or "") for one in found if isinstance(one, Mapping)] if isinstance(found, list) else []


def refusal(
    cluster: str, code: int, body: object = b"", headers: Mapping[str, str] | None = None, api: GatewayApi = GATEWAY_API
) -> GatewayError | None:
    """The error for an answer to a request for `cluster`; `body` is its text, or its decoded content."""
    given = headers or {}
    warnings = tuple(value for name, value in given.items() if name.lower() == "warning")
    return _refusal(cluster, Answer(code, _status(body), warnings), api)


def _refusal(cluster: str, answer: Answer, api: GatewayApi) -> GatewayError | None:
    about = answer.details
    of_gateway = about.get("group") in (api.group, GROUP) and about.get("kind") == RESOURCE and about.get("name") == cluster
    # If a cluster refuses, the gateway adds a Warning with its account; the cluster may itself be a hub with a gateway.
    is_gateways = of_gateway and not answer.warnings
    if answer.code == HTTPStatus.FORBIDDEN:
        if VIRTUAL_VERB_FORBIDDEN in answer.causes:
            return VirtualVerbForbidden(cluster, answer, VIRTUAL_VERB_FORBIDDEN)
        if cause := next((one for one in answer.causes if one in _FORBIDDEN), ""):
            return GatewayForbidden(cluster, answer, cause)
        return HubForbidden(cluster, answer) if is_gateways else ClusterForbidden(cluster, answer)
    if cause := next((one for one in answer.causes if one in _UNAVAILABLE), ""):
        return ClusterUnavailable(cluster, answer, cause)
    if answer.code == HTTPStatus.NOT_FOUND and of_gateway:
        return ClusterUnknown(cluster, answer)
    if answer.causes and (is_gateways or _UNDECIDED in answer.causes):
        return GatewayError(cluster, answer, answer.causes[0])
    return None


def blame(cluster: str, error: BaseException, api: GatewayApi = GATEWAY_API) -> GatewayError | None:
    """The error for an exception that a client library raised for a request to `cluster`: kubernetes, kubernetes_asyncio, kr8s,
    lightkube, httpx, httpx2, requests, aiohttp, or Muster's own."""
    if isinstance(error, GatewayError):
        return error
    answer = _answer_of(error)
    return None if answer is None else _refusal(cluster, answer, api)


@contextmanager
def blaming(cluster: str, api: GatewayApi = GATEWAY_API) -> Iterator[None]:
    """Converts refusals in this block to a GatewayError whose cause is the library's error. Other errors are raised unchanged."""
    try:
        yield
    except Exception as error:
        found = blame(cluster, error, api)
        if found is None or found is error:
            raise
        raise found from error


def _answer_of(error: BaseException) -> Answer | None:
    """By common attributes of the libraries' errors, since the libraries need not be installed: a response, or its parts."""
    response = getattr(error, "response", None)
    source = error if response is None else response
    codes = (getattr(source, name, None) for name in ("status_code", "status", "code"))
    code = next((one for one in codes if isinstance(one, int)), None)
    if code is None:
        return None
    headers: Any = getattr(source, "headers", None)
    warnings = [value for name, value in headers.items() if name.lower() == "warning"] if hasattr(headers, "items") else []
    return Answer(code, _status_of(error, source), tuple(map(str, warnings)))


def _status_of(error: BaseException, source: object) -> Mapping[str, Any]:
    if isinstance(error, StatusError):
        return {"kind": "Status", "message": error.message, "reason": error.reason, "details": error.details}
    for container, name in ((error, "body"), (source, "content"), (source, "text"), (error, "status")):
        try:
            found = _status(getattr(container, name, None))
        except Exception:  # The library's error for a stream that was not read, or is closed.
            continue
        if found:
            return found
    return {}


def _status(body: object) -> Mapping[str, Any]:
    """The Status in a body, if it is one."""
    if isinstance(body, bytes | str):
        try:
            body = orjson.loads(body)
        except orjson.JSONDecodeError:
            return {}
    return body if isinstance(body, Mapping) and body.get("kind") == "Status" else {}
