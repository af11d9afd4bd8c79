"""The gateway's serving certificate: from files that an operator manages, or in a Secret that the gateway manages itself.

Either way the API server trusts a new certificate before it is served: the operator puts its CA bundle into the APIService first,
and the gateway does the same for a certificate that it manages itself.
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


class ServingCertificateSource(Protocol):
    async def load(self) -> ServingPair:
        """The current certificate."""
        ...

    async def run(self, change: Change) -> None:
        """Call `change` with every new one, until cancelled."""
        ...


class CertificateFiles:
    """`tls.crt` and `tls.key` in a directory."""

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


class ManagedCertificate:
    """A certificate in the hub's Secret, shared by all replicas; its CA bundle is written to `api_services` before it is served."""

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
