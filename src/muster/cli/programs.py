"""The programs of Muster's image for the node runtime: the commands in operators' Deployments, run as tasks of this process.

A program is a component (see `muster.cli.process`): its arguments are parsed by the same command as in a process, its cluster is
the pod's, accessed without a socket under the pod's own service account, its files are where the node mounted them, and its output
goes to the pod's log. A wrong argument ends it as it would end the process: with a line in the log and an exit code. Memory is
released when it ends, as at the end of a process.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

import click

from muster.cli.process import FoundCluster, ProcessEnv
from muster.machinery.allocation import Reclaimer
from muster.machinery.clock import SYSTEM, Clock

if TYPE_CHECKING:
    from muster.fleet.node import PodEnvironment, Program

PARTS: Final[Mapping[tuple[str, ...], str]] = {
    ("addon-manager",): "muster.cli.addon_manager",
    ("agent",): "muster.cli.agent",
    ("config-policy-controller", "controller"): "muster.cli.policy",
    ("config-policy-controller", "trigger-uninstall"): "muster.cli.policy_uninstall",
    ("gateway",): "muster.cli.gateway",
    ("gateway-agent",): "muster.cli.gateway_agent",
    ("grpc-server",): "muster.cli.grpc_server",
    ("hub",): "muster.cli.hub",
    ("hub-addons",): "muster.cli.hub_addons",
    ("managed-serviceaccount-agent",): "muster.cli.managed_serviceaccount_agent",
    ("operator",): "muster.cli.operator",
    ("placement",): "muster.cli.placement",
    ("policy",): "muster.cli.policy",
    ("policy", "trigger-uninstall"): "muster.cli.policy_uninstall",
    ("policy-addon",): "muster.cli.policy_addon",
    ("work-agent",): "muster.cli.work_agent",
    ("work-hub",): "muster.cli.work_hub",
}
"""The first words of a container's command line, and the module of the component."""


class Part(Protocol):
    command: click.Command
    settings: Callable[[dict[str, Any], ProcessEnv], Any]
    serve: Callable[[Any, ProcessEnv], Coroutine[Any, Any, None]]


def programs(clock: Clock = SYSTEM) -> dict[tuple[str, ...], Program]:
    reclaimer = Reclaimer(clock)
    return {subcommand: _program(subcommand, module, reclaimer) for subcommand, module in PARTS.items()}


def _program(subcommand: tuple[str, ...], module: str, reclaimer: Reclaimer) -> Program:
    async def run(args: Sequence[str], pod: PodEnvironment) -> int:
        here = process_env(pod)
        part = cast(Part, import_module(module))
        try:
            with redirect_stdout(_Lines(pod, "stdout")), redirect_stderr(_Lines(pod, "stderr")):
                # For --help, click prints the help itself.
                context = part.command.make_context(subcommand[-1], list(args))
            await part.serve(part.settings(context.params, here), here)
        except click.ClickException as error:
            pod.print(f"Error: {error.format_message()}", stream="stderr")
            return error.exit_code
        except click.exceptions.Exit as end:
            return end.exit_code
        finally:
            reclaimer.ended()
        return 0

    return run


class _Lines(io.TextIOBase):
    """A file whose text goes to a pod's log."""

    def __init__(self, pod: PodEnvironment, stream: str) -> None:
        self._pod = pod
        self._stream = stream

    def write(self, text: str) -> int:
        self._pod.write(self._stream, text)
        return len(text)


def process_env(pod: PodEnvironment) -> ProcessEnv:
    return ProcessEnv(
        environ=pod.environ,
        path=pod.path,
        info=pod.print,
        warn=partial(pod.print, stream="stderr"),
        ip=pod.ip,
        cluster=FoundCluster(pod.client_config, in_pod=True, direct=pod.direct) if pod.has_identity else None,
    )
