"""Runs kubectl on clusters behind the gateway: interactively on one of them, or on many at once.

Each run has a kubeconfig of its own with one context, in a directory that only the user can read and that is removed afterwards.
Arguments that select another cluster or user are refused, because the output would be shown as that of the wrong cluster.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from muster.administration.errors import AdministrationError
from muster.gateway.client import ClusterResult, Gateway
from muster.kube import yaml
from muster.machinery.privatefiles import replace_private

PROGRAM: Final = "kubectl"
CONNECTION_FLAGS: Final = ("--kubeconfig", "--context", "--cluster", "--server", "-s", "--token")
"""Flags that select another cluster or user. `--user` is not included: it is also the subject of a RoleBinding."""


@dataclass(frozen=True)
class Finished:
    code: int
    out: str
    err: str


def find_program() -> str:
    """The path of kubectl. Raises AdministrationError."""
    found = shutil.which(PROGRAM)
    if found is None:
        raise AdministrationError(f"there is no {PROGRAM} in PATH", "install it, or use the kubeconfig of gateway kubeconfig")
    return found


def arguments_of(given: Sequence[str]) -> list[str]:
    """kubectl's arguments; a leading `kubectl` is dropped.

    Raises AdministrationError for flags that select another cluster or user.
    """
    arguments = list(given)
    if arguments[:1] == [PROGRAM]:
        arguments = arguments[1:]
    if not arguments:
        raise AdministrationError("no command was given", "put it behind --, such as: -- kubectl get pods -A")
    for word in arguments[: arguments.index("--")] if "--" in arguments else arguments:
        flag = word.partition("=")[0] if word.startswith("--") else word[:2]
        if flag in CONNECTION_FLAGS:
            raise AdministrationError(f"{flag}: the gateway sets the cluster and the user", "leave it out; choose --clusters")
    return arguments


def reads_input(arguments: Sequence[str]) -> bool:
    """Whether it reads manifests from standard input."""
    own = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return any(word in ("-", "-f-", "--filename=-") for word in own)


@contextmanager
def kubeconfigs(gateway: Gateway, clusters: Sequence[str]) -> Iterator[dict[str, Path]]:
    """Temporary kubeconfigs, one for each cluster."""
    with tempfile.TemporaryDirectory(prefix="clusteradm-") as directory:
        paths = {cluster: Path(directory) / cluster for cluster in clusters}
        for cluster, path in paths.items():
            replace_private(path, yaml.dump(gateway.kubeconfig_for(cluster)))
        yield paths


def run_attached(gateway: Gateway, cluster: str, arguments: Sequence[str]) -> int:
    """Run interactively, attached to the terminal; returns the exit code."""
    program = find_program()
    with kubeconfigs(gateway, [cluster]) as paths:
        return subprocess.run([program, *arguments], env=_environment(paths[cluster]), check=False).returncode


async def run_on(
    gateway: Gateway, clusters: Sequence[str], arguments: Sequence[str], *, given: bytes = b"", parallel: int, timeout: float
) -> AsyncGenerator[ClusterResult[Finished], None]:
    """Run the same command on every cluster, with `given` on its standard input. One that takes too long is killed."""
    program = find_program()
    with kubeconfigs(gateway, clusters) as paths:

        async def run(cluster: str) -> Finished:
            return await _run([program, *arguments], paths[cluster], given)

        async with aclosing(gateway.fanout(clusters, run, limit=parallel, timeout=timeout)) as results:
            async for result in results:
                yield result


async def _run(command: Sequence[str], kubeconfig: Path, given: bytes) -> Finished:
    pipe, nothing = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=pipe if given else nothing,
        stdout=pipe,
        stderr=pipe,
        env=_environment(kubeconfig),
        start_new_session=True,
    )
    try:
        out, err = await process.communicate(given or None)
    finally:
        if process.returncode is None:
            # The whole process group is killed, because kubectl may run plugins.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    return Finished(process.returncode or 0, out.decode(errors="replace"), err.decode(errors="replace"))


def _environment(kubeconfig: Path) -> dict[str, str]:
    return {**os.environ, "KUBECONFIG": str(kubeconfig)}
