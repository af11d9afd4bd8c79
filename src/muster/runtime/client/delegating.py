"""A client that passes every verb on to another one: what wrappers stand on, which change a few verbs and keep the rest.

All writes of objects go through four verbs with one answer each, so a wrapper that is about writes overrides these (and `delete`).
"""

from __future__ import annotations

import builtins
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Any, TypeVar

from muster.machinery.objects import GVR, Object
from muster.runtime.client.base import PAGE, KubeClient, ObjectList, Page, PatchKind, WatchEvent
from muster.runtime.client.typed import Kind, WritableKind

T = TypeVar("T")


class DelegatingClient(KubeClient):
    def __init__(self, inner: KubeClient) -> None:
        self._inner = inner

    @property
    def server(self) -> str:
        return self._inner.server

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
        return await self._inner.create(
            resource, obj, namespace, name=name, subresource=subresource, manager=manager, dry_run=dry_run
        )

    async def update(self, resource: Kind[T], obj: Object, *, subresource: str = "", manager: str = "", dry_run: bool = False) -> T:
        return await self._inner.update(resource, obj, subresource=subresource, manager=manager, dry_run=dry_run)

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
        return await self._inner.patch(
            resource, name, patch, namespace, kind=kind, subresource=subresource, manager=manager, dry_run=dry_run
        )

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
        return await self._inner.apply(resource, obj, manager=manager, force=force, subresource=subresource, dry_run=dry_run)

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
        return await self._inner.delete(
            resource,
            name,
            namespace,
            uid=uid,
            resource_version=resource_version,
            propagation=propagation,
            grace=grace,
            dry_run=dry_run,
        )

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
        return await self._inner.delete_collection(
            resource,
            namespace,
            label_selector=label_selector,
            field_selector=field_selector,
            propagation=propagation,
            dry_run=dry_run,
        )

    async def api_resources(self, api_version: str) -> builtins.list[GVR]:
        return await self._inner.api_resources(api_version)

    async def api_versions(self, group: str) -> builtins.list[str]:
        return await self._inner.api_versions(group)

    async def server_version(self) -> str:
        return await self._inner.server_version()

    async def check_health(self) -> None:
        await self._inner.check_health()
