"""Who refused: the hub, the gateway on behalf of the hub, or the cluster itself.

Clients of all libraries raise errors of their own with the server's answer in them. `refusal` reads such an answer, `blame` such an
error, and both give one of the few errors here, or None for what is nobody's refusal (a Pod that is not there, a conflict): code
goes on with the library's own error then. `Status.details` decides, never the message.

What a cluster answers comes through unchanged, so that a cluster could pretend that its hub had refused. Nothing here is for
deciding what somebody may do.
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
"""The cause in an answer by which the gateway refuses what the hub's RBAC does not grant for a cluster."""
_FORBIDDEN: Final = frozenset(("GatewayDenied", "ImpersonationForbidden"))
_UNDECIDED: Final = "AccessReviewFailed"
"""The gateway's other causes for a no of its own."""
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
    """A request for a cluster was refused on its way, or by the cluster. This one itself, where it is none of those below: the
    gateway could not read the request, or the hub did not say whether it is allowed."""

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
    """The gateway cannot reach the cluster, or has no valid credential for it; `cause` says which."""


class HubForbidden(GatewayError):
    """The hub's RBAC does not let this user use the gateway to this cluster with this method: `clustergateways/proxy`."""


class GatewayForbidden(GatewayError):
    """The gateway's own rules forbid the request to everybody, or to this user; `cause` says which."""


class VirtualVerbForbidden(GatewayForbidden):
    """The hub's RBAC does not grant this user the request: the verb `<cluster>/<verb>` on the resource."""


class ClusterForbidden(GatewayError):
    """The cluster does not grant the request to the gateway's account there."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What is known of a server's answer."""

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
    """What an answer to a request for `cluster` means; `body` is its text, or what was decoded of it."""
    given = headers or {}
    warnings = tuple(value for name, value in given.items() if name.lower() == "warning")
    return _refusal(cluster, Answer(code, _status(body), warnings), api)


def _refusal(cluster: str, answer: Answer, api: GatewayApi) -> GatewayError | None:
    about = answer.details
    of_gateway = about.get("group") in (api.group, GROUP) and about.get("kind") == RESOURCE and about.get("name") == cluster
    # The gateway warns as whom it asked where a cluster said no; that cluster may be a hub which speaks of gateways too.
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
    """What an error means that a client library raised for a request to `cluster`: of kubernetes, kubernetes_asyncio, kr8s,
    lightkube, httpx, httpx2, requests, aiohttp, or our own."""
    if isinstance(error, GatewayError):
        return error
    answer = _answer_of(error)
    return None if answer is None else _refusal(cluster, answer, api)


@contextmanager
def blaming(cluster: str, api: GatewayApi = GATEWAY_API) -> Iterator[None]:
    """Refusals come out of this block as a GatewayError; the library's error is its cause. Other errors come out as they are."""
    try:
        yield
    except Exception as error:
        found = blame(cluster, error, api)
        if found is None or found is error:
            raise
        raise found from error


def _answer_of(error: BaseException) -> Answer | None:
    """By what the libraries' errors have in common, since none of them need be here: a response, or its parts in themselves."""
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
    for place, name in ((error, "body"), (source, "content"), (source, "text"), (error, "status")):
        try:
            found = _status(getattr(place, name, None))
        except Exception:  # A stream that was not read, or is closed: the library's own complaint of it.
            continue
        if found:
            return found
    return {}


def _status(body: object) -> Mapping[str, Any]:
    """A Status, if it is one."""
    if isinstance(body, bytes | str):
        try:
            body = orjson.loads(body)
        except orjson.JSONDecodeError:
            return {}
    return body if isinstance(body, Mapping) and body.get("kind") == "Status" else {}
