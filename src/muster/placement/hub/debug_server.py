"""Explanations of scheduling results over HTTPS, with the responses of OCM's debug service.

`GET /debug/placements/<namespace>/<name>` explains an existing placement, `POST /debug/placements/` a hypothetical one, sent as
JSON. The caller needs a bearer token of the hub, and the permission to get placements in that namespace (GET) or to create them
there (POST): the response has clusters and scores, as a placement would. The body is not read before authentication. The
controller's own inventory and scheduling are used, so the service runs in its process.

Responses are JSON; an error has the one field `error`.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

import orjson

from muster.api import Document, MalformedObject
from muster.api.cluster.v1beta1 import Placement
from muster.http import HttpServer, Request, Response, server_context
from muster.kube.names import dns1123_label
from muster.machinery.authorization import AccessAttributes
from muster.machinery.clock import SYSTEM, Clock
from muster.machinery.logs import get_logger
from muster.machinery.objects import ObjectKey
from muster.placement.explanation import debug_document
from muster.placement.hub.inventory import Inventory
from muster.placement.scheduler import schedule
from muster.runtime.auth import Authenticator, Authorizer
from muster.runtime.client import KubeError
from muster.runtime.webhook import make_pair

log = get_logger("muster.placement.hub.debug_server")

PATH: Final = "/debug/placements/"
MAX_BODY: Final = 1024 * 1024
CERTIFICATE_LIFETIME: Final = timedelta(days=3650)
_BEARER: Final = "bearer"
_VERBS: Final = {"GET": "get", "POST": "create"}


class Refused(Exception):
    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class DebugOptions:
    """The listen address. The certificate is created at each start: callers verify it by the log, or not at all."""

    host: str
    port: int


class DebugServer:
    """Its owner runs `run` as a task. `find` returns an existing placement."""

    def __init__(
        self,
        inventory: Inventory,
        find: Callable[[ObjectKey], Placement | None],
        authenticator: Authenticator,
        authorizer: Authorizer,
        options: DebugOptions,
        *,
        clock: Clock = SYSTEM,
    ) -> None:
        self._inventory = inventory
        self._find = find
        self._authenticator = authenticator
        self._authorizer = authorizer
        self._options = options
        self._clock = clock
        self._http: HttpServer | None = None

    @property
    def port(self) -> int:
        """The port; 0 while it is not listening."""
        return 0 if self._http is None else self._http.port

    async def run(self) -> None:
        server = HttpServer(self.handle, tls=await asyncio.to_thread(self._tls), max_body=MAX_BODY, reads_bodies=True)
        await server.start(self._options.host, self._options.port)
        self._http = server
        log.info("debug service listens", host=self._options.host, port=server.port)
        try:
            await asyncio.Event().wait()
        finally:
            self._http = None
            await server.stop(grace=1.0)

    def _tls(self) -> ssl.SSLContext:
        pair = make_pair([self._options.host], self._clock.now(), CERTIFICATE_LIFETIME)
        return server_context(pair.cert, pair.key)

    async def handle(self, request: Request) -> Response:
        try:
            return _answer(200, await self._explain(request))
        except Refused as refusal:
            return _answer(refusal.status, {"error": str(refusal)})
        except KubeError as error:
            log.error("debug service cannot create access reviews on the hub", error=str(error))
            return _answer(500, {"error": "the hub could not authenticate or authorize the request"})

    async def _explain(self, request: Request) -> Document:
        if not request.path.startswith(PATH):
            raise Refused(404, f"there is nothing here but {PATH}<namespace>/<name>")
        verb = _VERBS.get(request.method)
        if verb is None:
            raise Refused(405, "use GET with <namespace>/<name>, or POST with a Placement")
        who = await self._authenticator.authenticate(_token(request))
        if who is None:
            raise Refused(401, "give a bearer token of the hub")
        placement = None
        if verb == "get":
            key = _key(request.path)
        else:
            placement = _placement(request.path, await request.read_body())
            key = ObjectKey(placement.metadata.namespace, placement.metadata.name)
        resource = Placement.resource
        name = key.name if verb == "get" else ""
        access = AccessAttributes(verb, resource.group, resource.version, resource.plural, namespace=key.namespace, name=name)
        if not (await self._authorizer.authorize(who, access)).allowed:
            raise Refused(403, f"{who.name} may not {verb} placements in namespace {key.namespace}")
        placement = placement or self._find(key)
        if placement is None:
            raise Refused(404, f"there is no Placement {key}")
        world = self._inventory.world(placement, self._clock.now())
        return debug_document(placement, schedule(placement, world))


def _token(request: Request) -> str:
    scheme, _, token = (request.headers.get("authorization") or "").partition(" ")
    return token.strip() if scheme.lower() == _BEARER else ""


def _key(path: str) -> ObjectKey:
    namespace, separator, name = path.removeprefix(PATH).partition("/")
    if not separator or not name or "/" in name or dns1123_label(namespace):
        raise Refused(400, f"expected {PATH}<namespace>/<name>")
    return ObjectKey(namespace, name)


def _placement(path: str, body: bytes) -> Placement:
    if path != PATH:
        raise Refused(400, f"send a Placement to {PATH}")
    try:
        document = orjson.loads(body)
        placement = Placement.decode(document) if isinstance(document, dict) else None
    except (orjson.JSONDecodeError, MalformedObject) as error:
        raise Refused(400, f"the body is no Placement: {error}") from None
    if placement is None or document.get("kind", Placement.resource.kind) != Placement.resource.kind:
        raise Refused(400, "the body is no Placement")
    if not placement.metadata.namespace:
        raise Refused(400, "metadata.namespace: required, the namespace of the placement")
    # A hypothetical placement has no decisions: a uid in the body could be that of another one.
    return Placement.decode({**document, "metadata": {**document["metadata"], "uid": ""}})


def _answer(status: int, document: Document) -> Response:
    return Response(status, orjson.dumps(document), content_type="application/json")
