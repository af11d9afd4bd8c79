"""One client for any Kubernetes API: the verbs, said once, over whatever carries requests.

`KubeClient` is what everything above asks for. It stands on two primitives: `exchange` (one request, the whole answer) and
`lines` (a watch, line by line). `http.py` carries them over HTTP, `fleet/in_process.py` into an embedded server in this process,
and a test that wants a server to misbehave overrides them. Lists and watches also come undecoded (`pages`, `watch`), because
informers keep bytes.
"""

from __future__ import annotations

import abc
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from typing import Any, Literal, NamedTuple, cast

import msgspec
import orjson

from muster.machinery.objects import GVR, Object
from muster.runtime.client.errors import StatusError, status_error

PAGE = 500
"""Objects per page, client-go's choice."""

PatchKind = Literal["merge", "json", "strategic"]
_PATCH_MEDIA: Mapping[PatchKind, str] = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
}
JSON = "application/json"
APPLY = "application/apply-patch+yaml"

EventType = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]
Query = dict[str, str]


class WatchEvent(NamedTuple):
    type: EventType
    raw: bytes
    """The object's JSON, undecoded."""


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


_decode_list = msgspec.json.Decoder(_List).decode
_decode_event = msgspec.json.Decoder(_Event).decode


class Page(NamedTuple):
    items: list[bytes]
    resource_version: str
    continuation: str


class ObjectList(NamedTuple):
    items: list[Object]
    resource_version: str


class KubeClient(abc.ABC):
    """What a controller may do to a cluster, over `exchange` and `lines`. Failures are `errors.KubeError`."""

    @property
    @abc.abstractmethod
    def server(self) -> str:
        """Where requests go, for logs and errors."""

    @abc.abstractmethod
    async def exchange(
        self, method: str, path: str, query: Query, body: bytes | None = None, media: str = JSON, *, idempotent: bool
    ) -> bytes:
        """The body of a successful answer; raises KubeError for every other end."""

    @abc.abstractmethod
    def lines(
        self, path: str, query: Query, timeout: float | None, opened: Callable[[], None] | None
    ) -> AsyncGenerator[bytes, None]:
        """The lines of a streamed answer until the server ends it; `opened` is called when it has begun to answer."""

    @abc.abstractmethod
    async def close(self) -> None: ...

    @abc.abstractmethod
    def as_user(self, name: str) -> KubeClient:
        """The same server, acting as somebody else, with the groups the server gives them (a service account's own). Needs the
        permission to impersonate them. It stands on this client's connections, and ends with it."""

    async def get(self, resource: GVR, name: str, namespace: str = "", *, subresource: str = "") -> Object:
        return _object(await self.exchange("GET", resource.path(namespace, name, subresource), {}, idempotent=True))

    async def pages(
        self,
        resource: GVR,
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = PAGE,
        resource_version: str = "",
    ) -> AsyncIterator[Page]:
        """Page by page, all of one state of the collection. `Expired` when a later page comes too late."""
        query = _selection(label_selector, field_selector)
        if limit:
            query["limit"] = str(limit)
        first = {"resourceVersion": resource_version} if resource_version else {}
        token = ""
        while True:
            asked = {**query, **({"continue": token} if token else first)}
            answer = await self.exchange("GET", resource.path(namespace), asked, idempotent=True)
            try:
                decoded = _decode_list(answer)
            except msgspec.DecodeError as error:
                raise StatusError(502, "", f"{self.server}: the answer to a list is no list: {error}") from error
            # Each item is copied out, so that the page's buffer can go.
            yield Page([bytes(item) for item in decoded.items or ()], decoded.metadata.resourceVersion, decoded.metadata.token)
            token = decoded.metadata.token
            if not token:
                return

    async def list(
        self, resource: GVR, namespace: str = "", *, label_selector: str = "", field_selector: str = "", limit: int = PAGE
    ) -> ObjectList:
        items: list[Object] = []
        version = ""
        async for page in self.pages(
            resource, namespace, label_selector=label_selector, field_selector=field_selector, limit=limit
        ):
            items += [_object(raw) for raw in page.items]
            version = page.resource_version
        return ObjectList(items, version)

    async def create(
        self,
        resource: GVR,
        obj: Object,
        namespace: str = "",
        *,
        name: str = "",
        subresource: str = "",
        manager: str = "",
        dry_run: bool = False,
    ) -> Object:
        """`name` and `subresource` are for the likes of serviceaccounts/token and pods/eviction."""
        path = resource.path(namespace or _namespace(obj), name, subresource)
        return _object(await self.exchange("POST", path, _write(manager, dry_run), orjson.dumps(obj), idempotent=False))

    async def update(
        self, resource: GVR, obj: Object, *, subresource: str = "", manager: str = "", dry_run: bool = False
    ) -> Object:
        path = resource.path(_namespace(obj), obj["metadata"]["name"], subresource)
        return _object(await self.exchange("PUT", path, _write(manager, dry_run), orjson.dumps(obj), idempotent=True))

    async def patch(
        self,
        resource: GVR,
        name: str,
        patch: object,
        namespace: str = "",
        *,
        kind: PatchKind = "merge",
        subresource: str = "",
        manager: str = "",
        dry_run: bool = False,
    ) -> Object:
        path, query = resource.path(namespace, name, subresource), _write(manager, dry_run)
        # A JSON patch may say "append": doing that twice is not the same.
        safe = kind != "json"
        return _object(await self.exchange("PATCH", path, query, orjson.dumps(patch), _PATCH_MEDIA[kind], idempotent=safe))

    async def apply(
        self,
        resource: GVR,
        obj: Object,
        *,
        manager: str,
        force: bool = True,
        subresource: str = "",
        dry_run: bool = False,
    ) -> Object:
        body = {"apiVersion": resource.api_version, "kind": resource.kind, **obj}
        path = resource.path(_namespace(obj), obj["metadata"]["name"], subresource)
        query = {**_write(manager, dry_run), "force": "true" if force else "false"}
        return _object(await self.exchange("PATCH", path, query, orjson.dumps(body), APPLY, idempotent=True))

    async def delete(
        self,
        resource: GVR,
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        resource_version: str = "",
        propagation: str = "",
        grace: int | None = None,
        dry_run: bool = False,
    ) -> Object:
        """`uid` and `resource_version` are preconditions: `Conflict` when the object is another one by now."""
        conditions = {k: v for k, v in (("uid", uid), ("resourceVersion", resource_version)) if v}
        options: Object = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if conditions:
            options["preconditions"] = conditions
        if propagation:
            options["propagationPolicy"] = propagation
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        if dry_run:
            # A server that is given a body does not look at the query.
            options["dryRun"] = ["All"]
        path = resource.path(namespace, name)
        return _object(await self.exchange("DELETE", path, {}, orjson.dumps(options), idempotent=True))

    async def delete_collection(
        self, resource: GVR, namespace: str = "", *, label_selector: str = "", field_selector: str = "", propagation: str = ""
    ) -> Object:
        query = _selection(label_selector, field_selector)
        if propagation:
            query["propagationPolicy"] = propagation
        return _object(await self.exchange("DELETE", resource.path(namespace), query, idempotent=True))

    async def watch(
        self,
        resource: GVR,
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        resource_version: str = "",
        initial_events: bool = False,
        timeout: float | None = None,
        opened: Callable[[], None] | None = None,
    ) -> AsyncGenerator[WatchEvent, None]:
        """Events until the server ends the watch; an ERROR event is raised as the error it carries.

        With `initial_events` the present state comes first, then a bookmark that says so (a WatchList). `opened` is called when
        the server has accepted the watch, which may be long before the first event.
        """
        query = {**_selection(label_selector, field_selector), "watch": "true", "allowWatchBookmarks": "true"}
        if resource_version:
            query["resourceVersion"] = resource_version
        if initial_events:
            query |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        if timeout is not None:
            query["timeoutSeconds"] = str(max(1, round(timeout)))
        lines = self.lines(resource.path(namespace), query, timeout, opened)
        try:
            async for line in lines:
                event = _decode_event(line)
                if event.type == "ERROR":
                    status = _object(bytes(event.object))
                    raise status_error(int(status.get("code") or 500), status)
                yield WatchEvent(cast(EventType, event.type), bytes(event.object))
        except msgspec.DecodeError as error:
            raise StatusError(500, "", f"{self.server}: a watch delivered something that is no event: {error}") from error
        finally:
            await lines.aclose()

    async def raw(self, method: str, path: str, query: Mapping[str, str] | None = None, body: object = None) -> bytes:
        """Any path of the server: `/version`, `/readyz`, an aggregated API's own verbs."""
        payload = body if isinstance(body, bytes | None) else orjson.dumps(body)
        return await self.exchange(method, path, dict(query or {}), payload, idempotent=method in ("GET", "HEAD"))


def _object(raw: bytes) -> Object:
    try:
        return cast(Object, orjson.loads(raw))
    except orjson.JSONDecodeError as error:
        raise StatusError(502, "", f"the answer is not JSON: {raw[:100].decode(errors='replace')!r}") from error


def _namespace(obj: Mapping[str, Any]) -> str:
    return str((obj.get("metadata") or {}).get("namespace") or "")


def _selection(label_selector: str, field_selector: str) -> Query:
    return {k: v for k, v in (("labelSelector", label_selector), ("fieldSelector", field_selector)) if v}


def _write(manager: str, dry_run: bool) -> Query:
    return {k: v for k, v in (("fieldManager", manager), ("dryRun", "All" if dry_run else "")) if v}
