"""`muster up`: run the fleet in this process, or start that in the background and watch it come up.

Both show the fleet's status as it changes, and at the end what to try. A process in the background holds a pipe to the one that
started it: the pipe ends with the process, and if there is something to say about that, it comes through the pipe.
"""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import count, islice
from pathlib import Path
from typing import TYPE_CHECKING

from muster.cli.console import echo
from muster.cli.fleet.commands import AWS_MODES, explain
from muster.cli.fleet.environment import DATA_DIR_VARIABLE, missing_tools
from muster.cli.grpc_persistence import DATABASE_VARIABLE
from muster.cli.interruption import Interrupted
from muster.cli.process import run_until_stopped
from muster.cli.progress import ConsoleProgress
from muster.fleet.local.directory import HUB, LOOPBACK, Fleet, FleetDirectory, FleetError
from muster.machinery import logs
from muster.machinery.oserrors import explain_listen_error
from muster.registration.drivers.flags import AWS, DEFAULT, GRPC
from muster.transport.persistence import KUBE, SQL

if TYPE_CHECKING:
    from muster.fleet.local.status import FleetStatus

USUAL_PORT = 6443
CLUSTERS = 2
_LOOK_EVERY = 0.1
NO_HUB_CLUSTER = f"--hub-cluster: a hub that is kept in a database (--persistence {SQL}) is no cluster: nothing can run there"
NO_GATEWAY = f"--gateway: a hub that is kept in a database (--persistence {SQL}) has none: no API server can lead to it there"


def run(wish: Wish, *, data_dir: str, timeout: float, verbose: bool, last_words_to: int | None) -> None:
    """In this process, until it is told to stop."""
    logs.set_level(logs.DEBUG if verbose else logs.INFO)
    # Whoever changes the fleet's record signals; until the loop listens, that must not end the process.
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    directory = FleetDirectory(Path(data_dir))
    try:
        with directory.claimed():
            fleet = wish.write_down(directory)
            try:
                stopped = _run_claimed(directory, fleet, background=last_words_to is not None)
            finally:
                if fleet.ephemeral:
                    discard(directory)
    except (FleetError, OSError) as error:
        if last_words_to is not None:
            with contextlib.suppress(BrokenPipeError):
                os.write(last_words_to, explain(error).encode())
        raise
    if stopped is signal.SIGINT:
        raise Interrupted("")  # what is left was said when the fleet stopped


@dataclass(frozen=True)
class Wish:
    """What the command line asks for; None is what it does not speak of."""

    clusters: int | None
    auth: str | None
    aws_mode: str | None
    """The hub's, as EKS calls it."""
    persistence: str | None
    database: str | None = field(repr=False)
    ephemeral: bool
    port: int | None
    gateway: bool | None = None
    host: str | None = None
    """Address to listen on."""
    advertise: str | None = None
    """What kubeconfigs and agents are told."""
    simulate_images: bool | None = None
    hub_cluster: str | None = None
    """What the hub is to be called as a cluster of its own."""

    def write_down(self, directory: FleetDirectory) -> Fleet:
        """Into the fleet's record; what is there already stays. Raises FleetError where the two contradict each other."""
        known = self.check(directory)
        if known is None:
            if directory.record.exists():
                # Of a fleet whose state went with its process.
                _empty(directory)
            first = self._grown(self._first(), CLUSTERS if self.clusters is None else self.clusters)
            return directory.edit(lambda fleet: fleet, first)
        place = self._place(known)
        if self.port == 0 and not _is_free(place[0], place[1]):
            place = (_any_port(), *place[1:])
        if place[0] != known.port and not _is_free(place[0], place[1]):
            raise FleetError(f"port {place[0]} is taken by another program: choose another --port, or 0 for any free one")
        homes = (known.port if place[0] == known.port else 0, known.grpc_port, known.clusters_port, known.aws_port)
        taken = next((port for port in homes if port and not _is_free(port, place[1])), None)
        if taken is not None:
            move = ", move the fleet with --port 0" if taken == known.port else ""
            raise FleetError(
                f"port {taken}, where this fleet is at home, is taken by another program: end that{move}, "
                f"or begin anew (muster down --purge --data-dir {directory.path})"
            )
        return directory.edit(lambda fleet: self.grown(self._switched(fleet.moved(*place))))

    def moved(self, known: Fleet, path: Path) -> Fleet:
        """A fleet that does not run, where it is to be. Raises FleetError."""
        self._agree(path, known)
        return known.moved(*self._place(known))

    def _place(self, known: Fleet) -> tuple[int, str, str]:
        """Port, address to listen on and address to tell of: where the fleet is to be from now on."""
        host = known.host if self.host is None else self.host
        advertise = known.advertise if self.advertise is None and host == known.host else advertised(host, self.advertise or "")
        return self.port or known.port, host, advertise

    def check(self, directory: FleetDirectory) -> Fleet | None:
        """The fleet that goes on; None where a new one begins. Raises FleetError for what cannot be had."""
        known = directory.read()
        if known is None or known.ephemeral:
            self._check_options()
            return None
        self._agree(directory.path, known)
        return known

    def check_running(self, known: Fleet, path: Path) -> None:
        """Raises FleetError for what a fleet that runs cannot have, or not before it is started again."""
        replace(self, ephemeral=False)._agree(path, known)
        if self.ephemeral and not known.ephemeral:
            raise FleetError(f"--ephemeral: the fleet in {path} runs and keeps its state: choose another --data-dir")
        if self.port not in (None, 0, known.port) or self._place(known)[1:] != (known.host, known.advertise):
            where = f"the fleet in {path} runs on {known.address}, port {known.port}"
            raise FleetError(f"{where}: stop it with muster down, and muster up with --port, --host or --advertise moves it")
        if self.gateway and not known.gateway:
            raise FleetError(f"--gateway: the fleet in {path} runs without one: stop it with muster down, then start it so")
        if self.simulate_images not in (None, known.simulate_images):
            how = "does" if known.simulate_images else "does not"
            raise FleetError(
                f"{self._simulation()}: the fleet in {path} {how} simulate: stop it with muster down, then start it so"
            )

    def _check_options(self) -> None:
        """Of a new fleet."""
        auth, persistence = self.auth or DEFAULT, self.persistence or KUBE
        if persistence == SQL and auth != GRPC:
            raise FleetError(f"--persistence {SQL} needs --auth {GRPC}: a hub that is kept in a database is reached over gRPC")
        if persistence == SQL and self.ephemeral:
            raise FleetError(f"--persistence {SQL} keeps the hub in a database, --ephemeral keeps nothing: leave one of them out")
        if persistence != SQL and self.database is not None:
            raise FleetError(f"--database is for --persistence {SQL}, and --persistence is {persistence}")
        if persistence == SQL and self.gateway:
            raise FleetError(NO_GATEWAY)
        self._check_hub_cluster(auth, persistence)
        self._check_address(auth, persistence)
        if self.aws_mode is not None and auth != AWS:
            raise FleetError(f"--aws-authentication-mode is for --auth {AWS}, and --auth is {auth}")

    def _check_hub_cluster(self, auth: str, persistence: str) -> None:
        if self.hub_cluster is None:
            return
        if persistence == SQL:
            raise FleetError(NO_HUB_CLUSTER)
        if auth == AWS:
            raise FleetError(f"--hub-cluster: a hub of a fleet that registers by {AWS} cannot be a cluster of its own here")

    def _check_address(self, auth: str, persistence: str) -> None:
        flag = "--host" if self.host is not None else "--advertise" if self.advertise is not None else ""
        if flag and (persistence == SQL or auth == AWS):
            kind = f"is kept in a database (--persistence {SQL})" if persistence == SQL else f"registers clusters by {AWS}"
            raise FleetError(f"{flag}: a local hub that {kind} is reached from this machine alone")
        if self.host is not None:
            _check_host(self.host)

    def _first(self) -> Fleet:
        auth, persistence = self.auth or DEFAULT, self.persistence or KUBE
        host = self.host or LOOPBACK
        port = _new_port(self.port, host)
        grpc_port, clusters_port, aws_port = _any_ports(3)
        return Fleet(
            port=port,
            host=host,
            advertise=advertised(host, self.advertise or ""),
            auth=auth,
            grpc_port=grpc_port if auth == GRPC else 0,
            aws_port=aws_port if auth == AWS else 0,
            aws_mode=(self.aws_mode or AWS_MODES[0]) if auth == AWS else "",
            persistence=persistence,
            database=self.database or "",
            clusters_port=clusters_port if persistence == SQL else 0,
            gateway=persistence == KUBE and self.gateway is not False,
            ephemeral=self.ephemeral,
            simulate_images=bool(self.simulate_images),
        )

    def _agree(self, path: Path, known: Fleet) -> None:
        """Raises FleetError where something else is asked for than the fleet is."""
        otherwise = "leave the option out, or choose another --data-dir"
        if self.ephemeral:
            raise FleetError(f"the fleet in {path} keeps its state: choose another --data-dir for an ephemeral one")
        if self.auth not in (None, known.auth):
            raise FleetError(f"--auth {self.auth}: clusters of the fleet in {path} register by {known.auth}; {otherwise}")
        if self.aws_mode not in (None, known.aws_mode):
            where = f"that of the fleet in {path} is {known.aws_mode or 'none, for it is not on AWS'}"
            raise FleetError(f"--aws-authentication-mode {self.aws_mode}: {where}; {otherwise}")
        if self.persistence not in (None, known.persistence):
            where = f"the hub of the fleet in {path} is on {known.persistence}"
            raise FleetError(f"--persistence {self.persistence}: {where}; {otherwise}")
        if self.gateway and known.persistence == SQL:
            raise FleetError(NO_GATEWAY)
        self._check_hub_cluster(known.auth, known.persistence)
        self._check_address(known.auth, known.persistence)
        if self.hub_cluster is not None and known.hub_cluster not in ("", self.hub_cluster):
            raise FleetError(
                f"--hub-cluster {self.hub_cluster}: the fleet in {path} has {known.hub_cluster} for its hub; {otherwise}"
            )
        if self.hub_cluster is not None and self.hub_cluster in known.members:
            raise FleetError(f"--hub-cluster {self.hub_cluster}: the fleet in {path} has another cluster of this name; {otherwise}")
        if self.gateway is False and known.gateway:
            raise FleetError(f"--no-gateway: the fleet in {path} has one, and its clusters let it in; {otherwise}")
        if self.database is not None and known.persistence != SQL:
            raise FleetError(f"--database is for --persistence {SQL}, and the hub of the fleet in {path} is on {known.persistence}")
        if self.database not in (None, known.database):
            # Either may have a password in it.
            raise FleetError(f"--database: the hub of the fleet in {path} is in another one; {otherwise}")

    def arguments(self) -> list[str]:
        """As the command line has them, but for the database, which others may not read there."""
        given = {"--clusters": self.clusters, "--port": self.port, "--auth": self.auth, "--persistence": self.persistence}
        given |= {"--aws-authentication-mode": self.aws_mode, "--hub-cluster": self.hub_cluster}
        given |= {"--host": self.host, "--advertise": self.advertise}
        words = [word for flag, value in given.items() if value is not None for word in (flag, str(value))]
        words += [] if self.gateway is None else ["--gateway" if self.gateway else "--no-gateway"]
        words += [] if self.simulate_images is None else [self._simulation()]
        return [*words, "--ephemeral"] if self.ephemeral else words

    def _simulation(self) -> str:
        return "--simulate-images" if self.simulate_images else "--no-simulate-images"

    def environ(self) -> dict[str, str]:
        """With what the arguments leave out."""
        own = {name: value for name, value in os.environ.items() if name != DATABASE_VARIABLE}
        return own if self.database is None else {**own, DATABASE_VARIABLE: self.database}

    def _switched(self, fleet: Fleet) -> Fleet:
        if self.simulate_images is not None:
            fleet = fleet.with_simulation(self.simulate_images)
        return fleet.with_gateway() if self.gateway else fleet

    def grown(self, fleet: Fleet) -> Fleet:
        """With as many clusters as are asked for, if there are fewer; further ones stay."""
        return self._grown(fleet, self.clusters or 0)

    def _grown(self, fleet: Fleet, clusters: int) -> Fleet:
        free = (name for name in (f"cluster{number}" for number in count(1)) if not fleet.has(name))
        for name in list(islice(free, max(0, clusters - len(fleet.staying)))):
            fleet = fleet.with_cluster(name)
        return fleet if self.hub_cluster is None else fleet.with_hub_cluster(self.hub_cluster)


def discard(directory: FleetDirectory) -> None:
    """All that an ephemeral fleet has left."""
    _empty(directory)
    shutil.rmtree(directory.path, ignore_errors=True)


def _empty(directory: FleetDirectory) -> None:
    """All but the lock, by which others see that somebody is at it."""
    for entry in directory.path.iterdir():
        if entry != directory.lock:
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()


def advertised(host: str, wanted: str) -> str:
    """What to tell of a server that listens on `host`; empty where that is it. Raises FleetError."""
    if wanted or not ipaddress.ip_address(host).is_unspecified:
        return "" if wanted == host else wanted
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            # Sends nothing: it only asks which of this machine's addresses others would see. These are for documentation.
            probe.connect(("2001:db8::1" if ":" in host else "192.0.2.1", 9))
            return str(probe.getsockname()[0])
        except OSError:
            raise FleetError(f"--host {host}: say with --advertise under which address others reach this machine") from None


def _check_host(host: str) -> None:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        raise FleetError(f"--host {host}: give an IP address of this machine; a name can be told with --advertise") from None


def _new_port(wanted: int | None, host: str) -> int:
    if wanted:
        if not _is_free(wanted, host):
            raise FleetError(f"port {wanted} is taken by another program: choose another --port, or 0 for any free one")
        return wanted
    if wanted is None and _is_free(USUAL_PORT, host):
        return USUAL_PORT
    return _any_port()


def _any_port() -> int:
    return _any_ports(1)[0]


def _any_ports(count: int) -> list[int]:
    """Different ones that are free."""
    with contextlib.ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind((LOOPBACK, 0))
        return [int(probe.getsockname()[1]) for probe in probes]


def _is_free(port: int, host: str) -> bool:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return False
            raise FleetError(f"{host}, port {port}: {explain_listen_error(error)}") from None
    return True


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
    """Shows a fleet's status as it changes: what is done as lines, what is waited for as progress, and once what to try."""

    def __init__(self, directory: FleetDirectory, *, foreground: bool = True) -> None:
        self._directory = directory
        self._foreground = foreground
        self._progress = ConsoleProgress()
        self._seen: dict[str, str] = {}
        self._told = False

    def show(self, status: FleetStatus) -> None:
        for name, one in status.members.items():
            if one.state == "Available" and self._seen.get(name) != "Available":
                self._progress.info(f"{name} is {'ready' if name == HUB else 'available'}")
        for name in self._seen.keys() - status.members.keys():
            self._progress.info(f"{name} is gone")
        self._seen = {name: one.state for name, one in status.members.items()}
        if status.problems:
            self._progress.waiting("the fleet", listed(status.problems))
        elif not self._told:
            self._told = True
            self._progress.done()
            echo(what_to_try(self._directory, status, foreground=self._foreground))

    def stopped(self, fleet: Fleet) -> None:
        self._progress.done()
        kept = "" if fleet.ephemeral else f"; its state is kept in {self._directory.path}: muster up goes on from there"
        echo(f"the fleet has stopped{kept}")


def listed(problems: Mapping[str, str]) -> str:
    return "; ".join(f"{name}: {reason}" for name, reason in problems.items())


def extend(wish: Wish, directory: FleetDirectory, pid: int, timeout: float) -> list[str]:
    """Give a fleet that runs the clusters it lacks, and wait until all are available. Returns what is to be said of it."""
    from muster.cli.fleet.follow import follow

    before = directory.existing()
    wish.check_running(before, directory.path)
    after = directory.edit(wish.grown)
    wanted = {record.name for record in after.clusters}

    def why(found: FleetStatus) -> str:
        missing = dict.fromkeys(wanted - found.clusters.keys(), "the fleet has not looked at it yet")
        return listed({name: reason for name, reason in (found.problems | missing).items() if name in wanted or name == HUB})

    follow(directory, pid, "the fleet", timeout, why)
    added = [record.name for record in after.clusters if not before.has(record.name)]
    notes = [f"{name} is available" for name in added] or ["the fleet runs already"]
    if wish.clusters is not None and len(after.staying) > wish.clusters:
        notes.append(
            f"it has {len(after.staying)} managed clusters, --clusters asks for {wish.clusters}, and none is removed unasked: "
            f"muster cluster remove {after.staying[-1]}"
        )
    return notes


def start_detached(wish: Wish, *, data_dir: str, timeout: float, verbose: bool, last_words_to: int | None) -> None:
    """In a process of its own; returns when all clusters are available, and fails with the reason when they are not in time."""
    directory = FleetDirectory(Path(data_dir))
    # What is told to the process by its environment is not told by whom it was asked for.
    wish.check(directory)
    reading, writing = os.pipe()
    command = [sys.executable, "-m", "muster.cli.muster", "up", "--data-dir", data_dir]
    command += ["--last-words-to", str(writing), "--timeout", str(timeout)]
    command += [*wish.arguments(), *(["--verbose"] if verbose else [])]
    command += ["--log-format", logs.current_format()]
    child = subprocess.Popen(
        command,
        env=wish.environ(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=[writing],
        start_new_session=True,
    )
    os.close(writing)
    watch = _Watch(directory, child, reading)
    try:
        watch.until_available(timeout)
    except KeyboardInterrupt:
        echo("stopping the fleet", err=True)
        child.terminate()
        child.wait()
        if wish.ephemeral:
            raise Interrupted("the fleet has stopped, and nothing is left of it") from None
        raise Interrupted(f"the fleet has stopped; its state is kept in {data_dir}: muster up goes on from there") from None


class _Watch:
    """Over a fleet that is starting in the background."""

    def __init__(self, directory: FleetDirectory, child: subprocess.Popen[bytes], pipe: int) -> None:
        self._directory = directory
        self._child = child
        self._pipe = pipe

    def until_available(self, seconds: float) -> None:
        """Raises FleetError when the process ends, or the time does."""
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
                raise FleetError(_late(seconds, status))

    def _listen(self) -> str | None:
        """For a moment: None while the process lives, at its end why it ended, if it said so."""
        ready, _, _ = select.select([self._pipe], [], [], _LOOK_EVERY)
        return os.read(self._pipe, 65536).decode(errors="replace") if ready else None


def _late(seconds: float, status: FleetStatus | None) -> str:
    problems = status.problems if status is not None else {"fleet": "it has not started"}
    return f"not everything is available after {seconds:g} s: {listed(problems)}. It goes on: see muster status and muster logs"


def what_to_try(directory: FleetDirectory, status: FleetStatus, *, foreground: bool) -> str:
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
        *(_gateway_to_try(first) if first != HUB and directory.existing().gateway else ()),
        f"  muster status{suffix}",
        f"  muster cluster add cluster{len(directory.existing().members) + 1}{suffix}",
        *(_aws_to_try(directory, status.aws) if status.aws else ()),
        "",
        f"Stop with {'Ctrl-C or ' if foreground else ''}muster down{suffix}; muster up{suffix} goes on from there.",
    ]
    return "\n".join(lines)


def _gateway_to_try(cluster: str) -> list[str]:
    """How a cluster is reached with the hub's credentials alone."""
    file = f"{cluster}.kubeconfig"
    return [f"  clusteradm gateway kubeconfig {cluster} > {file} && kubectl --kubeconfig {file} get namespaces"]


def _aws_to_try(directory: FleetDirectory, url: str) -> list[str]:
    """How AWS' own program and library are led to the local AWS, and our own; AWS itself is asked by none of them then."""
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
