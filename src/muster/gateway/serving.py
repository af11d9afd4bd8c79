"""The certificate that the gateway serves with: from files that an operator keeps, or in a Secret that the gateway keeps itself.

Whoever keeps it, the API server trusts a new one before it is served: the operator puts its authority into the APIService first,
and so does the gateway where it is the keeper.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Protocol

from muster.gateway.apiservice import SERVING_SECRET, api_service_name, serving_hosts
from muster.machinery.clock import SYSTEM, Clock
from muster.machinery.confinement import read
from muster.runtime.client import KubeClient
from muster.runtime.client.builtin import API_SERVICES
from muster.runtime.webhook import ServingCertificate, ServingPair, follow_files, inject_ca_bundle

Change = Callable[[ServingPair], Awaitable[None]]


class ServingSource(Protocol):
    async def load(self) -> ServingPair:
        """What to serve with now."""
        ...

    async def run(self, change: Change) -> None:
        """Tell `change` of every new one, until cancelled."""
        ...


class CertificateFiles:
    """`tls.crt` and `tls.key` of a directory."""

    def __init__(self, directory: Path, *, clock: Clock = SYSTEM) -> None:
        self._files = directory / "tls.crt", directory / "tls.key"
        self._clock = clock

    async def load(self) -> ServingPair:
        """Raises OSError."""
        cert, key = [await asyncio.to_thread(read, path) for path in self._files]
        return ServingPair(cert, key, b"")

    async def run(self, change: Change) -> None:
        async def changed(cert: bytes, key: bytes) -> None:
            await change(ServingPair(cert, key, b""))

        await follow_files(*self._files, changed, clock=self._clock)


class OwnCertificate:
    """In the hub's Secret, shared by all replicas; `api_services` are told of its authority before it is served."""

    def __init__(self, client: KubeClient, namespace: str, api_services: list[tuple[str, str]], *, clock: Clock = SYSTEM) -> None:
        self._client = client
        self._api_services = [api_service_name(version, group) for group, version in api_services]
        self._clock = clock
        self._certificate = ServingCertificate(client, SERVING_SECRET, namespace, serving_hosts(namespace), clock=clock)

    async def load(self) -> ServingPair:
        return await self._certificate.ensure()

    async def run(self, change: Change) -> None:
        async def changed(pair: ServingPair) -> None:
            for name in self._api_services:
                await inject_ca_bundle(self._client, API_SERVICES, name, pair.ca, clock=self._clock)
            await change(pair)

        await self._certificate.run(changed)
