"""The logs of a local fleet: of its process from a file, of its components from the clusters that run them as pods.

A component is `<cluster>/<app>`. If several are shown, each line begins with its component.
"""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import click

from muster.cli.console import echo
from muster.fleet.local.directory import HUB, FleetDirectory
from muster.fleet.node.podrecord import app_of, kept_logs
from muster.runtime.client import HttpClient, KubeError, load_kubeconfig
from muster.runtime.client.builtin import PODS
from muster.transport.persistence import SQL

PROCESS = "fleet"
FEW = 10
_POLL_INTERVAL = 0.2


@dataclass(frozen=True)
class Source:
    cluster: str
    app: str
    namespace: str
    pod: str
    container: str

    @property
    def name(self) -> str:
        return f"{self.cluster}/{self.app}"

    def fits(self, wanted: str) -> bool:
        return wanted in ("", self.name, self.app, self.cluster, f"{self.cluster}/{self.pod}", self.pod)


async def show(directory: FleetDirectory, component: str, follow: bool, tail: int) -> None:
    fleet = directory.existing()
    lines = tail if tail >= 0 else (-1 if component else FEW)
    if component == PROCESS or (component == HUB and fleet.persistence == SQL):
        # A hub in a database has no pods: its components are tasks of the process.
        await _show_file(directory, follow, lines, _plain)
        return
    if directory.holder() is None:
        if follow:
            raise click.ClickException("the fleet is not running, so nothing can be followed: start it with muster up")
        echo("the fleet is not running: this is what was logged before it stopped", err=True)
        await _show_kept(directory, [HUB, *fleet.members], component, lines)
        return
    clients = {
        name: HttpClient(load_kubeconfig(directory.kubeconfig, name), agent="muster")
        for name in (HUB, *(record.name for record in fleet.clusters if not record.leaving and not record.is_hub))
    }
    try:
        sources = [source for name, client in clients.items() for source in await _sources(name, client)]
        wanted = [source for source in sources if source.fits(component)]
        if not wanted:
            raise _no_component(component, sources)
        await _show_all(directory, clients, wanted, follow, lines, with_process=not component)
    except KubeError as error:
        raise click.ClickException(f"the fleet does not answer: {error}") from None
    finally:
        for client in clients.values():
            await client.close()


async def _show_kept(directory: FleetDirectory, clusters: Sequence[str], component: str, lines: int) -> None:
    """The logs on disk of a stopped fleet's pods."""
    found = [
        (Source(cluster, kept.pod.app, kept.pod.namespace, kept.pod.name, kept.container), kept)
        for cluster in clusters
        for kept in await asyncio.to_thread(kept_logs, directory.nodes / cluster)
    ]
    wanted = [(source, kept) for source, kept in found if source.fits(component)]
    if not wanted:
        raise _no_component(component, [source for source, _ in found])
    many = not component or len({source.pod for source, _ in wanted}) > 1
    width = max(len(source.name) for source, _ in wanted)
    if not component:
        await _show_file(directory, False, lines, _prefixed(PROCESS, width))
    for source, kept in wanted:
        put = _prefixed(source.name, width) if many else _plain
        for line in deque(kept.lines(), maxlen=lines) if lines >= 0 else kept.lines():
            put(line)


def _no_component(component: str, sources: Sequence[Source]) -> click.ClickException:
    names = ", ".join(sorted({source.name for source in sources} | {PROCESS}))
    return click.ClickException(f"no component {component!r}: there are {names}")


async def _sources(cluster: str, client: HttpClient) -> list[Source]:
    pods = (await client.list(PODS)).items
    return [
        Source(
            cluster,
            app_of(pod["metadata"]["name"], pod["metadata"].get("labels")),
            pod["metadata"]["namespace"],
            pod["metadata"]["name"],
            container["name"],
        )
        for pod in pods
        for container in pod["spec"]["containers"]
    ]


async def _show_all(
    directory: FleetDirectory,
    clients: dict[str, HttpClient],
    sources: Sequence[Source],
    follow: bool,
    lines: int,
    *,
    with_process: bool,
) -> None:
    many = with_process or len({source.pod for source in sources}) > 1
    width = max(len(source.name) for source in sources)
    works = [
        partial(_show_pod, clients[source.cluster], source, follow, lines, _prefixed(source.name, width) if many else _plain)
        for source in sources
    ]
    if with_process:
        works.insert(0, partial(_show_file, directory, follow, lines, _prefixed(PROCESS, width)))
    if not follow:
        for work in works:
            await work()
        return
    async with asyncio.TaskGroup() as tasks:
        for work in works:
            tasks.create_task(work())


def _plain(line: str) -> None:
    echo(line)


def _prefixed(name: str, width: int) -> Callable[[str], None]:
    return lambda line: echo(f"{name.ljust(width)} | {line}")


async def _show_pod(client: HttpClient, source: Source, follow: bool, lines: int, put: Callable[[str], None]) -> None:
    path = PODS.path(source.namespace, source.pod, "log")
    query = {"container": source.container, **({"tailLines": str(lines)} if lines >= 0 else {})}
    try:
        if not follow:
            for line in (await client.raw("GET", path, query)).decode(errors="replace").splitlines():
                put(line)
            return
        async for raw in client.lines(path, {**query, "follow": "true"}, None, None):
            put(raw.decode(errors="replace").rstrip("\n"))
    except KubeError as error:
        # A pod that has not started, or was deleted: print one line, and continue with the others.
        echo(f"{source.name}: {error}", err=True)


async def _show_file(directory: FleetDirectory, follow: bool, lines: int, put: Callable[[str], None]) -> None:
    try:
        file = directory.log.open(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return
    with file:
        for line in deque(file, maxlen=lines) if lines >= 0 else file:
            put(line.rstrip("\n"))
        while follow:
            for line in file:
                put(line.rstrip("\n"))
            sys.stdout.flush()
            await asyncio.sleep(_POLL_INTERVAL)
