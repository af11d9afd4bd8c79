"""The shared part of all long-running commands: find the cluster, run until stopped, and end with one clear line.

A component (`muster hub`, `muster agent`, …) has three things in its module: the `command` with its arguments, `settings` that
validates them, and `serve`, which runs until it is cancelled and touches neither signals nor other global state. So a component can
be a process, or one of many tasks in a process on an embedded cluster; they differ in their `ProcessEnv`.

SIGINT and SIGTERM cancel `serve` and wait for its cleanup; that is a normal end. Errors that the user can correct end the command
with a message instead of a traceback.
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
    """A cluster and how to connect to it."""

    config: ClientConfig
    in_pod: bool = False
    """Whether it is the cluster of this pod."""
    direct: Callable[[], KubeClient] | None = None
    """Makes a client with the same identity without a socket."""

    def connect(self, agent: str, metrics: Metrics | None = None, at_once: int = 0) -> KubeClient:
        """`at_once`: limit of concurrent plain requests; 0 is no limit."""
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
    """The environment of a component. The default is a process of its own: the real environment, files and standard output."""

    environ: Mapping[str, str] = field(default_factory=environ, repr=False)
    path: Callable[[str], Path] = Path
    """Maps a file name in an argument to a path."""
    info: Callable[[str], None] = echo
    warn: Callable[[str], None] = _warn
    ip: str = ""
    """The only address to listen on, if there is one."""
    cluster: FoundCluster | None = None
    """The cluster of the pod, if variables do not configure it."""

    def bind(self, host: str) -> str:
        """The address to listen on for `host`: a pod that shares the machine's loopback has one address of its own."""
        return self.ip if self.ip and host in (ANY_ADDRESS, LOOPBACK, "::", "::1", "localhost", "") else host


PROCESS = ProcessEnv()


def in_pod(kubeconfig: str | None, context: str, here: ProcessEnv = PROCESS) -> bool:
    """Whether the cluster is that of this pod, because nothing selects another."""
    named = kubeconfig or context or here.environ.get("KUBECONFIG")
    return not named and (here.cluster is not None or bool(here.environ.get("KUBERNETES_SERVICE_HOST")))


def find_cluster(kubeconfig: str | None, context: str, here: ProcessEnv = PROCESS) -> FoundCluster:
    """The cluster of the flags, else of $KUBECONFIG, else of this pod, else of the user's own kubeconfig."""
    from muster.runtime.client import KubeconfigError, in_cluster_config, load_kubeconfig

    try:
        if in_pod(kubeconfig, context, here):
            return here.cluster or FoundCluster(in_cluster_config(environ=here.environ), in_pod=True)
        return FoundCluster(load_kubeconfig(here.path(kubeconfig) if kubeconfig else None, context, here.environ))
    except KubeconfigError as error:
        raise click.ClickException(f"{error}; choose another --kubeconfig or --context") from None


def run_until_stopped(work: Coroutine[Any, Any, None]) -> signal.Signals | None:
    """Run until the work ends or a signal arrives, which is returned. Exceptions are raised; of several at once, the first."""
    try:
        return run_loop(_until_stopped(work))
    except BaseExceptionGroup as several:
        raise _first(several) from several


@contextmanager
def explained(explain: Callable[[Exception], click.ClickException | None]) -> Iterator[None]:
    """Convert errors to messages for the user if there is one; of several at once, the first.

    Of errors that ended a manager, the end is explained, else its cause.
    """
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
    """For errors of files; None for errors of sockets."""
    return None if error.filename is None else click.ClickException(f"{shown(Path(error.filename))}: {explain_file_error(error)}")


def cluster_problem(error: Exception, cluster: str, ports: str) -> click.ClickException | None:
    """Explain errors of any component: of leader election, of its `cluster`, of the `ports` (flags) on which it listens."""
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
