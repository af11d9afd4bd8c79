"""Makes a client from a configuration: channels with the current credential, through the configured or the environment's proxy.

Certificates, CAs and tokens in files are read again when they change. The token is read for each call; a changed certificate or CA
makes the client move its streams (`HubConnection.renew`).
"""

from __future__ import annotations

import random as chance
import ssl
from typing import Final

from muster.http.http2.client import KeepAlive
from muster.http.tunnel import Proxy
from muster.machinery.clock import SYSTEM, Clock, Random
from muster.machinery.metrics import Metrics
from muster.runtime.client import CredentialError, NoCredential, ReloadedFile
from muster.transport.client.client import TransportClient
from muster.transport.client.config import TransportConfig, host_and_port
from muster.transport.client.connection import HubConnection
from muster.transport.client.metrics import ClientMetrics
from muster.transport.client.proxies import find_proxy
from muster.transport.client.tls_files import TlsFiles, TlsMaterial
from muster.transport.rpc.channel import RpcChannel
from muster.transport.rpc.interfaces import Channel
from muster.transport.rpc.status import Code, RpcError

LARGEST_MESSAGE: Final = 16 << 20
"""Upstream's servers send messages without a limit."""


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
    """A client for an agent of `cluster`. Nothing is connected before its first verb."""
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
        self._files = TlsFiles(config.url, config.ca, config.cert, config.key)
        self._token_file = None if config.token_file is None else ReloadedFile(config.token_file)

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
        """The TLS material of connections; None while it cannot be read."""
        try:
            return self._files.read()
        except CredentialError:
            return None

    def _tls(self) -> ssl.SSLContext:
        try:
            return self._files.context()
        except CredentialError as error:
            raise NoCredential(self._config.url, str(error)) from None

    async def _token(self) -> str:
        if self._token_file is None:
            return self._config.token
        try:
            return self._token_file.read().decode("ascii", errors="replace").strip()
        except CredentialError as error:
            raise RpcError(Code.UNAUTHENTICATED, str(error)) from None
