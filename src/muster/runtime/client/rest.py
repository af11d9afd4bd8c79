"""The verbs as HTTP requests: paths, queries, media types and bodies, independent of the transport.

`RestClient` has two primitives: `exchange` (one request, the whole response) and `lines` (a stream, line by line). `http.py` sends
them over the network, `embedded/in_process.py` to an embedded server in this process, and tests override them to simulate failures.
"""

from __future__ import annotations

import abc
import builtins
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from typing import Any, TypeVar, cast

import msgspec
import orjson

from muster.machinery.objects import GVR, Object
from muster.runtime.client.base import PAGE, EventType, FieldValidation, KubeClient, ObjectList, Page, PatchKind, WatchEvent
from muster.runtime.client.errors import Forbidden, NotFound, StatusError, status_error
from muster.runtime.client.typed import Kind, WritableKind, document_of, gvr_of, namespace_of

T = TypeVar("T")

JSON = "application/json"
APPLY = "application/apply-patch+yaml"
_PATCH_MEDIA: Mapping[PatchKind, str] = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
}

Query = dict[str, str]


class _ListMeta(msgspec.Struct):
    resourceVersion: str = ""
    # `continue` is a keyword.
    token: str = msgspec.field(default="", name="continue")


class _List(msgspec.Struct):
    metadata: _ListMeta = msgspec.field(default_factory=_ListMeta)
    items: list[msgspec.Raw] | None = None


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _ApiResource(msgspec.Struct):
    name: str
    kind: str
    namespaced: bool = False


class _ApiResources(msgspec.Struct):
    resources: list[_ApiResource] | None = None


class _GroupVersion(msgspec.Struct):
    groupVersion: str


class _ApiGroup(msgspec.Struct):
    versions: list[_GroupVersion] | None = None


_decode_list = msgspec.json.Decoder(_List).decode
_decode_event = msgspec.json.Decoder(_Event).decode
_decode_resources = msgspec.json.Decoder(_ApiResources)
_decode_group = msgspec.json.Decoder(_ApiGroup)


class RestClient(KubeClient, abc.ABC):
    """`KubeClient` over `exchange` and `lines`."""

    @property
    @abc.abstractmethod
    def server(self) -> str: ...

    @abc.abstractmethod
    async def exchange(
        self, method: str, path: str, query: Query, body: bytes | None = None, media: str = JSON, *, idempotent: bool
    ) -> bytes:
        """The body of a successful response; raises KubeError otherwise."""

    @abc.abstractmethod
    def lines(
        self, path: str, query: Query, timeout: float | None, opened: Callable[[], None] | None
    ) -> AsyncGenerator[bytes, None]:
        """The lines of a streamed response until the server ends it; `opened` is called when the response has begun."""

    @abc.abstractmethod
    async def close(self) -> None: ...

    @abc.abstractmethod
    def as_user(self, name: str) -> RestClient: ...

    async def raw(self, method: str, path: str, query: Mapping[str, str] | None = None, body: object = None) -> bytes:
        """A request to any path of the server: `/metrics`, a pod's log, verbs of an aggregated API."""
        payload = body if isinstance(body, bytes | None) else orjson.dumps(body)
        return await self.exchange(method, path, dict(query or {}), payload, idempotent=method in ("GET", "HEAD"))

    async def get(self, resource: Kind[T], name: str, namespace: str = "", *, subresource: str = "") -> T:
        path = gvr_of(resource).path(namespace, name, subresource)
        return _read(resource, await self.exchange("GET", path, {}, idempotent=True))

    async def pages(
        self,
        resource: Kind[Any],
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = PAGE,
        resource_version: str = "",
    ) -> AsyncIterator[Page]:
        query = _selection(label_selector, field_selector)
        if limit:
            query["limit"] = str(limit)
        first = {"resourceVersion": resource_version} if resource_version else {}
        path, token = gvr_of(resource).path(namespace), ""
        while True:
            parameters = {**query, **({"continue": token} if token else first)}
            answer = await self.exchange("GET", path, parameters, idempotent=True)
            try:
                decoded = _decode_list(answer)
            except msgspec.DecodeError as error:
                raise StatusError(502, "", f"{self.server}: the answer to a list is no list: {error}") from error
            # Each item is copied, so that the page's buffer can be freed.
            yield Page([bytes(item) for item in decoded.items or ()], decoded.metadata.resourceVersion, decoded.metadata.token)
            token = decoded.metadata.token
            if not token:
                return

    async def list(
        self, resource: Kind[T], namespace: str = "", *, label_selector: str = "", field_selector: str = "", limit: int = PAGE
    ) -> ObjectList[T]:
        items: list[T] = []
        version = ""
        async for page in self.pages(
            resource, namespace, label_selector=label_selector, field_selector=field_selector, limit=limit
        ):
            items += [_read(resource, raw) for raw in page.items]
            version = page.resource_version
        return ObjectList(items, version)

    async def create(
        self,
        resource: WritableKind[T],
        obj: T,
        namespace: str = "",
        *,
        name: str = "",
        subresource: str = "",
        manager: str = "",
        dry_run: bool = False,
        field_validation: FieldValidation = "",
    ) -> T:
        document = document_of(resource, obj)
        path = gvr_of(resource).path(namespace or namespace_of(document), name, subresource)
        body = orjson.dumps(document)
        return _read(
            resource, await self.exchange("POST", path, _write(manager, dry_run, field_validation), body, idempotent=False)
        )

    async def update(
        self,
        resource: Kind[T],
        obj: Object,
        *,
        subresource: str = "",
        manager: str = "",
        dry_run: bool = False,
        field_validation: FieldValidation = "",
    ) -> T:
        path = gvr_of(resource).path(namespace_of(obj), obj["metadata"]["name"], subresource)
        body = orjson.dumps(obj)
        return _read(resource, await self.exchange("PUT", path, _write(manager, dry_run, field_validation), body, idempotent=True))

    async def patch(
        self,
        resource: Kind[T],
        name: str,
        patch: object,
        namespace: str = "",
        *,
        kind: PatchKind = "merge",
        subresource: str = "",
        manager: str = "",
        dry_run: bool = False,
        field_validation: FieldValidation = "",
    ) -> T:
        path, query = gvr_of(resource).path(namespace, name, subresource), _write(manager, dry_run, field_validation)
        # A JSON patch may append: applied twice it has another result.
        safe = kind != "json"
        answer = await self.exchange("PATCH", path, query, orjson.dumps(patch), _PATCH_MEDIA[kind], idempotent=safe)
        return _read(resource, answer)

    async def apply(
        self,
        resource: WritableKind[T],
        obj: T | Object,
        *,
        manager: str,
        force: bool = True,
        subresource: str = "",
        dry_run: bool = False,
        field_validation: FieldValidation = "",
    ) -> T:
        gvr, document = gvr_of(resource), document_of(resource, obj)
        body = {"apiVersion": gvr.api_version, "kind": gvr.kind, **document}
        path = gvr.path(namespace_of(document), document["metadata"]["name"], subresource)
        query = {**_write(manager, dry_run, field_validation), "force": "true" if force else "false"}
        return _read(resource, await self.exchange("PATCH", path, query, orjson.dumps(body), APPLY, idempotent=True))

    async def delete(
        self,
        resource: Kind[Any],
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        resource_version: str = "",
        propagation: str = "",
        grace: int | None = None,
        dry_run: bool = False,
    ) -> Object:
        conditions = {k: v for k, v in (("uid", uid), ("resourceVersion", resource_version)) if v}
        options: Object = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if conditions:
            options["preconditions"] = conditions
        if propagation:
            options["propagationPolicy"] = propagation
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        if dry_run:
            # A server ignores the query if there is a body (DeleteOptions).
            options["dryRun"] = ["All"]
        path = gvr_of(resource).path(namespace, name)
        return _object(await self.exchange("DELETE", path, {}, orjson.dumps(options), idempotent=True))

    async def delete_collection(
        self,
        resource: Kind[Any],
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        propagation: str = "",
        dry_run: bool = False,
    ) -> Object:
        query = {**_selection(label_selector, field_selector), **_write("", dry_run)}
        if propagation:
            query["propagationPolicy"] = propagation
        return _object(await self.exchange("DELETE", gvr_of(resource).path(namespace), query, idempotent=True))

    async def watch(
        self,
        resource: Kind[T],
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        resource_version: str = "",
        initial_events: bool = False,
        timeout: float | None = None,
        opened: Callable[[], None] | None = None,
    ) -> AsyncGenerator[WatchEvent[T], None]:
        query = {**_selection(label_selector, field_selector), "watch": "true", "allowWatchBookmarks": "true"}
        if resource_version:
            query["resourceVersion"] = resource_version
        if initial_events:
            query |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        if timeout is not None:
            query["timeoutSeconds"] = str(max(1, round(timeout)))
        lines = self.lines(gvr_of(resource).path(namespace), query, timeout, opened)
        try:
            async for line in lines:
                event = _decode_event(line)
                if event.type == "ERROR":
                    status = _object(bytes(event.object))
                    raise status_error(int(status.get("code") or 500), status)
                yield WatchEvent(cast(EventType, event.type), bytes(event.object), resource)
        except msgspec.DecodeError as error:
            raise StatusError(500, "", f"{self.server}: a watch delivered something that is no event: {error}") from error
        finally:
            await lines.aclose()

    async def api_resources(self, api_version: str) -> builtins.list[GVR]:
        found = await self._discover(_decode_resources, f"{'/apis' if '/' in api_version else '/api'}/{api_version}")
        rows = found.resources or ()
        return [GVR(api_version, row.name, row.kind, row.namespaced) for row in rows if "/" not in row.name]

    async def api_versions(self, group: str) -> builtins.list[str]:
        found = await self._discover(_decode_group, f"/apis/{group}")
        return [version.groupVersion for version in found.versions or ()]

    async def _discover(self, decoder: msgspec.json.Decoder[T], path: str) -> T:
        try:
            return decoder.decode(await self.exchange("GET", path, {}, idempotent=True))
        except msgspec.DecodeError as error:
            raise StatusError(502, "", f"{self.server}: {path} answers something else than discovery: {error}") from error

    async def server_version(self) -> str:
        answer = _object(await self.exchange("GET", "/version", {}, idempotent=True))
        return str(answer.get("gitVersion") or "") if isinstance(answer, dict) else ""

    async def check_health(self) -> None:
        try:
            await self.exchange("GET", "/livez", {}, idempotent=True)
        except (NotFound, Forbidden):
            # Older servers have only this path, and some permit only this one to all users.
            await self.exchange("GET", "/healthz", {}, idempotent=True)


def _read(resource: Kind[T], raw: bytes) -> T:
    try:
        return resource.decode(raw)
    except orjson.JSONDecodeError as error:
        raise _no_json(raw) from error


def _object(raw: bytes) -> Object:
    try:
        return cast(Object, orjson.loads(raw))
    except orjson.JSONDecodeError as error:
        raise _no_json(raw) from error


def _no_json(raw: bytes) -> StatusError:
    return StatusError(502, "", f"the answer is not JSON: {raw[:100].decode(errors='replace')!r}")


def _selection(label_selector: str, field_selector: str) -> Query:
    return {k: v for k, v in (("labelSelector", label_selector), ("fieldSelector", field_selector)) if v}


def _write(manager: str, dry_run: bool, field_validation: FieldValidation = "") -> Query:
    options = (("fieldManager", manager), ("dryRun", "All" if dry_run else ""), ("fieldValidation", field_validation))
    return {k: v for k, v in options if v}
