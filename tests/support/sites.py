"""Clusters whose pods are run, of the kind MUSTER_E2E names, for tests that go from nothing to a working fleet: nobody is played.

Embedded ones are API servers in this process with a node each; real ones are a kube-apiserver, its controllers and a `muster node`,
all processes. Both know the users of `planes.USERS`. Each is new, so a test finds nothing there and may leave anything.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from muster.apiserver.adminkubeconfig import write_kubeconfig
from muster.cli.programs import programs
from muster.machinery.authentication import UserInfo
from muster.runtime.client.http import HttpClient
from muster.runtime.client.kubeconfig import ClientConfig, load_kubeconfig
from muster.runtime.client.rest import RestClient
from tests.support.planes import USERS, KubeOptions, KubePlane
from tests.support.stage import open_stage

KUBE = os.environ.get("MUSTER_E2E") == "kube"
beside_kube = pytest.mark.skipif(not KUBE, reason="slow and rarely red: runs with make test-kube alone")
embedded_only = pytest.mark.skipif(KUBE, reason="says nothing about the API server, and embedded clusters begin ten times as fast")


@dataclass(frozen=True)
class Site:
    """One cluster, seen by its administrator."""

    admin: RestClient
    kubeconfig: Path

    @property
    def config(self) -> ClientConfig:
        return load_kubeconfig(self.kubeconfig, environ={})


@asynccontextmanager
async def open_site(directory: Path) -> AsyncIterator[Site]:
    async with _real(directory) if KUBE else _embedded(directory) as site:
        yield site


@asynccontextmanager
async def _embedded(directory: Path) -> AsyncIterator[Site]:
    people = {user.token: UserInfo(user.name, groups=(*user.groups, "system:authenticated")) for user in USERS.values()}
    async with open_stage(programs(), directory / "node", static_tokens=people) as stage:
        await write_kubeconfig(stage.server, directory / "kubeconfig")
        yield Site(stage.client, directory / "kubeconfig")


@asynccontextmanager
async def _real(directory: Path) -> AsyncIterator[Site]:
    plane = KubePlane(directory, KubeOptions(fsync=False, pods=True))
    try:
        await asyncio.to_thread(plane.start)
        admin = HttpClient(load_kubeconfig(plane.kubeconfig, environ={}))
        try:
            yield Site(admin, plane.kubeconfig)
        finally:
            await admin.close()
    finally:
        await asyncio.to_thread(plane.stop, kill=True)


@asynccontextmanager
async def open_sites(directory: Path, *names: str) -> AsyncIterator[list[Site]]:
    """Several, begun side by side."""
    async with AsyncExitStack() as stack:
        yield await asyncio.gather(*(stack.enter_async_context(open_site(directory / name)) for name in names))
