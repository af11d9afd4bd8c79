"""An aggregated API of one kind whose objects are computed, not stored: the components of the API server on a table of one
resource.

`VirtualApi` is a facade. Its owner puts and removes documents; clients get, list and watch them like any resource, with tables,
selectors, pages, bookmarks, discovery and OpenAPI, and get 405 for every write. The owner implements the subresources. One that
takes a path (`…/proxy/…`) is called with every method and gets the unmodified request: its body is not read, its path neither
decoded nor cleaned. The path before the name of such a subresource must be in plain form, so that a later reader of the path cannot
take it for another object than the one that was authorized here.

The owner authenticates and authorizes; `serve` expects a user who may send the request.

Objects are in memory, so every process counts its own revisions. Their high bits are the number of the replica: a revision of
another process (or of this one before a restart) is answered 410 Expired in lists, watches and continue tokens, and clients list
again. It is never taken for a revision of this process, which would skip events, or for a future one, for which clients would
wait.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from muster.api.crds import Definition, definitions
from muster.api.resource import TypedObject
from muster.apiserver.access_rules import PreauthorizedRules
from muster.apiserver.aggregation import Aggregator
from muster.apiserver.cluster import Clock, Cluster, utc_now
from muster.apiserver.context import Context
from muster.apiserver.crd.compiled import CustomStrategy, compile_definition, compiled_schema
from muster.apiserver.crd.converters import NopConverter
from muster.apiserver.errors import ApiError, bad_request, expired
from muster.apiserver.fairness import FairQueue
from muster.apiserver.handlers.continue_tokens import decode_token, encode_token
from muster.apiserver.handlers.reads import EXPIRED_CONTINUE, TOO_OLD
from muster.apiserver.handlers.watches import with_revision
from muster.apiserver.long_running_requests import OpenRequests
from muster.apiserver.nonresource.discovery import Discovery
from muster.apiserver.nonresource.health import Check, Health
from muster.apiserver.nonresource.metrics import RequestMetrics
from muster.apiserver.nonresource.openapi import OpenApi
from muster.apiserver.objects import encoder
from muster.apiserver.pipeline import Answer, Pipeline, SubresourceHandler, status_response
from muster.apiserver.registry.resource import ServedResource, Subresource
from muster.apiserver.registry.table import ResourceTable
from muster.apiserver.request import number_problem, parse_query
from muster.http import Request, Response
from muster.machinery.authentication import UserInfo
from muster.machinery.metrics import Metrics
from muster.store import MemoryStore, Retention

__all__ = ["Answer", "ApiError", "SubresourceRequestHandler", "VirtualApi", "VirtualSubresource", "new_replica", "status_response"]

REVISION_BITS: Final = 36
"""Enough for a thousand changes per second for two years."""
REPLICA_BITS: Final = 63 - REVISION_BITS
_CLUSTER: Final = "virtual"
_HISTORY: Final = Retention(bytes=4 << 20)
"""The history from which watches continue; small, because some objects change all the time."""
_READS: Final = ("get", "list", "watch")
_METHODS: Final = {"get": "GET", "create": "POST", "update": "PUT", "patch": "PATCH", "delete": "DELETE"}

SubresourceRequestHandler = Callable[[Request, UserInfo, str], Awaitable[Answer]]
"""Serves a request for a subresource; arguments: the unmodified request, its user, the name of the object. Raises ApiError."""


@dataclass(frozen=True, slots=True)
class VirtualSubresource:
    """`verbs` and `kind` are shown in discovery; the default kind is that of the parent. One that does not take a path is only
    called with the methods of its verbs."""

    handler: SubresourceRequestHandler
    verbs: tuple[str, ...] = ("get",)
    kind: str = ""
    takes_path: bool = False


def new_replica() -> int:
    """A random number for a process, which no other process is likely to have."""
    return secrets.randbelow((1 << REPLICA_BITS) - 1) + 1


class VirtualApi:
    """An aggregated API of computed objects (see the module docstring).

    `served` are the groups and versions in which the kind is served, all with the schema of `kind`; by default its own. `replica`
    must be different in every process and after every restart; by default it is random. `ready` returns the reason why the owner is
    not ready, if it is not, for `/readyz`."""

    def __init__(
        self,
        kind: type[TypedObject],
        *,
        subresources: Mapping[str, VirtualSubresource],
        served: Sequence[tuple[str, str]] = (),
        replica: int | None = None,
        clock: Clock = utc_now,
        ready: Check = lambda: None,
        metrics: Metrics | None = None,
    ) -> None:
        self._replica = new_replica() if replica is None else replica
        if not 0 <= self._replica < 1 << REPLICA_BITS:
            raise ValueError(f"replica is {replica}: give it a number from 0 to {(1 << REPLICA_BITS) - 1}")
        self._store = MemoryStore(_HISTORY, after=self._replica << REVISION_BITS | 1)
        self._store.add_cluster(_CLUSTER)
        rows = _rows(kind, served or ((kind.resource.group, kind.resource.version),), subresources)
        self._row = rows[0]
        self._subresources = dict(subresources)
        self._roots = frozenset((row.group, row.version, row.plural) for row in rows)
        self._cluster = Cluster(_CLUSTER, "", self._store, ResourceTable({}), clock)
        for group in dict.fromkeys(row.group for row in rows):
            self._cluster.resources.replace_custom(group, self._row.plural, [row for row in rows if row.group == group])
        self._cluster.rules = PreauthorizedRules()
        self._cluster.add(OpenRequests(self._cluster))
        self._cluster.add(Aggregator(self._cluster))
        self._pipeline = Pipeline(
            _Documents(self._cluster, ready),
            {(self._row.storage, name): self._handler(name, sub) for name, sub in subresources.items()},
            {},
            FairQueue(),
            RequestMetrics(metrics or Metrics()),
        )

    async def start(self) -> None:
        await self._store.start()

    async def stop(self) -> None:
        """End watches and streams of subresources."""
        self._cluster.part(OpenRequests).end_all()
        self._cluster.worker.close()
        await self._store.close()

    # Objects

    def put(self, document: Mapping[str, Any]) -> bool:
        """Add or replace an object; return whether it has changed. Its metadata is shown as given, except for resourceVersion.
        Raises ValueError for an object without a name."""
        metadata = document.get("metadata") or {}
        name = metadata.get("name")
        if not isinstance(name, str) or not name:
            raise ValueError(f"{self._row.kind} has no metadata.name: an object is shown under its name")
        encode = encoder({**document, "metadata": dict(metadata)}, self._row.type_prefix)
        head = self._store.get(_CLUSTER, self._row.storage, name)
        if head is not None and encode(head.revision) == head.value:
            return False
        self._store.write(_CLUSTER, self._row.storage, name, encode)
        return True

    def remove(self, name: str) -> bool:
        """Remove an object; return whether it existed."""
        head = self._store.get(_CLUSTER, self._row.storage, name)
        if head is None:
            return False
        self._store.write(_CLUSTER, self._row.storage, name, lambda revision: with_revision(head, revision), delete=True)
        return True

    def encoded(self, name: str) -> bytes | None:
        """An object as JSON, as clients get it; None if it does not exist."""
        head = self._store.get(_CLUSTER, self._row.storage, name)
        return None if head is None else head.value

    def replace_all(self, documents: Iterable[Mapping[str, Any]]) -> None:
        """Replace all objects by these."""
        desired = {document["metadata"]["name"]: document for document in documents}
        for name in [entry.key for entry in self._store.list(_CLUSTER, self._row.storage) if entry.key not in desired]:
            self.remove(name)
        for document in desired.values():
            self.put(document)

    # Requests

    def streams(self, request: Request) -> bool:
        """Whether a handler reads the body itself, for `HttpServer(stream_body=…)`."""
        return self._takes_path(request.raw_path)

    async def serve(self, request: Request, user: UserInfo) -> Answer:
        """Serve an authorized request of a user."""
        if self._takes_path(request.raw_path):
            if "//" in request.raw_path:
                return status_response(bad_request("the path has an empty segment (//): write one slash between segments"))
            return await self._pipeline.serve(self._cluster, request, request.raw_path, user)
        problem = self._expired(request)
        if problem is not None:
            return status_response(problem)
        answer = await self._pipeline.serve(self._cluster, request, request.raw_path, user)
        if isinstance(answer, Response) and answer.status == 405:
            answer.headers = [*answer.headers, ("Allow", self._allowed(request))]
        return answer

    def _handler(self, name: str, subresource: VirtualSubresource) -> SubresourceHandler:
        answer = subresource.handler

        async def handle(ctx: Context, resource: ServedResource, object_name: str) -> Answer:
            if subresource.takes_path:
                plain = f"/apis/{resource.group}/{resource.version}/{resource.plural}/{object_name}/{name}"
                path = ctx.request.raw_path
                if not (path == plain or path.startswith(plain + "/")):
                    raise bad_request(f"the path is ambiguous: up to {name} it must be written as {plain}")
            return await answer(ctx.request, ctx.user, object_name)

        return handle

    def _takes_path(self, raw_path: str) -> bool:
        parts = raw_path.split("/", 7)
        if len(parts) < 7 or (parts[2], parts[3], parts[4]) not in self._roots or parts[1] != "apis":
            return False
        sub = self._subresources.get(parts[6])
        return sub is not None and sub.takes_path

    def _expired(self, request: Request) -> ApiError | None:
        """The 410 error for a revision of another process, if the request has one."""
        if not request.query:
            return None
        query = parse_query(request.query)
        version = query.get("resourceVersion")
        if version and not number_problem(version, 64) and not self._is_own(int(version)):
            return expired(TOO_OLD % (int(version), self._store.revision))
        token = query.get("continue")
        if token:
            try:
                revision, start = decode_token(token)
            except ApiError:
                return None  # the list reports the invalid token
            if revision is not None and not self._is_own(revision):
                return expired(EXPIRED_CONTINUE, encode_token(-1, start))
        return None

    def _is_own(self, revision: int) -> bool:
        return revision == 0 or (revision >> REVISION_BITS == self._replica and revision <= self._store.revision)

    def _allowed(self, request: Request) -> str:
        parts = request.raw_path.split("/", 7)
        sub = self._subresources.get(parts[6]) if len(parts) > 6 else None
        return "GET" if sub is None else ", ".join(_METHODS[verb] for verb in sub.verbs if verb in _METHODS)


class _Documents:
    """Paths outside the resource tree."""

    def __init__(self, cluster: Cluster, ready: Check) -> None:
        self._health = Health({"ping": lambda: None}, {"ready": ready})
        self._discovery = Discovery(cluster)
        self._openapi = OpenApi(cluster)

    async def __call__(self, ctx: Context) -> Answer | None:
        return self._health.serve(ctx) or self._openapi.serve(ctx) or await self._discovery.serve(ctx)


def _rows(
    kind: type[TypedObject], served: Sequence[tuple[str, str]], subresources: Mapping[str, VirtualSubresource]
) -> list[ServedResource]:
    """One row for each group and version. They share the stored objects, which have the first version."""
    document = definitions([Definition((kind,), kind.resource.version)])[0]
    spec = document["spec"]
    schema = compiled_schema(spec["versions"][0]["schema"]["openAPIV3Schema"])
    own = compile_definition(document)[0]
    schemas = {f"{group}/{version}": schema for group, version in served}
    stored = next(iter(schemas))
    rows = {
        name: Subresource(name, sub.kind or own.kind, sub.verbs, storage=False, takes_path=sub.takes_path)
        for name, sub in subresources.items()
    }
    return [
        replace(
            own,
            group=group,
            version=version,
            verbs=_READS,
            subresources=rows,
            storage=f"{served[0][0]}/{own.plural}",
            storage_version=stored,
            strategy=CustomStrategy(f"{group}/{version}", stored, schemas, NopConverter(), None, False),
        )
        for group, version in served
    ]
