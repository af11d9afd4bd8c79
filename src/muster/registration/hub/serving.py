"""The hub's webhooks as the API server meets them: a TLS server whose certificate renews itself, and the trust in it.

The order is the point: the certificate is in its Secret before the server listens, the server listens before the API server is told
to call it, and the API server trusts a new certificate before that is served. Replicas share the Secret, so all of them serve
webhooks, leader or not. Where an operator keeps certificate and trust, the webhooks only follow the files they are given.
"""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from muster.http import server_context
from muster.registration.hub.install import SERVICE, WEBHOOK_SECRET, WebhookEndpoint, trust
from muster.registration.hub.options import HubOptions
from muster.registration.hub.webhooks import register
from muster.runtime.certs import ServingCertificate, ServingPair, follow_files
from muster.runtime.clock import SYSTEM, Clock
from muster.runtime.verbs import KubeClient
from muster.runtime.webhookserver import WebhookServer


@dataclass(frozen=True)
class ServingOptions:
    """Where webhooks listen, and where the API server finds them: at `url`, by the Service, or else where they listen."""

    host: str = "127.0.0.1"
    port: int = 9443
    url: str = ""
    service: bool = False
    certificates: Path | None = None
    """A directory with `tls.crt` and `tls.key`, kept by somebody else."""


class Webhooks:
    """`start` (or only `prepare`), then install, then `run` until cancelled, then `stop`."""

    def __init__(self, client: KubeClient, options: HubOptions, serving: ServingOptions, *, clock: Clock = SYSTEM) -> None:
        self._client = client
        self._options = options
        self._serving = serving
        self._clock = clock
        self._pair: ServingPair | None = None
        self._server: WebhookServer | None = None
        self._certificate = ServingCertificate(client, WEBHOOK_SECRET, options.namespace, self._hosts(), clock=clock)

    def _hosts(self) -> list[str]:
        if self._serving.url:
            return [str(urlsplit(self._serving.url).hostname)]
        if not self._serving.service:
            return [self._serving.host]
        service = f"{SERVICE}.{self._options.namespace}"
        return [f"{service}.svc", service, f"{service}.svc.cluster.local"]

    async def prepare(self) -> None:
        """Have a certificate, without serving anything yet; enough to install what points here, if the port is known.

        Raises OSError when it is to be in files and is not.
        """
        if self._serving.certificates is None:
            self._pair = await self._certificate.ensure()
        else:
            cert, key = [await asyncio.to_thread(path.read_bytes) for path in self._files(self._serving.certificates)]
            self._pair = ServingPair(cert, key, b"")

    @staticmethod
    def _files(directory: Path) -> tuple[Path, Path]:
        return directory / "tls.crt", directory / "tls.key"

    async def start(self) -> None:
        await self.prepare()
        assert self._pair is not None, "prepared"
        self._server = WebhookServer(await self._context(self._pair))
        register(
            self._server,
            self._client,
            default_cluster_set=self._options.default_cluster_set,
            hub_namespace=self._options.namespace,
            clock=self._clock,
        )
        await self._server.start(self._serving.host, self._serving.port)

    @property
    def port(self) -> int:
        return self._serving.port if self._server is None else self._server.port

    @property
    def endpoint(self) -> WebhookEndpoint:
        assert self._pair is not None, "prepared"
        url = self._serving.url.rstrip("/")
        if not url and not self._serving.service:
            url = f"https://{_bracketed(self._serving.host)}:{self.port}"
        return WebhookEndpoint(self._pair.ca, url, self._options.namespace)

    async def run(self) -> None:
        """Renew the certificate in time, or follow whoever does."""
        if self._serving.certificates is None:
            await self._certificate.run(self.change)
        else:
            await follow_files(*self._files(self._serving.certificates), self._reload, clock=self._clock)

    async def _reload(self, cert: bytes, key: bytes) -> None:
        assert self._server is not None, "started"
        self._server.replace_tls(await self._context(ServingPair(cert, key, b"")))

    async def change(self, pair: ServingPair) -> None:
        """Serve another certificate, once it is trusted."""
        assert self._server is not None, "started"
        await trust(self._client, pair.ca, clock=self._clock)
        self._server.replace_tls(await self._context(pair))
        self._pair = pair

    async def _context(self, pair: ServingPair) -> ssl.SSLContext:
        return await asyncio.to_thread(server_context, pair.cert, pair.key)

    async def stop(self) -> None:
        if self._server is not None:
            await self._server.stop()


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
