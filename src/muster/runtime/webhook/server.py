"""A server for admission and conversion webhooks over TLS, whose certificate may change while it serves.

A webhook is one async function. An admission webhook takes an `AdmissionRequest` and returns an `AdmissionResponse` by `allow`,
`deny` or `mutate`; a mutation is the new object, and the patch is computed here. An exception is answered with 500, so that the API
server's failurePolicy decides; `Denied`, raised anywhere inside, is a denial. If the API server's client certificate is known,
other callers are refused.
"""

from __future__ import annotations

import base64
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import orjson

from muster.api import resource as api
from muster.http import HttpServer, Request, Response
from muster.machinery.authentication import UserInfo
from muster.machinery.clock import SYSTEM, Clock
from muster.machinery.logs import get_logger
from muster.machinery.metrics import Counter, Metrics
from muster.machinery.objects import Object, ObjectKey
from muster.runtime.client.patches import json_patch
from muster.runtime.webhook.clients import WebhookClients

log = get_logger("muster.runtime.webhook.server")

MAX_REVIEW = 8 * 1024 * 1024
"""A review has an object twice, old and new."""
_TEXT = "text/plain; charset=utf-8"
R = TypeVar("R", bound=api.TypedObject)


class Denied(Exception):
    """A denial, with the code and reason for the API client."""

    def __init__(self, message: str, code: int = 403, reason: str = "Forbidden") -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.reason = reason


@dataclass(frozen=True)
class AdmissionRequest:
    uid: str
    operation: str
    kind: Mapping[str, str]
    resource: Mapping[str, str]
    subresource: str
    key: ObjectKey
    user: UserInfo
    object: Object | None = field(repr=False)
    old_object: Object | None = field(repr=False)
    dry_run: bool = False
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def read(cls, request: Mapping[str, Any]) -> AdmissionRequest:
        return cls(
            str(request["uid"]),
            str(request["operation"]),
            request.get("kind") or {},
            request.get("resource") or {},
            str(request.get("subResource") or ""),
            ObjectKey(str(request.get("namespace") or ""), str(request.get("name") or "")),
            UserInfo.decode(request.get("userInfo") or {}),
            request.get("object"),
            request.get("oldObject"),
            bool(request.get("dryRun")),
            request.get("options") or {},
        )


@dataclass(frozen=True)
class AdmissionResponse:
    allowed: bool
    message: str = ""
    code: int = 200
    reason: str = ""
    warnings: tuple[str, ...] = ()
    patch: tuple[Object, ...] = ()

    def document(self, uid: str) -> Object:
        response: Object = {"uid": uid, "allowed": self.allowed}
        if not self.allowed:
            response["status"] = {"status": "Failure", "message": self.message, "code": self.code, "reason": self.reason}
        if self.warnings:
            response["warnings"] = list(self.warnings)
        if self.patch:
            response["patchType"] = "JSONPatch"
            response["patch"] = base64.b64encode(orjson.dumps(self.patch)).decode()
        return response


def allow(*warnings: str) -> AdmissionResponse:
    return AdmissionResponse(True, warnings=warnings)


def deny(message: str, code: int = 403, reason: str = "Forbidden") -> AdmissionResponse:
    return AdmissionResponse(False, message, code, reason)


def mutate(request: AdmissionRequest, wanted: Object, *warnings: str) -> AdmissionResponse:
    """Allow, and change the object to `wanted`."""
    return AdmissionResponse(True, warnings=warnings, patch=tuple(json_patch(request.object or {}, wanted)))


def bad_request(message: str) -> Denied:
    """A denial of an invalid object, for any user."""
    return Denied(message, 400, "BadRequest")


def read(kind: type[R], document: Object | None) -> R:
    """The object of a review; one that does not match its kind is denied with the name of the field."""
    if not isinstance(document, Mapping):
        raise bad_request(f"the review carries no {kind.resource.kind}")
    try:
        return kind.decode(document)
    except api.MalformedObject as error:
        raise bad_request(str(error)) from error


Admit = Callable[[AdmissionRequest], Awaitable[AdmissionResponse]]
Convert = Callable[[Object, str], Awaitable[Object]]
"""From an object and the desired apiVersion to the converted object."""


class WebhookServer:
    """Serves webhooks by path, and `/healthz`. Webhooks can be registered before or while serving."""

    def __init__(
        self,
        tls: ssl.SSLContext | None = None,
        clients: WebhookClients | None = None,
        *,
        metrics: Metrics | None = None,
        clock: Clock = SYSTEM,
    ) -> None:
        """`tls` must request certificates of the clients' CA if `clients` are given."""
        self._metrics = metrics or Metrics()
        self._clients = clients
        self._clock = clock
        self._admissions: dict[str, Admit] = {}
        self._conversions: dict[str, Convert] = {}
        self._http = HttpServer(self._handle, tls=tls, max_body=MAX_REVIEW, reads_bodies=True)

    def admission(self, path: str, webhook: Admit) -> None:
        self._admissions[path] = webhook
        # Starts at 0: Prometheus sees no increase of a series that begins at 1.
        self._undecided(path)

    def conversion(self, path: str, webhook: Convert) -> None:
        self._conversions[path] = webhook

    async def start(self, host: str = "0.0.0.0", port: int = 9443) -> None:
        await self._http.start(host, port)

    @property
    def port(self) -> int:
        return self._http.port

    def replace_tls(self, context: ssl.SSLContext) -> None:
        """Serve new connections with another certificate."""
        self._http.replace_tls(context)

    async def stop(self, grace: float = 5.0) -> None:
        await self._http.stop(grace)

    async def _handle(self, request: Request) -> Response:
        if request.path == "/healthz":
            return Response(200, b"ok", content_type=_TEXT)
        if self._clients is not None and (problem := self._clients.problem(request.connection.peer_certificate, self._clock.now())):
            return Response(401, f"{problem}\n".encode(), content_type=_TEXT)
        admit, convert = self._admissions.get(request.path), self._conversions.get(request.path)
        if admit is None and convert is None:
            return Response(404, b"no webhook at this path\n", content_type=_TEXT)
        response = await self._review(request, admit, convert)
        self._metrics.counter(
            "controller_runtime_webhook_requests_total",
            "Total number of admission and conversion requests by webhook and HTTP status code",
            webhook=request.path,
            code=str(response.status),
        ).inc()
        return response

    def _undecided(self, path: str) -> Counter:
        return self._metrics.counter(
            "muster_webhook_undecided_reviews_total",
            "Total number of admission reviews that were denied because the webhook could not decide them (code 5xx)",
            webhook=path,
        )

    async def _review(self, request: Request, admit: Admit | None, convert: Convert | None) -> Response:
        if request.method != "POST":
            return Response(405, b"webhooks are called by POST\n", content_type=_TEXT)
        try:
            review = orjson.loads(await request.read_body())
            admission_request = review["request"]
            version = review["apiVersion"]
            admission = AdmissionRequest.read(admission_request) if admit else None
        except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError):
            return Response(400, b"the body is not a review\n", content_type=_TEXT)
        try:
            if admit is not None and admission is not None:
                decision = await _admit(admit, admission)
                if not decision.allowed and decision.code >= 500:
                    self._undecided(request.path).inc()
                response = decision.document(admission.uid)
            else:
                assert convert is not None
                response = await _convert(convert, admission_request)
        except Exception as error:
            log.error("webhook failed", path=request.path, error=f"{type(error).__name__}: {error}")
            return Response(500, b"the webhook failed\n", content_type=_TEXT)
        answer = {"apiVersion": version, "kind": review.get("kind"), "response": response}
        return Response(200, orjson.dumps(answer), content_type="application/json")


async def _admit(admit: Admit, request: AdmissionRequest) -> AdmissionResponse:
    try:
        return await admit(request)
    except Denied as refusal:
        return deny(refusal.message, refusal.code, refusal.reason)


async def _convert(convert: Convert, request: Mapping[str, Any]) -> Object:
    """All or nothing, as the API server expects: one object that cannot be converted fails the review."""
    desired = str(request["desiredAPIVersion"])
    try:
        converted = [await convert(obj, desired) for obj in request["objects"]]
    except Denied as refusal:
        return {"uid": request["uid"], "convertedObjects": [], "result": {"status": "Failure", "message": refusal.message}}
    return {"uid": request["uid"], "convertedObjects": converted, "result": {"status": "Success"}}
