"""The gateway's lines in the audit log: who asked which cluster for what, what was decided and why, and what came of it.

The hub's own audit log shows a path, the cluster's the gateway's account; these lines join the two. They are Events of
`audit.k8s.io/v1` at Metadata level, as the embedded API server writes them: the verb and object are those of the request for the
cluster, `cluster` says which one, and the annotations have the decision. A short request leaves one line when it is over
(ResponseComplete); a stream or an upgrade leaves another when it begins (ResponseStarted), with the same id. Bodies and credentials
never get here.
"""

from __future__ import annotations

from typing import Final

from muster.api.proxy.v1alpha1 import GROUP
from muster.apiserver.audit import HUNG_UP, RESPONSE_COMPLETE, RESPONSE_STARTED, Audit, Stage, audit_event
from muster.gateway.verdict import Granted, Refused, Verdict
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
    """One request on its way through the gateway. `audit_id` is the one that goes to the cluster and back to the client."""

    __slots__ = ("_annotations", "_cluster", "_ended", "_id", "_inner", "_log", "_request", "_user")

    def __init__(self, log: Audit | None, request: Request, audit_id: str, user: UserInfo | None = None) -> None:
        self._annotations: dict[str, str] = {}
        if log is not None and request.headers.get(AUDIT_ID) == audit_id:
            # Whoever chose it may choose the same again: only our own is one request's.
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

    def addressed(self, cluster: str, inner: RequestInfo | None = None) -> None:
        """Which cluster it is for, and what it asks of it as far as that can be told."""
        self._cluster = cluster
        self._inner = inner

    def judged(self, verdict: Verdict) -> None:
        if self._log is None:
            return
        refused = isinstance(verdict, Refused)
        self._annotations[DECISION] = "forbid" if refused else "allow"
        self._annotations[REASON] = verdict.reason
        if isinstance(verdict, Granted):
            for name, value in verdict.notes.items():
                self._annotations[f"{NOTE_PREFIX}{name}"] = value
            if verdict.impersonated is not None:
                self._annotations[IMPERSONATED_USER] = verdict.impersonated.name

    def started(self, code: int) -> None:
        """A stream's head has gone out, or the connection has left HTTP (101)."""
        if not self._ended:
            self._write(RESPONSE_STARTED, code)

    def ended(self, code: int, *, problem: str = "", sent: int | None = None, received: int | None = None) -> None:
        """It is over, however it ended; only the first call counts. `sent` and `received` are bytes as the client saw them, and
        `problem` is the name of a cause, such as those of `target.py`."""
        if self._ended:
            return
        self._ended = True
        if self._log is None:
            return
        for key, value in ((PROBLEM, problem), (BYTES_SENT, sent), (BYTES_RECEIVED, received)):
            if value not in ("", None):
                self._annotations[key] = str(value)
        self._write(RESPONSE_COMPLETE, code)

    def abandoned(self) -> None:
        """The client hung up before there was an answer."""
        self.ended(HUNG_UP)

    def _write(self, stage: Stage, code: int) -> None:
        if self._log is None:
            return
        request = self._request
        asked = AccessAttributes(request.method.lower(), path=request.path) if self._inner is None else _attributes(self._inner)
        event = audit_event(self._id, stage, self._cluster, request, asked, self._user, code)
        event["annotations"] = self._annotations
        self._log.append(event)


def _attributes(inner: RequestInfo) -> AccessAttributes:
    if not inner.is_resource:
        return AccessAttributes(inner.verb, path=inner.path)
    return AccessAttributes(
        inner.verb, inner.group, inner.version, inner.resource, inner.subresource, inner.namespace, inner.name, inner.path
    )
