"""Serving of webhooks: a TLS server that renews its certificate, and the CA bundle in its configurations.

The order is essential: the certificate is in its Secret before the server listens, the server listens before the API server is
configured to call it, and the API server trusts a new certificate before it is served. Replicas share the Secret, so all of them
serve webhooks, leader or not. If an operator manages certificate and CA bundle, the server only watches the files it is given.
"""

from __future__ import annotations

import abc
import asyncio
import ssl
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from muster.http import server_context
from muster.machinery.clock import SYSTEM, Clock
from muster.machinery.confinement import read
from muster.machinery.metrics import EXPIRATION_HELP, EXPIRATION_METRIC, Labels, Metrics
from muster.runtime.client.base import KubeClient
from muster.runtime.webhook.certificates import ServingCertificate, ServingPair, follow_files
from muster.runtime.webhook.clients import WebhookClients, announced_clients, clients_in_file
from muster.runtime.webhook.server import WebhookServer


@dataclass(frozen=True)
class ServingOptions:
    """Where webhooks listen, and how the API server reaches them: at `url`, by the Service, or at the listening address."""

    host: str = "127.0.0.1"
    port: int = 9443
    url: str = ""
    service: bool = False
    certificates: Path | None = None
    """A directory with `tls.crt` and `tls.key`, which another program renews."""
    client_ca: Path | None = None
    """The CA of the API server's client certificate; None: as the server announces it, if at all."""
    client_names: tuple[str, ...] = ()
    """The accepted names in it; empty: any."""


@dataclass(frozen=True)
class ServingNames:
    """Names in the cluster: the Secret with the certificate, the Service, and the namespace of both."""

    secret: str
    service: str
    namespace: str


class WebhookServing(abc.ABC):
    """`start` (or only `prepare`), then install, then `run` until cancelled, then `stop`."""

    def __init__(self, client: KubeClient, names: ServingNames, serving: ServingOptions, *, clock: Clock = SYSTEM) -> None:
        self._client = client
        self._names = names
        self._serving = serving
        self._clock = clock
        self._metrics: Metrics | None = None
        self._pair: ServingPair | None = None
        self._server: WebhookServer | None = None
        self._clients: WebhookClients | None = None
        self._certificate = ServingCertificate(client, names.secret, names.namespace, self._hosts(), clock=clock)

    @abc.abstractmethod
    def register(self, server: WebhookServer) -> None:
        """Register the webhooks with a server that does not listen yet."""

    @abc.abstractmethod
    async def trust(self, ca: bytes) -> None:
        """Write the CA bundle into the webhook configurations."""

    def measure(self, metrics: Metrics) -> None:
        """Register metrics of requests and of the expiration of the certificate. Call before `start`."""
        self._metrics = metrics
        metrics.gauges(EXPIRATION_METRIC, EXPIRATION_HELP, self._read_expiration)

    def _read_expiration(self) -> Iterable[tuple[Labels, float]]:
        if self._pair is not None:
            yield (("certificate", "webhook"),), self._pair.not_after.timestamp()

    def problem(self) -> str | None:
        """The reason why the webhooks are not ready, if they are not."""
        return None

    def _hosts(self) -> list[str]:
        if self._serving.url:
            return [str(urlsplit(self._serving.url).hostname)]
        if not self._serving.service:
            return [self._serving.host]
        service = f"{self._names.service}.{self._names.namespace}"
        return [f"{service}.svc", service, f"{service}.svc.cluster.local"]

    async def prepare(self) -> None:
        """Create the certificate without serving; sufficient to install configurations that point here, if the port is known.

        Raises OSError if certificate files are configured and missing.
        """
        if self._serving.certificates is None:
            self._pair = await self._certificate.ensure()
        else:
            cert, key = [await asyncio.to_thread(read, path) for path in self._files(self._serving.certificates)]
            self._pair = ServingPair(cert, key, b"")

    @staticmethod
    def _files(directory: Path) -> tuple[Path, Path]:
        return directory / "tls.crt", directory / "tls.key"

    async def start(self) -> None:
        await self.prepare()
        assert self._pair is not None, "prepared"
        self._clients = await self._find_clients()
        self._server = WebhookServer(await self._context(self._pair), self._clients, metrics=self._metrics, clock=self._clock)
        self.register(self._server)
        await self._server.start(self._serving.host, self._serving.port)

    async def _find_clients(self) -> WebhookClients | None:
        """Raises OSError if a configured file is missing, and the errors of the client."""
        if self._serving.client_ca is None:
            return await announced_clients(self._client)
        return await asyncio.to_thread(clients_in_file, self._serving.client_ca, self._serving.client_names)

    @property
    def host_port(self) -> tuple[str, int]:
        """The address to listen on."""
        return self._serving.host, self._serving.port

    @property
    def port(self) -> int:
        return self._serving.port if self._server is None else self._server.port

    @property
    def ca(self) -> bytes:
        assert self._pair is not None, "prepared"
        return self._pair.ca

    @property
    def url(self) -> str:
        """The URL for the API server; empty if it uses the Service."""
        url = self._serving.url.rstrip("/")
        return url if url or self._serving.service else f"https://{_bracketed(self._serving.host)}:{self.port}"

    async def run(self) -> None:
        """Renew the certificate in time, or watch the files that an operator renews."""
        if self._serving.certificates is None:
            await self._certificate.run(self.change)
        else:
            await follow_files(*self._files(self._serving.certificates), self._reload, clock=self._clock)

    async def _reload(self, cert: bytes, key: bytes) -> None:
        assert self._server is not None, "started"
        pair = ServingPair(cert, key, b"")
        self._server.replace_tls(await self._context(pair))
        self._pair = pair

    async def change(self, pair: ServingPair) -> None:
        """Serve another certificate, after the API server trusts it."""
        assert self._server is not None, "started"
        await self.trust(pair.ca)
        self._server.replace_tls(await self._context(pair))
        self._pair = pair

    async def _context(self, pair: ServingPair) -> ssl.SSLContext:
        client_cas = None if self._clients is None else self._clients.ca
        return await asyncio.to_thread(server_context, pair.cert, pair.key, client_cas)

    async def stop(self) -> None:
        if self._server is not None:
            await self._server.stop()


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
