"""Permissions that are taken away while a work is being applied: the rest of it is not written."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from muster.machinery.objects import Object
from muster.runtime.auth.rbac import ROLE_BINDINGS, ROLES, ChangeHandler, RbacAuthorizer
from muster.work.kinds import MANIFEST_WORKS
from tests.unit.work.agent.conftest import CLUSTER, Mortal, Site, config_map, until

EXECUTOR = {"subject": {"type": "ServiceAccount", "serviceAccount": {"namespace": "sa-ns", "name": "exec1"}}}
GROUP = "rbac.authorization.k8s.io"
MANIFESTS = 12


async def grant(site: Site) -> None:
    metadata = {"name": "grant", "namespace": "app"}
    rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]}
    subject = {"kind": "ServiceAccount", "namespace": "sa-ns", "name": "exec1"}
    await site.spoke.apply(ROLES, {"metadata": metadata, "rules": [rule]}, manager="test")
    reference = {"apiGroup": GROUP, "kind": "Role", "name": "grant"}
    await site.spoke.apply(ROLE_BINDINGS, {"metadata": metadata, "roleRef": reference, "subjects": [subject]}, manager="test")


async def refused(site: Site) -> bool:
    status: Object = (await site.work("w") or {}).get("status") or {}
    manifests = (status.get("resourceStatus") or {}).get("manifests") or []
    return any("may not create" in condition["message"] for one in manifests for condition in one["conditions"])


async def gone(site: Site) -> bool:
    return await site.work("w") is None


@pytest.mark.parametrize("then", ["the work goes", "permission is given back"])
async def test_what_is_not_written_yet_when_permission_goes_is_not_written(
    site: Site, monkeypatch: pytest.MonkeyPatch, then: str
) -> None:
    noticed, writing, go_on = asyncio.Event(), asyncio.Event(), asyncio.Event()
    subscribe, exchange = RbacAuthorizer.on_change, Mortal.exchange
    written = 0

    def on_change(self: RbacAuthorizer, handler: ChangeHandler) -> None:
        subscribe(self, handler)
        subscribe(self, lambda _: noticed.set())

    async def slowly(self: Mortal, method: str, path: str, *arguments: Any, **options: Any) -> bytes:
        nonlocal written
        if method == "POST" and path.endswith("/configmaps"):
            written += 1
            if written == 3:
                writing.set()
                await go_on.wait()
        return await exchange(self, method, path, *arguments, **options)

    monkeypatch.setattr(RbacAuthorizer, "on_change", on_change)
    monkeypatch.setattr(Mortal, "exchange", slowly)
    await grant(site)
    async with site.agent(writers=1), asyncio.timeout(60):
        await site.create("w", *(config_map(f"cm{number}") for number in range(MANIFESTS)), executor=EXECUTOR)
        await writing.wait()
        noticed.clear()
        await site.spoke.delete(ROLE_BINDINGS, "grant", "app")
        await noticed.wait()
        go_on.set()
        await until(lambda: refused(site), "the work to be refused")
        assert len(await site.config_maps()) == 3

        if then == "the work goes":
            await site.hub.delete(MANIFEST_WORKS, "w", CLUSTER)
            await until(lambda: gone(site), "the work to go")
            assert await site.config_maps() == {}
        else:
            await grant(site)
            await until(lambda: site.applied("w"), "the work to be applied")
            assert len(await site.config_maps()) == MANIFESTS
