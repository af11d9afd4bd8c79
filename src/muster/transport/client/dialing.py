"""A client for a configuration: channels with the credential of now, through the proxy that it names or the environment's.

Certificates, authorities and tokens that are files are read again when they change. A token is asked for with each call; another
certificate or authority makes the client move its streams (`HubConnection.renew`). While a writer is half way, certificate and key
of different pairs, the last good pair stays in use.
"""

from __future__ import annotations

import random as chance
import ssl
from typing import Final

from muster.http.http2.client import KeepAlive
from muster.http.tls import HTTP_2, client_context, load_chain
from muster.http.tunnel import Proxy
from muster.machinery.clock import SYSTEM, Clock, Random
from muster.machinery.logs import get_logger
from muster.machinery.metrics import Metrics
from muster.runtime.client import CredentialError, NoCredential, Watched
from muster.transport.client.client import TransportClient
from muster.transport.client.config import TransportConfig, host_and_port
from muster.transport.client.connection import HubConnection
from muster.transport.client.metrics import ClientMetrics
from muster.transport.client.proxies import find_proxy
from muster.transport.rpc.channel import RpcChannel
from muster.transport.rpc.interfaces import Channel
from muster.transport.rpc.status import Code, RpcError

log = get_logger("muster.transport.client")

LARGEST_MESSAGE: Final = 16 << 20
"""Upstream's servers send without a limit."""

TlsMaterial = tuple[bytes | None, bytes | None, bytes | None]
"""Authorities, certificate and key."""


def open_client(
    config: TransportConfig,
    cluster: str,
    *,
    source: str = "",
    agent: str = "muster",
    metrics: Metrics | None = None,
    clock: Clock = SYSTEM,
    random: Random = chance.random,
) -> TransportClient:
    """A client of an agent of `cluster`. Nothing is contacted before its first verb."""
    dialer = _Dialer(config, agent, clock)
    connection = HubConnection(config.url, config.addresses, dialer.dial, ClientMetrics(metrics, source or cluster))
    return TransportClient(
        connection,
        cluster,
        source=source,
        health_timeout=config.health_timeout,
        credential=dialer.material,
        clock=clock,
        random=random,
    )


class _Dialer:
    def __init__(self, config: TransportConfig, agent: str, clock: Clock) -> None:
        self._config = config
        self._agent = agent
        self._clock = clock
        self._ca = None if config.ca is None else Watched(config.ca)
        self._pair = None if config.cert is None or config.key is None else (Watched(config.cert), Watched(config.key))
        self._token_file = None if config.token_file is None else Watched(config.token_file)
        self._used: TlsMaterial | None = None
        """What the last good context was made of."""
        self._context: ssl.SSLContext | None = None

    def dial(self, address: str) -> Channel:
        """Raises KubeError."""
        host, port = host_and_port(address)
        keepalive = self._config.keepalive
        pings = KeepAlive(time=keepalive.time, timeout=keepalive.timeout, permit_without_stream=keepalive.permit_without_stream)
        has_token = self._config.token or self._token_file is not None
        return RpcChannel(
            host,
            port,
            tls=self._tls(),
            token=self._token if has_token else None,
            proxy=self._proxy(host, port),
            keepalive=pings if keepalive.enable else None,
            max_receive=LARGEST_MESSAGE,
            user_agent=self._agent,
            clock=self._clock,
        )

    def _proxy(self, host: str, port: int) -> Proxy | None:
        try:
            return find_proxy(host, port, self._config.proxy)
        except ValueError as error:
            raise NoCredential(self._config.url, str(error)) from None

    def material(self) -> TlsMaterial | None:
        """What connections are made with; None while it cannot be read."""
        try:
            return self._read()
        except CredentialError:
            return None

    def _read(self) -> TlsMaterial:
        cert, key = (None, None) if self._pair is None else (self._pair[0].read(), self._pair[1].read())
        return None if self._ca is None else self._ca.read(), cert, key

    def _tls(self) -> ssl.SSLContext:
        try:
            material = self._read()
        except CredentialError as error:
            raise NoCredential(self._config.url, str(error)) from None
        if self._context is None or material != self._used:
            try:
                self._context, self._used = _context(*material), material
            except (ssl.SSLError, ValueError) as error:
                if self._context is None:
                    raise NoCredential(self._config.url, f"unusable certificate, key or CA: {error}") from None
                log.warning("new TLS material is unusable so far; keeping the old", server=self._config.url, error=str(error))
        return self._context

    async def _token(self) -> str:
        if self._token_file is None:
            return self._config.token
        try:
            return self._token_file.read().decode("ascii", errors="replace").strip()
        except CredentialError as error:
            raise RpcError(Code.UNAUTHENTICATED, str(error)) from None


def _context(ca: bytes | None, cert: bytes | None, key: bytes | None) -> ssl.SSLContext:
    context = client_context(ca, alpn=HTTP_2)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    # Kubernetes CAs are often without the key identifiers that strict checking wants.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if cert is not None and key is not None:
        load_chain(context, cert, key)
    return context
