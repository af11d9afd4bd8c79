"""A client that notes what is written through it, and in a dry run lets nothing through.

A dry run sends every write with `dryRun=All`: the server checks permission, admission and validity, and stores nothing. What it
would have made is remembered, so that whoever reads it back goes on as if it were there. Where a write needs something that this
very run would have made first (its namespace, its definition), the server cannot check it, and it is taken as given. Reviews change
nothing and are simply asked.

Whoever waits for something to happen, or needs a token, asks `is_dry_run` first: nothing will happen, and no token is issued.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

from muster.api import Document
from muster.kube.patching.mergepatch import apply_merge_patch
from muster.machinery.objects import GVR, Object
from muster.runtime.client.base import KubeClient, PatchKind
from muster.runtime.client.builtin import CRDS, NAMESPACES
from muster.runtime.client.delegating import DelegatingClient
from muster.runtime.client.errors import Conflict, NotFound
from muster.runtime.client.typed import Kind, WritableKind, document_of, gvr_of

T = TypeVar("T")

REVIEWS: Final = frozenset(
    (
        "selfsubjectaccessreviews",
        "selfsubjectrulesreviews",
        "selfsubjectreviews",
        "localsubjectaccessreviews",
        "subjectaccessreviews",
        "tokenreviews",
    )
)
TOKEN: Final = "<token>"
"""What a dry run shows where a token would be."""


@dataclass(frozen=True)
class Target:
    """What a write is about; without a name a collection."""

    resource: GVR
    namespace: str
    name: str = ""
    subresource: str = ""


@dataclass(frozen=True)
class Write:
    verb: str
    """apply, create, update, patch or delete."""
    target: Target
    body: Document | None = None

    @property
    def name(self) -> str:
        metadata: Mapping[str, Any] = (self.body or {}).get("metadata") or {}
        return self.target.name or str(metadata.get("name") or metadata.get("generateName") or "")

    @property
    def place(self) -> Target:
        """The object that is written, also where the target is the collection that gets it."""
        return replace(self.target, name=self.name)

    def __str__(self) -> str:
        target = self.target
        kind = f"{target.resource}{'/' + target.subresource if target.subresource else ''}"
        return f"{self.verb} {kind} {target.namespace + '/' if target.namespace else ''}{self.name}".rstrip()


@dataclass
class Journal:
    """In order. A write that was refused is not in it."""

    writes: list[Write] = field(default_factory=list)

    def documents(self) -> list[Document]:
        """What was written as a whole, the last word on each object; with it the same could be made by kubectl."""
        found: dict[Target, Document] = {}
        for write in self.writes:
            if write.verb in ("apply", "create", "update") and write.body is not None and not write.target.subresource:
                found[write.place] = write.body
        return list(found.values())


def is_dry_run(client: KubeClient) -> bool:
    return isinstance(client, JournalingClient) and client.dry_run


class JournalingClient(DelegatingClient):
    def __init__(self, inner: KubeClient, journal: Journal, *, dry_run: bool = False) -> None:
        super().__init__(inner)
        self.journal = journal
        self.dry_run = dry_run
        self._made: dict[Target, Object | None] = {}
        """In a dry run: what would be there now. None: deleted."""

    def as_user(self, name: str) -> JournalingClient:
        other = JournalingClient(self._inner.as_user(name), self.journal, dry_run=self.dry_run)
        other._made = self._made
        return other

    async def get(self, resource: Kind[T], name: str, namespace: str = "", *, subresource: str = "") -> T:
        target = _target(resource, namespace, name, subresource)
        if target not in self._made:
            return await self._inner.get(resource, name, namespace, subresource=subresource)
        found = self._made[target]
        if found is None:
            raise NotFound(404, "NotFound", f"{target.resource} {namespace}/{name}: deleted in this dry run")
        return resource.decode(found)

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
    ) -> T:
        body = document_of(resource, obj)
        write = Write("create", _target(resource, namespace or _namespace(body), name, subresource), body)

        async def send(dry: bool) -> Object:
            return await self._inner.create(
                gvr_of(resource), body, namespace, name=name, subresource=subresource, manager=manager, dry_run=dry
            )

        return resource.decode(await self._write(write, send, dry_run))

    async def update(self, resource: Kind[T], obj: Object, *, subresource: str = "", manager: str = "", dry_run: bool = False) -> T:
        write = Write("update", _target(resource, _namespace(obj), obj["metadata"]["name"], subresource), obj)

        async def send(dry: bool) -> Object:
            return await self._inner.update(gvr_of(resource), obj, subresource=subresource, manager=manager, dry_run=dry)

        return resource.decode(await self._write(write, send, dry_run))

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
    ) -> T:
        body = patch if isinstance(patch, dict) else None
        write = Write("patch", _target(resource, namespace, name, subresource), body)

        async def send(dry: bool) -> Object:
            return await self._inner.patch(
                gvr_of(resource), name, patch, namespace, kind=kind, subresource=subresource, manager=manager, dry_run=dry
            )

        return resource.decode(await self._write(write, send, dry_run))

    async def apply(
        self,
        resource: WritableKind[T],
        obj: T | Object,
        *,
        manager: str,
        force: bool = True,
        subresource: str = "",
        dry_run: bool = False,
    ) -> T:
        gvr = gvr_of(resource)
        body = {"apiVersion": gvr.api_version, "kind": gvr.kind, **document_of(resource, obj)}
        write = Write("apply", _target(resource, _namespace(body), body["metadata"]["name"], subresource), body)

        async def send(dry: bool) -> Object:
            return await self._inner.apply(gvr, body, manager=manager, force=force, subresource=subresource, dry_run=dry)

        return resource.decode(await self._write(write, send, dry_run))

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
        async def send(dry: bool) -> Object:
            return await self._inner.delete(
                resource,
                name,
                namespace,
                uid=uid,
                resource_version=resource_version,
                propagation=propagation,
                grace=grace,
                dry_run=dry,
            )

        return await self._write(Write("delete", _target(resource, namespace, name)), send, dry_run)

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
        async def send(dry: bool) -> Object:
            return await self._inner.delete_collection(
                resource,
                namespace,
                label_selector=label_selector,
                field_selector=field_selector,
                propagation=propagation,
                dry_run=dry,
            )

        return await self._write(Write("delete", _target(resource, namespace)), send, dry_run)

    async def _write(self, write: Write, send: Callable[[bool], Awaitable[Object]], dry_run: bool) -> Object:
        if write.target.resource.plural in REVIEWS:
            return await send(dry_run)
        answer = await self._pretend(write, send) if self.dry_run else await send(dry_run)
        self.journal.writes.append(write)
        return answer

    async def _pretend(self, write: Write, send: Callable[[bool], Awaitable[Object]]) -> Object:
        try:
            answer = await send(True)
        except (NotFound, Conflict):
            # A Conflict over the revision of something that only exists here.
            if not self._made_here(write.place):
                raise
            answer = self._imagine(write)
        if write.verb == "delete":
            self._made[write.place] = None
        elif not write.target.subresource:
            self._made[write.place] = answer
        return answer

    def _made_here(self, place: Target) -> bool:
        namespace = Target(NAMESPACES, "", place.namespace)
        definition = Target(CRDS, "", f"{place.resource.plural}.{place.resource.group}")
        return any(self._made.get(needed) is not None for needed in (place, namespace, definition))

    def _imagine(self, write: Write) -> Object:
        body = write.body or {}
        if write.verb == "patch":
            patched: Object = apply_merge_patch(self._made.get(write.place) or {}, body)
            return patched
        metadata = {"uid": "", "resourceVersion": "0", "generation": 1, **(body.get("metadata") or {})}
        return {**body, "metadata": metadata}


def _target(kind: Kind[Any], namespace: str, name: str = "", subresource: str = "") -> Target:
    resource = gvr_of(kind)
    return Target(resource, namespace if resource.namespaced else "", name, subresource)


def _namespace(body: Object) -> str:
    return str((body.get("metadata") or {}).get("namespace") or "")
