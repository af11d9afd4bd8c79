"""What every long-running command does alike: find its cluster, run until told to stop, and end with one clear line.

SIGINT and SIGTERM cancel the work and wait for it to tidy up; that is a clean end. Anything a user can mend ends the command with
a message instead of a stack trace.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from muster.runtime.kubeconfig import ClientConfig


def in_pod(kubeconfig: str | None, context: str) -> bool:
    """Whether the cluster is the one this runs in, because nothing names another."""
    return not (kubeconfig or context or os.environ.get("KUBECONFIG")) and bool(os.environ.get("KUBERNETES_SERVICE_HOST"))


def find_cluster(kubeconfig: str | None, context: str) -> ClientConfig:
    """Of the flags, else of $KUBECONFIG, else of the pod this runs in, else of the user's own kubeconfig."""
    from muster.runtime.kubeconfig import KubeconfigError, in_cluster_config, load_kubeconfig

    try:
        if in_pod(kubeconfig, context):
            return in_cluster_config()
        return load_kubeconfig(kubeconfig, context)
    except KubeconfigError as error:
        raise click.ClickException(f"{error}; choose another --kubeconfig or --context") from None


def run_until_stopped(work: Coroutine[Any, Any, None]) -> None:
    """Run until the work ends or a signal says so. What it raises comes out; of several at once, the first."""
    import uvloop

    try:
        uvloop.run(_until_stopped(work))
    except BaseExceptionGroup as several:
        raise _first(several) from several


async def _until_stopped(work: Coroutine[Any, Any, None]) -> None:
    task = asyncio.ensure_future(work)
    stopping = False

    def stop() -> None:
        nonlocal stopping
        stopping = True
        task.cancel()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    try:
        await task
    except asyncio.CancelledError:
        if not stopping:
            raise


def _first(several: BaseExceptionGroup[BaseException]) -> BaseException:
    one = several.exceptions[0]
    return _first(one) if isinstance(one, BaseExceptionGroup) else one
