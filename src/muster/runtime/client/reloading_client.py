"""The client of a kubeconfig file that may change: each request uses the server and credential of the current file.

Any client reads the files again that a kubeconfig refers to (`credentials`), but not the kubeconfig itself, with the server's
address and its CA; a hub with a new CA sends its agents a new kubeconfig. Here the client is made anew for it, below its users:
caches stay, and watches are resumed. Requests under way end normally. A file that cannot be read, or is incomplete, changes
nothing.

All clients of the file share one gate, whose probes use the current file too: after an outage that only another kubeconfig ends,
all waiting callers continue with that.
"""

from __future__ import annotations

import random as chance
from collections.abc import Callable
from pathlib import Path

from muster.machinery import confinement
from muster.machinery.clock import SYSTEM, Clock, Random
from muster.machinery.logs import get_logger
from muster.runtime.client.base import KubeClient
from muster.runtime.client.credentials import stamp_of
from muster.runtime.client.delegating_client import DelegatingClient
from muster.runtime.client.gate import Gate
from muster.runtime.client.http import HttpClient
from muster.runtime.client.kubeconfig import ClientConfig, KubeconfigError, load_kubeconfig

log = get_logger("muster.runtime.client.reloading_client")


class ReloadingClient(DelegatingClient):
    """`connect` makes the client for the content of the file. Raises KubeconfigError if that cannot be read at first."""

    def __init__(
        self,
        path: Path,
        connect: Callable[[ClientConfig], HttpClient],
        *,
        clock: Clock = SYSTEM,
        random: Random = chance.random,
    ) -> None:
        self._path = path
        self._connect = connect
        self._stamp = stamp_of(path)
        self._config = load_kubeconfig(path)
        self._current = connect(self._config)
        self._retired: list[HttpClient] = []
        self._gate = Gate(self._config.server, self._probe, clock=clock, random=random)
        super().__init__(self._current)

    @property
    def gate(self) -> Gate:
        return self._gate

    async def _probe(self) -> None:
        await self._client().probe()

    @property
    def _inner(self) -> KubeClient:
        return self._client()

    @_inner.setter
    def _inner(self, client: KubeClient) -> None:
        """The current client of the file."""

    def _client(self) -> HttpClient:
        stamp = stamp_of(self._path)
        if stamp is not None and stamp != self._stamp:
            self._stamp = stamp
            self._reload()
        return self._current

    def _reload(self) -> None:
        try:
            config = load_kubeconfig(self._path)
        except (KubeconfigError, OSError) as error:
            log.warning("kubeconfig not reloaded", path=confinement.shown(self._path), error=str(error))
            return
        if config != self._config:
            self._retired.append(self._current)
            self._config, self._current = config, self._connect(config)
            log.info("kubeconfig reloaded", path=confinement.shown(self._path), server=config.server)

    async def close(self) -> None:
        for client in (*self._retired, self._current):
            await client.close()
