"""A client that delegates every verb to another one: the base of wrappers, which change a few verbs.

Every change goes through `write`, with its target and a function that sends it: a wrapper that is about writes overrides that one
method, for all verbs.
"""

from __future__ import annotations

import builtins
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from muster.machinery.objects import GVR, Object
from muster.runtime.client.base import PAGE, FieldValidation, KubeClient, ObjectList, Page, PatchKind, WatchEvent
from muster.runtime.client.gate import Gate
from muster.runtime.client.typed import Kind, WritableKind, document_of, gvr_of, namespace_of

T = TypeVar("T")


@dataclass(frozen=True)
class WriteTarget:
    """The target of a write; a collection if it has no name."""

    resource: GVR
    namespace: str
    name: str = ""
    subresource: str = ""

    @classmethod
    def of(cls, kind: Kind[Any], namespace: str, name: str = "", subresource: str = "") -> WriteTarget:
        resource = gvr_of(kind)
        return cls(resource, namespace if resource.namespaced else "", name, subresource)


@dataclass(frozen=True)
class Write:
    verb: str
    """apply, create, update, patch or delete."""
    target: WriteTarget
    body: Object | None = None
    """The whole object, or the merge patch; None for other patches and for deletions."""

    @property
    def name(self) -> str:
        metadata: Mapping[str, Any] = (self.body or {}).get("metadata") or {}
        return self.target.name or str(metadata.get("name") or metadata.get("generateName") or "")

    @property
    def object_target(self) -> WriteTarget:
        """The object that is written, also if the target is the collection in which it is created."""
        return replace(self.target, name=self.name)

    def __str__(self) -> str:
        target = self.target
        kind = f"{target.resource}{'/' + target.subresource if target.subresource else ''}"
        return f"{self.verb} {kind} {target.namespace + '/' if target.namespace else ''}{self.name}".rstrip()


Send = Callable[[bool], Awaitable[Object]]
"""Sends a write, as a dry run or not, and returns the response."""


class DelegatingClient(KubeClient):
    def __init__(self, inner: KubeClient) -> None:
        self._inner = inner

    @property
    def server(self) -> str:
        return self._inner.server

    @property
    def gate(self) -> Gate | None:
        return self._inner.gate

    async def close(self) -> None:
        await self._inner.close()

    def as_user(self, name: str) -> KubeClient:
        return self._inner.as_user(name)

    async def get(self, resource: Kind[T], name: str, namespace: str = "", *, subresource: str = "") -> T:
        return await self._inner.get(resource, name, namespace, subresource=subresource)

    async def list(
        self, resource: Kind[T], namespace: str = "", *, label_selector: str = "", field_selector: str = "", limit: int = PAGE
    ) -> ObjectList[T]:
        return await self._inner.list(
            resource, namespace, label_selector=label_selector, field_selector=field_selector, limit=limit
        )

    def pages(
        self,
        resource: Kind[Any],
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = PAGE,
        resource_version: str = "",
    ) -> AsyncIterator[Page]:
        return self._inner.pages(
            resource,
            namespace,
            label_selector=label_selector,
            field_selector=field_selector,
            limit=limit,
            resource_version=resource_version,
        )

    def watch(
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
        return self._inner.watch(
            resource,
            namespace,
            label_selector=label_selector,
            field_selector=field_selector,
            resource_version=resource_version,
            initial_events=initial_events,
            timeout=timeout,
            opened=opened,
        )

    async def write(self, write: Write, send: Send, dry_run: bool) -> Object:
        """Every write of an object. `dry_run` is what the caller requested."""
        return await send(dry_run)

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
        gvr, body = gvr_of(resource), document_of(resource, obj)
        target = WriteTarget.of(gvr, namespace or namespace_of(body), name, subresource)

        async def send(dry: bool) -> Object:
            return await self._inner.create(
                gvr,
                body,
                namespace,
                name=name,
                subresource=subresource,
                manager=manager,
                dry_run=dry,
                field_validation=field_validation,
            )

        return resource.decode(await self.write(Write("create", target, body), send, dry_run))

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
        target = WriteTarget.of(gvr, namespace_of(obj), obj["metadata"]["name"], subresource)

        async def send(dry: bool) -> Object:
            return await self._inner.update(
                gvr, obj, subresource=subresource, manager=manager, dry_run=dry, field_validation=field_validation
            )

        return resource.decode(await self.write(Write("update", target, obj), send, dry_run))

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
        body = patch if isinstance(patch, dict) else None

        async def send(dry: bool) -> Object:
            return await self._inner.patch(
                gvr,
                name,
                patch,
                namespace,
                kind=kind,
                subresource=subresource,
                manager=manager,
                dry_run=dry,
                field_validation=field_validation,
            )

        write = Write("patch", WriteTarget.of(gvr, namespace, name, subresource), body)
        return resource.decode(await self.write(write, send, dry_run))

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
        gvr = gvr_of(resource)
        body = {"apiVersion": gvr.api_version, "kind": gvr.kind, **document_of(resource, obj)}
        target = WriteTarget.of(gvr, namespace_of(body), body["metadata"]["name"], subresource)

        async def send(dry: bool) -> Object:
            return await self._inner.apply(
                gvr, body, manager=manager, force=force, subresource=subresource, dry_run=dry, field_validation=field_validation
            )

        return resource.decode(await self.write(Write("apply", target, body), send, dry_run))

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

        return await self.write(Write("delete", WriteTarget.of(resource, namespace, name)), send, dry_run)

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

        return await self.write(Write("delete", WriteTarget.of(resource, namespace)), send, dry_run)

    async def api_resources(self, api_version: str) -> builtins.list[GVR]:
        return await self._inner.api_resources(api_version)

    async def api_versions(self, group: str) -> builtins.list[str]:
        return await self._inner.api_versions(group)

    async def server_version(self) -> str:
        return await self._inner.server_version()

    async def check_health(self) -> None:
        await self._inner.check_health()
