"""Relays Services to a node's own pods on the loopback interface: what kube-proxy does, for a service CIDR in 127.0.0.0/8.

A real API server refuses loopback addresses for endpoints, but it may be started with a service CIDR inside 127.0.0.0/8. On Linux
all of these are local addresses. So a client of a Service (the API server, for a webhook) connects to a relay that listens on the
Service's own address and ports and forwards to the ready pods in turn. While no pod is ready there is no listener: connections are
refused, as with kube-proxy. Services outside of the loopback range are ignored.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import itertools
import socket
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any

from muster.fleet.attached import Attached, Change
from muster.fleet.node.boundary import LocalEndpoints
from muster.fleet.workloads import podstate
from muster.fleet.workloads.endpoints import target_port
from muster.kube.selectors import from_labels
from muster.machinery.logs import get_logger
from muster.machinery.objects import Object
from muster.runtime.client.builtin import PODS, SERVICES

log = get_logger("muster.fleet.node")

HostPort = tuple[str, int]
"""Address and port."""
Spawn = Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]
CHUNK = 64 * 1024
CONNECT_SECONDS = 5.0


def routes(service: Object, pods: Sequence[Object]) -> dict[HostPort, list[HostPort]]:
    """The addresses on which a Service listens, and the ready pods of each port. Empty while there are none."""
    address = service["spec"].get("clusterIP") or ""
    if not _is_loopback(address) or service["metadata"].get("deletionTimestamp"):
        return {}
    ready = [pod for pod in pods if podstate.is_active(pod) and podstate.is_ready(pod) and pod["status"].get("podIP")]
    found: dict[HostPort, list[HostPort]] = {}
    for port in service["spec"].get("ports") or ():
        if port.get("protocol", "TCP") != "TCP":
            continue
        targets = [(pod["status"]["podIP"], number) for pod in ready if (number := target_port(port, [pod])) is not None]
        if targets:
            found[address, port["port"]] = targets
    return found


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


class _Listener:
    """Accepts connections on one address until it is cancelled, each as a task of the relay.

    Connections that are cut while being accepted are closed with the socket.
    """

    def __init__(
        self,
        endpoint: HostPort,
        targets: list[HostPort],
        spawn: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
        local_endpoints: LocalEndpoints,
    ) -> None:
        self.targets = targets
        self._endpoint = endpoint
        self._local_endpoints = local_endpoints
        self._turns = itertools.count()
        self._spawn = spawn
        self._socket = socket.create_server(endpoint, backlog=128)
        self._socket.setblocking(False)
        self._task = spawn(self._accept())
        local_endpoints.opened(*endpoint)

    def close(self) -> None:
        self._task.cancel()
        self._local_endpoints.closed(*self._endpoint)

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        with self._socket:
            while True:
                connection, _ = await loop.sock_accept(self._socket)
                target = self.targets[next(self._turns) % len(self.targets)]
                if target in self._local_endpoints:
                    self._spawn(_relay(target, connection))
                else:
                    # Programs outside of pods that listen on all addresses are not to be reached.
                    connection.close()


class ServiceRelay:
    """A controller with one key per Service. `close` ends all listeners and connections."""

    name = "services"
    resources = (SERVICES, PODS)

    def __init__(self, node: str, local_endpoints: LocalEndpoints) -> None:
        self._node = node
        self._local_endpoints = local_endpoints
        self._listeners: dict[str, dict[HostPort, _Listener]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    def keys(self, attached: Attached, change: Change) -> Iterable[str]:
        if change.resource == SERVICES:
            return (change.key,)
        namespace = change.key.partition("/")[0]
        labels = [obj["metadata"].get("labels") or {} for obj in change.versions()]
        return [
            f"{namespace}/{service['metadata']['name']}"
            for service in attached.view.scan(SERVICES, namespace)
            if service["spec"].get("selector") and any(from_labels(service["spec"]["selector"]).matches(each) for each in labels)
        ]

    async def reconcile(self, attached: Attached, key: str) -> float | None:
        service = attached.view.read(SERVICES, key)
        wanted: dict[HostPort, list[HostPort]] = {}
        if service is not None and service["spec"].get("selector"):
            selector = from_labels(service["spec"]["selector"])
            pods = [
                pod
                for pod in attached.view.scan(PODS, service["metadata"]["namespace"])
                if pod["spec"].get("nodeName") == self._node and selector.matches(pod["metadata"].get("labels") or {})
            ]
            wanted = routes(service, pods)
        self._listen(key, {} if self._closed else wanted)
        return None

    def _listen(self, key: str, wanted: dict[HostPort, list[HostPort]]) -> None:
        present = self._listeners.setdefault(key, {})
        for endpoint in [endpoint for endpoint in present if endpoint not in wanted]:
            # Open connections continue until one of their ends is closed.
            present.pop(endpoint).close()
        for endpoint, targets in wanted.items():
            if endpoint in present:
                present[endpoint].targets = targets
            else:
                present[endpoint] = _Listener(endpoint, targets, self._spawn, self._local_endpoints)
        if not present:
            del self._listeners[key]

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def close(self) -> None:
        self._closed = True
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _relay(target: HostPort, connection: socket.socket) -> None:
    """Forward until both sides have ended."""
    try:
        here, answers = await asyncio.open_connection(sock=connection)
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                there, requests = await asyncio.open_connection(*target)
            try:
                await _both(_copy(here, requests), _copy(there, answers))
            finally:
                requests.close()
        finally:
            answers.close()
    except (OSError, TimeoutError) as problem:
        log.debug("a connection to a service broke", target=target[0], error=str(problem))


async def _both(*directions: Coroutine[Any, Any, None]) -> None:
    try:
        async with asyncio.TaskGroup() as tasks:
            for direction in directions:
                tasks.create_task(direction)
    except* OSError as several:
        raise ConnectionError(str(several.exceptions[0])) from None


async def _copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    while data := await source.read(CHUNK):
        sink.write(data)
        await sink.drain()
    with contextlib.suppress(OSError):
        sink.write_eof()
