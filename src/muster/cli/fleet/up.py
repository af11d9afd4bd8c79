"""`muster up`: runs the fleet in this process, or starts it in the background and waits until it is available.

Both show the status of the fleet as it changes, and the next steps at the end. A process in the background holds a pipe to the one
that started it: the pipe is closed when the process ends, and the reason for the end, if any, comes through the pipe.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from muster.cli.console import echo
from muster.cli.fleet.commands import explain
from muster.cli.fleet.environment import DATA_DIR_VARIABLE, missing_tools
from muster.cli.fleet.request import FleetRequest, discard_fleet
from muster.cli.interruption import Interrupted
from muster.cli.process import run_until_stopped
from muster.cli.progress import ConsoleProgress
from muster.fleet.local.directory import HUB, Fleet, FleetDirectory, FleetError
from muster.machinery import logs

if TYPE_CHECKING:
    from muster.fleet.local.status import FleetStatus

_POLL_INTERVAL = 0.1


def run(request: FleetRequest, *, data_dir: str, timeout: float, verbose: bool, last_words_to: int | None) -> None:
    """Run the fleet in this process until it is stopped."""
    logs.set_level(logs.DEBUG if verbose else logs.INFO)
    # Commands that change the record send SIGUSR1, which must not end the process before the loop handles it.
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    directory = FleetDirectory(Path(data_dir))
    try:
        with directory.claimed():
            fleet = request.record(directory)
            try:
                stopped = _run_claimed(directory, fleet, background=last_words_to is not None)
            finally:
                if fleet.ephemeral:
                    discard_fleet(directory)
    except (FleetError, OSError) as error:
        if last_words_to is not None:
            with contextlib.suppress(BrokenPipeError):
                os.write(last_words_to, explain(error).encode())
        raise
    if stopped is signal.SIGINT:
        raise Interrupted("")  # the message was printed when the fleet stopped


def _run_claimed(directory: FleetDirectory, fleet: Fleet, *, background: bool) -> signal.Signals | None:
    from muster.fleet.local.processlog import ProcessLog
    from muster.runtime.client import KubeError
    from muster.runtime.install import InstallError
    from muster.store import StoreError

    log = ProcessLog(directory.log, standard=background)
    display = None if background else Display(directory)
    try:
        with logs.diverted(log.write):
            return run_until_stopped(_serve(directory, display))
    except (StoreError, InstallError, KubeError) as error:
        remedy = f"; muster up goes on when the database answers, muster down --purge --data-dir {directory.path} begins anew"
        raise FleetError(f"{error}{remedy if fleet.database else ''}") from None
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise FleetError(f"port {fleet.port} is taken by another program") from None
        raise
    finally:
        log.close()
        if display is not None:
            display.stopped(fleet)


async def _serve(directory: FleetDirectory, display: Display | None) -> None:
    import asyncio

    from muster.cli.aws_token import credential_programs
    from muster.cli.programs import programs
    from muster.fleet.local.fleet import LocalFleet

    report = display.show if display is not None else lambda status: None
    fleet = LocalFleet(directory, programs(), report, plugins=credential_programs())
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, fleet.changed)
    await fleet.run()


class Display:
    """Shows the status of a fleet as it changes: completed steps as lines, pending ones as progress, and once the next steps."""

    def __init__(self, directory: FleetDirectory, *, foreground: bool = True) -> None:
        self._directory = directory
        self._foreground = foreground
        self._progress = ConsoleProgress()
        self._seen: dict[str, str] = {}
        self._ready_shown = False

    def show(self, status: FleetStatus) -> None:
        for name, one in status.members.items():
            if one.state == "Available" and self._seen.get(name) != "Available":
                self._progress.info(f"{name} is {'ready' if name == HUB else 'available'}")
        for name in self._seen.keys() - status.members.keys():
            self._progress.info(f"{name} is gone")
        self._seen = {name: one.state for name, one in status.members.items()}
        if status.problems:
            self._progress.waiting("the fleet", listed(status.problems))
        elif not self._ready_shown:
            self._ready_shown = True
            self._progress.done()
            echo(next_steps(self._directory, status, foreground=self._foreground))

    def stopped(self, fleet: Fleet) -> None:
        self._progress.done()
        kept = "" if fleet.ephemeral else f"; its state is kept in {self._directory.path}: muster up goes on from there"
        echo(f"the fleet has stopped{kept}")


def listed(problems: Mapping[str, str]) -> str:
    return "; ".join(f"{name}: {reason}" for name, reason in problems.items())


def extend(request: FleetRequest, directory: FleetDirectory, pid: int, timeout: float) -> list[str]:
    """Add the missing clusters to a running fleet and wait until all are available. Returns messages for the user."""
    from muster.cli.fleet.follow import follow

    before = directory.existing()
    request.check_running(before, directory.path)
    after = directory.edit(request.with_clusters)
    wanted = {record.name for record in after.clusters}

    def why(found: FleetStatus) -> str:
        missing = dict.fromkeys(wanted - found.clusters.keys(), "the fleet has not looked at it yet")
        return listed({name: reason for name, reason in (found.problems | missing).items() if name in wanted or name == HUB})

    follow(directory, pid, "the fleet", timeout, why)
    added = [record.name for record in after.clusters if not before.has(record.name)]
    notes = [f"{name} is available" for name in added] or ["the fleet runs already"]
    if request.clusters is not None and len(after.staying) > request.clusters:
        notes.append(
            f"it has {len(after.staying)} managed clusters, --clusters asks for {request.clusters}, and none is removed unasked: "
            f"muster cluster remove {after.staying[-1]}"
        )
    return notes


def start_detached(request: FleetRequest, *, data_dir: str, timeout: float, verbose: bool, last_words_to: int | None) -> None:
    """Run the fleet in a background process; returns when all clusters are available. Raises FleetError with the reason if not in
    time."""
    directory = FleetDirectory(Path(data_dir))
    # Checked here too, because an error of the process would not name the option.
    request.check(directory)
    reading, writing = os.pipe()
    command = [sys.executable, "-m", "muster.cli.muster", "up", "--data-dir", data_dir]
    command += ["--last-words-to", str(writing), "--timeout", str(timeout)]
    command += [*request.arguments(), *(["--verbose"] if verbose else [])]
    command += ["--log-format", logs.current_format()]
    child = subprocess.Popen(
        command,
        env=request.environ(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=[writing],
        start_new_session=True,
    )
    os.close(writing)
    watch = _StartupWatch(directory, child, reading)
    try:
        watch.until_available(timeout)
    except KeyboardInterrupt:
        echo("stopping the fleet", err=True)
        child.terminate()
        child.wait()
        if request.ephemeral:
            raise Interrupted("the fleet has stopped, and nothing is left of it") from None
        raise Interrupted(f"the fleet has stopped; its state is kept in {data_dir}: muster up goes on from there") from None


class _StartupWatch:
    """Watches a fleet that is starting in the background."""

    def __init__(self, directory: FleetDirectory, child: subprocess.Popen[bytes], pipe: int) -> None:
        self._directory = directory
        self._child = child
        self._pipe = pipe

    def until_available(self, seconds: float) -> None:
        """Wait until the fleet is available. Raises FleetError if its process ends or the time is over."""
        from muster.fleet.local.status import read_status

        display = Display(self._directory, foreground=False)
        deadline = time.monotonic() + seconds
        while True:
            last_words = self._listen()
            status = read_status(self._directory)
            if status is not None and status.pid != self._child.pid:
                status = None
            if status is not None:
                display.show(status)
                if not status.problems:
                    return
            if last_words is not None:
                self._child.wait()
                raise FleetError(last_words or f"the fleet ended while it started; its log is {self._directory.log}")
            if time.monotonic() > deadline:
                raise FleetError(_timeout_message(seconds, status))

    def _listen(self) -> str | None:
        """Wait a moment for the end of the process: its last message, which may be empty; None while it runs."""
        ready, _, _ = select.select([self._pipe], [], [], _POLL_INTERVAL)
        return os.read(self._pipe, 65536).decode(errors="replace") if ready else None


def _timeout_message(seconds: float, status: FleetStatus | None) -> str:
    problems = status.problems if status is not None else {"fleet": "it has not started"}
    return f"not everything is available after {seconds:g} s: {listed(problems)}. It goes on: see muster status and muster logs"


def next_steps(directory: FleetDirectory, status: FleetStatus, *, foreground: bool) -> str:
    clusters = ", ".join(status.clusters) or "no managed clusters yet"
    if status.clusters and directory.existing().gateway:
        clusters += ", each also through the hub's gateway"
    first = next(iter(directory.existing().members), HUB)
    known = os.environ.get(DATA_DIR_VARIABLE) or ".muster"
    suffix = "" if str(directory.path) == known else f" --data-dir {directory.path}"
    lines = [f"ready: {HUB} at {status.url}; {clusters}", "", "Try:"]
    tools = missing_tools()
    if tools is not None:
        lines.append(f"  export PATH={tools}:$PATH")
    lines += [
        f"  export KUBECONFIG={directory.kubeconfig.absolute()}",
        "  kubectl get managedclusters",
        f"  kubectl --context {first} get pods -A",
        *(_gateway_steps(first) if first != HUB and directory.existing().gateway else ()),
        f"  muster status{suffix}",
        f"  muster cluster add cluster{len(directory.existing().members) + 1}{suffix}",
        *(_aws_steps(directory, status.aws) if status.aws else ()),
        "",
        f"Stop with {'Ctrl-C or ' if foreground else ''}muster down{suffix}; muster up{suffix} goes on from there.",
    ]
    return "\n".join(lines)


def _gateway_steps(cluster: str) -> list[str]:
    """How to access a cluster through the gateway with the hub's credentials."""
    file = f"{cluster}.kubeconfig"
    return [f"  clusteradm gateway kubeconfig {cluster} > {file} && kubectl --kubeconfig {file} get namespaces"]


def _aws_steps(directory: FleetDirectory, url: str) -> list[str]:
    """How to use the local AWS with the AWS CLI, boto3 and clusteradm, without any request to AWS."""
    from muster.fleet.local.cloud import PROFILES, ca_file, config_file

    first, *others = PROFILES
    return [
        "",
        f"AWS is played at {url}. Lead aws, boto3 and clusteradm there, as the administrator of the hub's account:",
        f"  export AWS_CONFIG_FILE={config_file(directory)} AWS_PROFILE={first}",
        f"  export AWS_ENDPOINT_URL={url} AWS_CA_BUNDLE={ca_file(directory)}",
        "  aws iam list-roles",
        *(f"  AWS_PROFILE={other} aws sts get-caller-identity" for other in others),
    ]
