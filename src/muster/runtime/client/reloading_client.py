"""The client of a kubeconfig file that may change: the next request goes where, and as whom, the file says by then.

Files that a kubeconfig names are read again by any client (`credentials`). What stands in the kubeconfig itself, the server's
address and its CA above all, is not; a hub that gets another CA sends its agents another kubeconfig. Here a client is made anew
for it, below whoever uses it: caches stay, and watches are taken up again where they were. Requests under way end as they began.
A file that cannot be read, or is half written, leaves everything as it is.

There is one gate for all the clients that the file has led to, and its probes too go where the file says: after an outage that
only another kubeconfig can end, everybody who waits goes on with that.
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
    """`connect` makes the client of what the file says. Raises KubeconfigError when that cannot be read at first."""

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
        """Said by the file."""

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
