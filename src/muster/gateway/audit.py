"""The gateway's audit events: who requested what of which cluster, the decision and its reason, and the result.

The hub's own audit log has only a path, the cluster's only the gateway's account; these events connect the two. They are Events
of `audit.k8s.io/v1` at level Metadata, as the embedded API server writes them: verb and object are those of the request for the
cluster, `cluster` is its name, and the annotations have the decision. A short request has one event when it is complete
(ResponseComplete); a stream or an upgrade has another one when it begins (ResponseStarted), with the same id. Bodies and
credentials are never written.
"""

from __future__ import annotations

from typing import Final

from muster.api.proxy.v1alpha1 import GROUP
from muster.apiserver.audit import CLIENT_CLOSED_REQUEST, RESPONSE_COMPLETE, RESPONSE_STARTED, Audit, Stage, audit_event
from muster.gateway.request_decision import Granted, Refused, RequestDecision
from muster.http import Request
from muster.kube.request_info import RequestInfo
from muster.machinery.authentication import UserInfo
from muster.machinery.authorization import AccessAttributes
from muster.machinery.uids import new_uid

DECISION: Final = "authorization.k8s.io/decision"
REASON: Final = "authorization.k8s.io/reason"
IMPERSONATED_USER: Final = f"{GROUP}/impersonated-user"
NOTE_PREFIX: Final = f"{GROUP}/"
PROBLEM: Final = f"{GROUP}/problem"
REQUEST_ID: Final = f"{GROUP}/request-id"
BYTES_SENT: Final = f"{GROUP}/bytes-sent"
BYTES_RECEIVED: Final = f"{GROUP}/bytes-received"
AUDIT_ID: Final = "audit-id"


class AuditedRequest:
    """One request to the gateway. `audit_id` is sent to the cluster and returned to the client."""

    __slots__ = ("_annotations", "_cluster", "_ended", "_id", "_inner", "_log", "_request", "_user")

    def __init__(self, log: Audit | None, request: Request, audit_id: str, user: UserInfo | None = None) -> None:
        self._annotations: dict[str, str] = {}
        if log is not None and request.headers.get(AUDIT_ID) == audit_id:
            # A client may reuse an audit id that it has chosen; only this id is unique to one request.
            self._annotations[REQUEST_ID] = new_uid()
        self._id = audit_id
        self._log = log
        self._request = request
        self._user = user
        self._cluster = ""
        self._inner: RequestInfo | None = None
        self._ended = False

    def authenticated(self, user: UserInfo) -> None:
        self._user = user

    def set_cluster(self, cluster: str, inner: RequestInfo | None = None) -> None:
        """The cluster that the request is for, and the inner request if it could be parsed."""
        self._cluster = cluster
        self._inner = inner

    def record_decision(self, decision: RequestDecision) -> None:
        if self._log is None:
            return
        refused = isinstance(decision, Refused)
        self._annotations[DECISION] = "forbid" if refused else "allow"
        self._annotations[REASON] = decision.reason
        if isinstance(decision, Granted):
            for name, value in decision.notes.items():
                self._annotations[f"{NOTE_PREFIX}{name}"] = value
            if decision.impersonated is not None:
                self._annotations[IMPERSONATED_USER] = decision.impersonated.name

    def started(self, code: int) -> None:
        """The head of a stream was sent, or the connection has switched protocols (101)."""
        if not self._ended:
            self._write(RESPONSE_STARTED, code)

    def ended(self, code: int, *, problem: str = "", sent: int | None = None, received: int | None = None) -> None:
        """The request has ended, in whatever way; only the first call counts. `sent` and `received` are bytes from the client's
        point of view, and `problem` is the name of a cause, such as those of `target.py`."""
        if self._ended:
            return
        self._ended = True
        if self._log is None:
            return
        for key, value in ((PROBLEM, problem), (BYTES_SENT, sent), (BYTES_RECEIVED, received)):
            if value not in ("", None):
                self._annotations[key] = str(value)
        self._write(RESPONSE_COMPLETE, code)

    def client_hung_up(self) -> None:
        """The client closed the connection before there was an answer."""
        self.ended(CLIENT_CLOSED_REQUEST)

    def _write(self, stage: Stage, code: int) -> None:
        if self._log is None:
            return
        request = self._request
        attributes = (
            AccessAttributes(request.method.lower(), path=request.path) if self._inner is None else _attributes(self._inner)
        )
        event = audit_event(self._id, stage, self._cluster, request, attributes, self._user, code)
        event["annotations"] = self._annotations
        self._log.append(event)


def _attributes(inner: RequestInfo) -> AccessAttributes:
    if not inner.is_resource:
        return AccessAttributes(inner.verb, path=inner.path)
    return AccessAttributes(
        inner.verb, inner.group, inner.version, inner.resource, inner.subresource, inner.namespace, inner.name, inner.path
    )
