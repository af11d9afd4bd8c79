"""A `KubeClient` over the transport: reads come from a mirror of the hub's objects, writes are sent as events.

A kind is subscribed when it is first read or written, with one stream (`subscriptions.py`), so an agent has no more streams than it
needs. Reads wait until the mirror is synced and fail as with an API server if it cannot be: `Unauthorized`, `Forbidden`,
`Unreachable`. Versions are the hub's, so writes with a resourceVersion fail with `Conflict` as usual. Patches are applied here and
sent as whole objects.

A write returns the hub's object as it comes back on the stream; without an event for a while, the object that was sent. Operations
that the transport does not support (deletions, server-side apply, other kinds) are refused as MethodNotAllowed, with the verb and
the kind.
"""

from __future__ import annotations

import asyncio
import builtins
import random as chance
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from typing import Any, Final, NoReturn, TypeVar

from muster.kube.patching.jsonpatch import PatchError, apply_json_patch
from muster.kube.patching.mergepatch import apply_merge_patch
from muster.machinery.clock import SYSTEM, Clock, Random, pause, sleep
from muster.machinery.logs import get_logger
from muster.machinery.objects import GVR, Object, ObjectKey
from muster.runtime.client import (
    PAGE,
    Conflict,
    Expired,
    FieldValidation,
    Invalid,
    Kind,
    KubeClient,
    NotFound,
    ObjectList,
    Page,
    PatchKind,
    StatusError,
    Unreachable,
    WatchEvent,
    WritableKind,
    document_of,
    gvr_of,
    namespace_of,
)
from muster.runtime.client.builtin import SERVICE_ACCOUNTS
from muster.transport.client.connection import HubConnection, is_refusal
from muster.transport.client.mirror import Entry, Mirror
from muster.transport.client.subscriptions import Subscription
from muster.transport.client.tokens import request_token
from muster.transport.client.watches import MirrorWatch, collection_version, selection
from muster.transport.codecs.objects import encode_object
from muster.transport.contract.rows import CLUSTERS, ROWS, Row, Versioned
from muster.transport.contract.types import Action, EventType, Subresource

log = get_logger("muster.transport.client")

T = TypeVar("T")

ECHO_TIMEOUT: Final = 5.0
"""How long to wait for the hub's event about a write."""
CONFLICT_WAIT: Final = 1.0
CONFLICT_ATTEMPTS: Final = 4
CREDENTIAL_SECONDS: Final = 5.0
"""Seconds between checks whether the credential has changed."""

_BY_RESOURCE: Final[Mapping[GVR, Row]] = {row.resource: row for row in ROWS.values()}


class TransportClient(KubeClient):
    """`cluster` is the agent's cluster, `source` the source of its events; without one, the cluster."""

    def __init__(
        self,
        connection: HubConnection,
        cluster: str,
        *,
        source: str = "",
        health_timeout: float | None = None,
        credential: Callable[[], object] | None = None,
        clock: Clock = SYSTEM,
        random: Random = chance.random,
    ) -> None:
        """`credential` returns a value that changes with the credential."""
        self.connection = connection
        self.cluster = cluster
        self.source = source or cluster
        self._health_timeout = health_timeout
        self._credential = credential
        self._clock = clock
        self._random = random
        self._subscriptions: dict[Row, Subscription] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._closed = False

    @property
    def server(self) -> str:
        return self.connection.server

    async def close(self) -> None:
        self._closed = True
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.connection.close()

    def as_user(self, name: str) -> KubeClient:
        self._unsupported("impersonate", "users")

    # Subscriptions.

    def subscription(self, row: Row) -> Subscription:
        """The subscription of a row, started if there is none yet."""
        found = self._subscriptions.get(row)
        if found is None:
            if self._closed:
                raise Unreachable(self.server, "the client is closed", sent=False)
            found = self._subscriptions[row] = Subscription(
                self.connection,
                row,
                self.cluster,
                self.source,
                health_timeout=self._health_timeout,
                clock=self._clock,
                random=self._random,
            )
            if self._credential is not None and not self._tasks:
                self._tasks.append(asyncio.create_task(self._follow_credential(self._credential)))
            self._tasks.append(asyncio.create_task(found.run()))
        return found

    async def _follow_credential(self, credential: Callable[[], object]) -> None:
        known = credential()
        while True:
            await sleep(self._clock, CREDENTIAL_SECONDS)
            found = credential()
            if found != known:
                known = found
                log.info("moving to a new credential", cluster=self.cluster, server=self.server)
                self.connection.renew()
                for subscription in self._subscriptions.values():
                    subscription.hurry()

    async def check_health(self) -> None:
        """The streams are open, and the last publish succeeded."""
        for subscription in list(self._subscriptions.values()) or [self.subscription(CLUSTERS)]:
            await subscription.ready()
        if self.connection.publish_problem is not None:
            raise self.connection.publish_problem

    # Reads.

    async def get(self, resource: Kind[T], name: str, namespace: str = "", *, subresource: str = "") -> T:
        gvr = gvr_of(resource)
        row = self._row(gvr, "get")
        if subresource not in ("", "status"):
            self._unsupported("get", f"{gvr}/{subresource}")
        mirror = await self._mirror(row)
        try:
            return resource.decode(self._entry(mirror, gvr, name, namespace).raw)
        except NotFound:
            if not self.connection.markers:
                # Such a server may have answered before it served the stream: a further read finds what was missed.
                self.subscription(row).request_resync()
            raise

    async def list(
        self, resource: Kind[T], namespace: str = "", *, label_selector: str = "", field_selector: str = "", limit: int = PAGE
    ) -> ObjectList[T]:
        items: list[T] = []
        version = ""
        async for page in self.pages(resource, namespace, label_selector=label_selector, field_selector=field_selector, limit=0):
            items += [resource.decode(raw) for raw in page.items]
            version = page.resource_version
        return ObjectList(items, version)

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
        selected = selection(namespace, label_selector, field_selector)
        mirror = await self._mirror(self._row(gvr_of(resource), "list"))
        items = [entry.raw for entry in mirror if selected(entry)]
        version = collection_version(mirror.revision)
        step = limit or len(items) or 1
        for start in range(0, max(len(items), 1), step):
            more = start + step < len(items)
            yield Page(items[start : start + step], version, str(start + step) if more else "")

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
        """Lasts as long as the subscription; `timeout` is ignored, since no server is relieved by it."""
        gvr = gvr_of(resource)
        selected = selection(namespace, label_selector, field_selector)
        row = self._row(gvr, "watch")
        mirror = await self._mirror(row)
        if not initial_events and resource_version not in ("", "0", collection_version(mirror.revision)):
            raise Expired(410, "Expired", f"{gvr}: changes since {resource_version} are not kept; list again")
        if opened is not None:
            opened()
        reader = MirrorWatch(self.subscription(row), selected, self._clock)
        events = reader.events(resource, gvr, initial_events or resource_version in ("", "0"))
        try:
            async for event in events:
                yield event
        finally:
            await events.aclose()

    async def _mirror(self, row: Row) -> Mirror:
        subscription = self.subscription(row)
        await subscription.ready()
        return subscription.mirror

    def _entry(self, mirror: Mirror, resource: GVR, name: str, namespace: str) -> Entry:
        entry = mirror.get(ObjectKey(namespace if resource.namespaced else "", name))
        if entry is None:
            details = {"name": name, "group": resource.group, "kind": resource.plural}
            raise NotFound(404, "NotFound", f'{resource} "{name}" not found', details)
        return entry

    # Writes.

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
        gvr, document = gvr_of(resource), document_of(resource, obj)
        self._refuse_strict("create", gvr, field_validation)
        if gvr == SERVICE_ACCOUNTS and subresource == "token" and not dry_run:
            return resource.decode(await self._token(name, namespace, document))
        row = self._row(gvr, "create")
        if subresource or dry_run or (Subresource.SPEC, Action.CREATE) not in row.accepts:
            self._unsupported("create", str(gvr), subresource, dry_run)
        document = self._whole(gvr, document, namespace)
        key = ObjectKey(namespace_of(document), document["metadata"]["name"])
        subscription = self.subscription(row) if row.sends else None
        await self._publish(row, Subresource.SPEC, Action.CREATE, document)
        if subscription is None:
            return resource.decode(document)
        mirror = subscription.mirror
        await self._until(subscription, lambda: mirror.get(key) is not None, ECHO_TIMEOUT)
        echo = mirror.get(key)
        return resource.decode(document if echo is None else echo.raw)

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
        gvr = gvr_of(resource)
        self._refuse_strict("update", gvr, field_validation)
        row = self._row(gvr, "update")
        part = self._part(row, "update", subresource, dry_run)
        document = self._whole(gvr, obj)
        if not row.sends:
            await self._publish(row, part, Action.UPDATE, document)
            return resource.decode(document)
        metadata = document["metadata"]
        entry = self._entry(await self._mirror(row), gvr, metadata["name"], namespace_of(document))
        if not metadata.get("resourceVersion"):
            known = entry.document["metadata"]
            document["metadata"] = {
                **metadata,
                "resourceVersion": known.get("resourceVersion"),
                "uid": metadata.get("uid") or entry.uid,
            }
        return resource.decode(await self._write(row, part, entry, document))

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
        gvr = gvr_of(resource)
        self._refuse_strict("patch", gvr, field_validation)
        row = self._row(gvr, "patch")
        part = self._part(row, "patch", subresource, dry_run)
        if kind == "strategic" or (not row.sends and not isinstance(patch, dict)):
            self._unsupported(f"patch ({kind})", str(gvr))
        if not row.sends:
            # For kinds without a mirror, only the changes and the name are sent.
            assert isinstance(patch, dict)
            metadata = {**(patch.get("metadata") or {}), "name": name, "namespace": namespace}
            document = self._whole(gvr, {**patch, "metadata": metadata})
            await self._publish(row, part, Action.UPDATE, document)
            return resource.decode(document)
        for attempt in range(CONFLICT_ATTEMPTS):
            entry = self._entry(await self._mirror(row), gvr, name, namespace)
            known = entry.document
            wanted = _patched(known, patch, kind)
            _check_preconditions(gvr, known, wanted)
            changed = {**known, "status": wanted.get("status")} if part is Subresource.STATUS else _with_status_of(wanted, known)
            if changed == known:
                return resource.decode(known)
            try:
                return resource.decode(await self._write(row, part, entry, changed))
            except Conflict:
                if attempt == CONFLICT_ATTEMPTS - 1:
                    raise
        raise AssertionError("the last attempt returns or raises")

    async def _write(self, row: Row, part: Subresource, entry: Entry, document: Object) -> Object:
        """Send the next version of an object; returns the hub's."""
        subscription = self.subscription(row)
        mirror, uid = subscription.mirror, entry.uid

        def moved() -> bool:
            now = mirror.by_uid(uid)
            return now is None or now.raw != entry.raw

        try:
            await self._publish(row, part, Action.UPDATE, document)
        except (Conflict, NotFound):
            # The hub has another version, which should arrive in a moment; otherwise a resync is requested.
            if not await self._until(subscription, moved, CONFLICT_WAIT):
                mirror.doubt(uid)
                subscription.request_resync()
            raise
        if not await self._until(subscription, moved, ECHO_TIMEOUT):
            return document
        echo = mirror.by_uid(uid)
        return document if echo is None else echo.document

    async def _publish(self, row: Row, part: Subresource, action: Action, document: Object) -> None:
        event = encode_object(row, document, EventType(row.data_type, part, action), source=self.source, now=self._clock.now())
        await self.connection.publish(event, row.resource, document["metadata"]["name"])

    async def _token(self, account: str, namespace: str, request: Object) -> Object:
        spec = {"spec": request.get("spec") or {}}
        return await request_token(self.connection, self.cluster, self.source, account, namespace, spec, self._clock)

    async def _until(self, subscription: Subscription, condition: Callable[[], bool], seconds: float) -> bool:
        """Wait until the mirror shows it; False if it does not in time, or the subscription is refused."""
        news = asyncio.Event()
        ends = subscription.mirror.on_change(lambda old, new: news.set()), subscription.on_news(news.set)
        over = self._clock.monotonic() + seconds
        try:
            while not condition():
                left = over - self._clock.monotonic()
                if left <= 0 or is_refusal(subscription.problem):
                    return False
                await pause(self._clock, news, left)
            return True
        finally:
            for end in ends:
                end()

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
        self._unsupported("apply", str(gvr_of(resource)))

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
        self._unsupported("delete", str(gvr_of(resource)))

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
        self._unsupported("delete", str(gvr_of(resource)))

    # Discovery.

    async def api_resources(self, api_version: str) -> builtins.list[GVR]:
        found = [resource for resource in _BY_RESOURCE if resource.api_version == api_version]
        if not found:
            raise NotFound(404, "NotFound", f"{api_version}: nothing of it goes over this transport")
        return found

    async def api_versions(self, group: str) -> builtins.list[str]:
        versions = dict.fromkeys(resource.api_version for resource in _BY_RESOURCE if resource.group == group)
        if not versions:
            raise NotFound(404, "NotFound", f"{group}: nothing of it goes over this transport")
        return sorted(versions, reverse=True)

    async def server_version(self) -> str:
        return ""

    # What the transport supports.

    def _row(self, resource: GVR, verb: str) -> Row:
        row = _BY_RESOURCE.get(resource)
        if row is None or (verb in ("get", "list", "watch") and not row.sends):
            self._unsupported(verb, str(resource))
        return row

    def _part(self, row: Row, verb: str, subresource: str, dry_run: bool) -> Subresource:
        """The part of an object that a write changes."""
        part = Subresource.STATUS if subresource == "status" else Subresource.SPEC
        if (
            dry_run
            or subresource not in ("", "status")
            or (part, Action.UPDATE) not in row.accepts
            or row.versioned is Versioned.GENERATION
        ):
            self._unsupported(verb, str(row.resource), subresource, dry_run)
        return part

    def _refuse_strict(self, verb: str, resource: GVR, field_validation: FieldValidation) -> None:
        """The hub does not validate fields of events, so strict validation is refused."""
        if field_validation == "Strict":
            self._unsupported(f"strict {verb}", str(resource))

    def _unsupported(self, verb: str, kind: str, subresource: str = "", dry_run: bool = False) -> NoReturn:
        what = f"{kind}/{subresource}" if subresource else kind
        how = f"{verb} as a dry run" if dry_run else verb
        raise StatusError(405, "MethodNotAllowed", f"{self.server}: {how} of {what} does not go over gRPC")

    def _whole(self, resource: GVR, document: Object, namespace: str = "") -> Object:
        whole = {"apiVersion": resource.api_version, "kind": resource.kind, **document}
        if namespace and resource.namespaced and not namespace_of(whole):
            whole["metadata"] = {**whole["metadata"], "namespace": namespace}
        return whole


def _patched(document: Object, patch: object, kind: PatchKind) -> Object:
    if kind == "merge":
        patched = apply_merge_patch(document, patch)
    else:
        try:
            patched = apply_json_patch(document, patch)  # type: ignore[arg-type]  # a JSON patch is a list of operations
        except PatchError as error:
            raise Invalid(422, "Invalid", str(error)) from None
    if not isinstance(patched, dict) or not isinstance(patched.get("metadata"), dict):
        raise Invalid(422, "Invalid", "the patch does not leave an object")
    return patched


def _check_preconditions(resource: GVR, known: Object, wanted: Object) -> None:
    """A patch may have a resourceVersion. Raises Conflict if it is not the known one."""
    for field in ("uid", "resourceVersion"):
        if wanted["metadata"].get(field) != known["metadata"].get(field):
            name = known["metadata"]["name"]
            text = f'Operation cannot be fulfilled on {resource} "{name}": the object has been modified; try again'
            raise Conflict(409, "Conflict", text, {"name": name, "group": resource.group, "kind": resource.plural})


def _with_status_of(document: Object, known: Object) -> Object:
    """A write of the main resource keeps the status."""
    kept = {key: value for key, value in document.items() if key != "status"}
    return {**kept, "status": known["status"]} if "status" in known else kept
