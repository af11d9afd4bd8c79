"""What every long-running command does alike: find its cluster, run until told to stop, and end with one clear line.

A component (`muster hub`, `muster agent`, …) is three things in a module of its own: the `command` that reads its arguments,
`settings` that checks them, and `serve`, which runs until it is cancelled and touches neither signals nor anything global. So a
component can be a process or, on an embedded cluster, one of many tasks in one; what differs is its `ProcessEnv`.

SIGINT and SIGTERM cancel the work and wait for it to tidy up; that is a clean end. Anything a user can mend ends the command with
a message instead of a stack trace.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from muster.cli.console import echo
from muster.cli.loop import run_loop
from muster.machinery.confinement import environ, shown
from muster.machinery.oserrors import explain_file_error, explain_listen_error

if TYPE_CHECKING:
    from muster.machinery.metrics import Metrics
    from muster.runtime.client import ClientConfig, KubeClient

ANY_ADDRESS = "0.0.0.0"
LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class FoundCluster:
    """A cluster to work on, and how to get there."""

    config: ClientConfig
    in_pod: bool = False
    """Whether it is the one whose pod this is."""
    direct: Callable[[], KubeClient] | None = None
    """The same identity without a socket."""

    def connect(self, agent: str, metrics: Metrics | None = None, at_once: int = 0) -> KubeClient:
        """`at_once`: plain requests under way; 0 is no limit."""
        from muster.runtime.client import HttpClient

        if self.direct is not None:
            return self.direct()
        return HttpClient(self.config, agent=agent, metrics=metrics, at_once=at_once)

    def connect_in(self, stack: AsyncExitStack, agent: str, metrics: Metrics, at_once: int = 0) -> KubeClient:
        """Connected until the stack ends."""
        client = self.connect(agent, metrics, at_once)
        stack.push_async_callback(client.close)
        return client


def _warn(text: str) -> None:
    echo(text, err=True)


@dataclass(frozen=True)
class ProcessEnv:
    """Where a component runs. The default is a process of its own: the real environment, files and standard output."""

    environ: Mapping[str, str] = field(default_factory=environ, repr=False)
    path: Callable[[str], Path] = Path
    """Where a file that an argument names is."""
    info: Callable[[str], None] = echo
    warn: Callable[[str], None] = _warn
    ip: str = ""
    """The only address to listen on, if there is one."""
    cluster: FoundCluster | None = None
    """The cluster of the pod, where variables do not tell."""

    def bind(self, host: str) -> str:
        """Where to listen when told `host`: a pod that shares the machine's loopback has one address of it as its own."""
        return self.ip if self.ip and host in (ANY_ADDRESS, LOOPBACK, "::", "::1", "localhost", "") else host


PROCESS = ProcessEnv()


def in_pod(kubeconfig: str | None, context: str, here: ProcessEnv = PROCESS) -> bool:
    """Whether the cluster is the one this runs in, because nothing names another."""
    named = kubeconfig or context or here.environ.get("KUBECONFIG")
    return not named and (here.cluster is not None or bool(here.environ.get("KUBERNETES_SERVICE_HOST")))


def find_cluster(kubeconfig: str | None, context: str, here: ProcessEnv = PROCESS) -> FoundCluster:
    """Of the flags, else of $KUBECONFIG, else of the pod this runs in, else of the user's own kubeconfig."""
    from muster.runtime.client import KubeconfigError, in_cluster_config, load_kubeconfig

    try:
        if in_pod(kubeconfig, context, here):
            return here.cluster or FoundCluster(in_cluster_config(environ=here.environ), in_pod=True)
        return FoundCluster(load_kubeconfig(here.path(kubeconfig) if kubeconfig else None, context, here.environ))
    except KubeconfigError as error:
        raise click.ClickException(f"{error}; choose another --kubeconfig or --context") from None


def run_until_stopped(work: Coroutine[Any, Any, None]) -> signal.Signals | None:
    """Run until the work ends or a signal, which is returned, says so. What it raises comes out; of several at once, the first."""
    try:
        return run_loop(_until_stopped(work))
    except BaseExceptionGroup as several:
        raise _first(several) from several


@contextmanager
def explained(explain: Callable[[Exception], click.ClickException | None]) -> Iterator[None]:
    """What goes wrong inside comes out in words for a user, where there are any; of several at once, the first. Of what ended a
    manager, the end is explained, else its cause."""
    from muster.machinery.tasks import RunnableEnded

    try:
        yield
    except Exception as error:
        one = _first(error)
        cause = _first(one.error) if isinstance(one, RunnableEnded) and one.error is not None else None
        for known in (one, cause):
            message = known if isinstance(known, click.ClickException) else explain(known) if isinstance(known, Exception) else None
            if message is not None:
                raise message from None
        if one is error:
            raise
        raise one from error


def file_problem(error: OSError) -> click.ClickException | None:
    """For what happened to a file; None for what happened to a socket."""
    return None if error.filename is None else click.ClickException(f"{shown(Path(error.filename))}: {explain_file_error(error)}")


def cluster_problem(error: Exception, cluster: str, ports: str) -> click.ClickException | None:
    """Words for what can go wrong in any part: leadership, its `cluster`, the `ports` (flags) it listens on."""
    from muster.runtime.client import KubeError
    from muster.runtime.controller import LeadershipLost

    match error:
        case LeadershipLost():
            return click.ClickException(str(error))
        case KubeError():
            return click.ClickException(f"{cluster} refuses access: {error}")
        case OSError():
            message = f"cannot listen: {explain_listen_error(error)}; choose another {ports}"
            return file_problem(error) or click.ClickException(message)
    return None


async def _until_stopped(work: Coroutine[Any, Any, None]) -> signal.Signals | None:
    task = asyncio.ensure_future(work)
    stopping: signal.Signals | None = None

    def stop(number: signal.Signals) -> None:
        nonlocal stopping
        stopping = number
        task.cancel()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop, number)
    try:
        await task
    except asyncio.CancelledError:
        if stopping is None:
            raise
    return stopping


def _first(error: BaseException) -> BaseException:
    return _first(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error
