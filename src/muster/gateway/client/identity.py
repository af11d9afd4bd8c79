"""Credentials and trusted CAs of the hub for HTTP libraries that do not read kubeconfigs.

`muster.runtime.client.credentials` handles rotation. Its functions are coroutines, because an exec plugin may have to run; for
blocking clients they are run to completion in a thread, and without a plugin they never wait.
"""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from muster.machinery import confinement
from muster.runtime.client import ClientConfig, Credentials, proxy_for

T = TypeVar("T")


class HubIdentity:
    """One `ClientConfig`, for one client."""

    def __init__(self, config: ClientConfig) -> None:
        self._config = config
        self._credentials = Credentials(config)
        self._one_at_a_time = threading.Lock()

    @property
    def tls_server_name(self) -> str:
        return self._config.tls_server_name

    @property
    def proxy(self) -> str | None:
        """The proxy of the kubeconfig, or of the environment as Go's clients read it."""
        return self._config.proxy_url or proxy_for(self._config.server, confinement.environ()) or None

    async def headers(self) -> list[tuple[str, str]]:
        """Raises CredentialError."""
        return await self._credentials.headers()

    def headers_blocking(self) -> list[tuple[str, str]]:
        return self._wait(self._credentials.headers())

    def tls_blocking(self) -> ssl.SSLContext | None:
        """None for plain http. After the rotation of a certificate a new client is needed."""
        return self._wait(self._credentials.tls())

    def _wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        if self._config.identity.exec_plugin is None:
            try:
                coroutine.send(None)
            except StopIteration as done:
                result: T = done.value
                return result
            raise AssertionError("credentials without a plugin do not wait")
        # The caller's thread may already run an event loop.
        with self._one_at_a_time, ThreadPoolExecutor(1) as thread:
            return thread.submit(asyncio.run, coroutine).result()
