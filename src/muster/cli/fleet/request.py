"""The fleet that `muster up` is asked for: its options, their conflicts with an existing fleet, and the record in the fleet's
directory.

`FleetRequest` has the options of the command line. It is checked before anything starts, and recorded when the fleet starts.
"""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import os
import shutil
import socket
from dataclasses import dataclass, field, replace
from itertools import count, islice
from pathlib import Path

from muster.cli.fleet.commands import AWS_MODES
from muster.cli.grpc_persistence import DATABASE_VARIABLE
from muster.fleet.local.directory import LOOPBACK, Fleet, FleetDirectory, FleetError
from muster.machinery.oserrors import explain_listen_error
from muster.registration.drivers.flags import AWS, DEFAULT, GRPC
from muster.transport.persistence import KUBE, SQL

DEFAULT_PORT = 6443
CLUSTERS = 2
NO_HUB_CLUSTER = f"--hub-cluster: a hub that is kept in a database (--persistence {SQL}) is no cluster: nothing can run there"
NO_GATEWAY = f"--gateway: a hub that is kept in a database (--persistence {SQL}) has none: no API server can lead to it there"


@dataclass(frozen=True)
class FleetRequest:
    """The options of the command line; None if an option was not given."""

    clusters: int | None
    auth: str | None
    aws_mode: str | None
    """The authentication mode of the hub, as EKS names it."""
    persistence: str | None
    database: str | None = field(repr=False)
    ephemeral: bool
    port: int | None
    gateway: bool | None = None
    host: str | None = None
    """Address to listen on."""
    advertise: str | None = None
    """Address for kubeconfigs and agents."""
    simulate_images: bool | None = None
    hub_cluster: str | None = None
    """Name of the hub as a managed cluster of its own."""

    def record(self, directory: FleetDirectory) -> Fleet:
        """Write the requested fleet into its record; existing values are kept. Raises FleetError for conflicts with them."""
        known = self.check(directory)
        if known is None:
            if directory.record.exists():
                # of an ephemeral fleet, whose process has ended
                _remove_content(directory)
            first = self._with_clusters(self._new_fleet(), CLUSTERS if self.clusters is None else self.clusters)
            return directory.edit(lambda fleet: fleet, first)
        location = self._location(known)
        if self.port == 0 and not _is_free(location[0], location[1]):
            location = (_free_port(), *location[1:])
        if location[0] != known.port and not _is_free(location[0], location[1]):
            raise FleetError(f"port {location[0]} is taken by another program: choose another --port, or 0 for any free one")
        ports = (known.port if location[0] == known.port else 0, known.grpc_port, known.clusters_port, known.aws_port)
        taken = next((port for port in ports if port and not _is_free(port, location[1])), None)
        if taken is not None:
            move = ", move the fleet with --port 0" if taken == known.port else ""
            raise FleetError(
                f"port {taken}, where this fleet is at home, is taken by another program: end that{move}, "
                f"or begin anew (muster down --purge --data-dir {directory.path})"
            )
        return directory.edit(lambda fleet: self.with_clusters(self._with_switches(fleet.moved(*location))))

    def moved(self, known: Fleet, path: Path) -> Fleet:
        """A stopped fleet with the requested port and addresses. Raises FleetError."""
        self._check_conflicts(path, known)
        return known.moved(*self._location(known))

    def _location(self, known: Fleet) -> tuple[int, str, str]:
        """(port, address to listen on, advertised address) of the fleet from now on."""
        host = known.host if self.host is None else self.host
        advertise = (
            known.advertise if self.advertise is None and host == known.host else advertised_address(host, self.advertise or "")
        )
        return self.port or known.port, host, advertise

    def check(self, directory: FleetDirectory) -> Fleet | None:
        """The existing fleet; None if a new one is created. Raises FleetError for invalid or conflicting options."""
        known = directory.read()
        if known is None or known.ephemeral:
            self._check_options()
            return None
        self._check_conflicts(directory.path, known)
        return known

    def check_running(self, known: Fleet, path: Path) -> None:
        """Raises FleetError for options that a running fleet does not support, or only after a restart."""
        replace(self, ephemeral=False)._check_conflicts(path, known)
        if self.ephemeral and not known.ephemeral:
            raise FleetError(f"--ephemeral: the fleet in {path} runs and keeps its state: choose another --data-dir")
        if self.port not in (None, 0, known.port) or self._location(known)[1:] != (known.host, known.advertise):
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
        """Check the options of a new fleet."""
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

    def _new_fleet(self) -> Fleet:
        auth, persistence = self.auth or DEFAULT, self.persistence or KUBE
        host = self.host or LOOPBACK
        port = _choose_port(self.port, host)
        grpc_port, clusters_port, aws_port = _free_ports(3)
        return Fleet(
            port=port,
            host=host,
            advertise=advertised_address(host, self.advertise or ""),
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

    def _check_conflicts(self, path: Path, known: Fleet) -> None:
        """Raises FleetError for options that conflict with the existing fleet."""
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
            # not shown: each may contain a password
            raise FleetError(f"--database: the hub of the fleet in {path} is in another one; {otherwise}")

    def arguments(self) -> list[str]:
        """The options as command line arguments, without the database, which may contain a password."""
        given = {"--clusters": self.clusters, "--port": self.port, "--auth": self.auth, "--persistence": self.persistence}
        given |= {"--aws-authentication-mode": self.aws_mode, "--hub-cluster": self.hub_cluster}
        given |= {"--host": self.host, "--advertise": self.advertise}
        arguments = [argument for flag, value in given.items() if value is not None for argument in (flag, str(value))]
        arguments += [] if self.gateway is None else ["--gateway" if self.gateway else "--no-gateway"]
        arguments += [] if self.simulate_images is None else [self._simulation()]
        return [*arguments, "--ephemeral"] if self.ephemeral else arguments

    def _simulation(self) -> str:
        return "--simulate-images" if self.simulate_images else "--no-simulate-images"

    def environ(self) -> dict[str, str]:
        """The environment for these arguments, with the database."""
        own = {name: value for name, value in os.environ.items() if name != DATABASE_VARIABLE}
        return own if self.database is None else {**own, DATABASE_VARIABLE: self.database}

    def _with_switches(self, fleet: Fleet) -> Fleet:
        if self.simulate_images is not None:
            fleet = fleet.with_simulation(self.simulate_images)
        return fleet.with_gateway() if self.gateway else fleet

    def with_clusters(self, fleet: Fleet) -> Fleet:
        """Add clusters until there are as many as requested; existing ones are kept."""
        return self._with_clusters(fleet, self.clusters or 0)

    def _with_clusters(self, fleet: Fleet, clusters: int) -> Fleet:
        free = (name for name in (f"cluster{number}" for number in count(1)) if not fleet.has(name))
        for name in list(islice(free, max(0, clusters - len(fleet.staying)))):
            fleet = fleet.with_cluster(name)
        return fleet if self.hub_cluster is None else fleet.with_hub_cluster(self.hub_cluster)


def discard_fleet(directory: FleetDirectory) -> None:
    """Delete everything that an ephemeral fleet has left."""
    _remove_content(directory)
    shutil.rmtree(directory.path, ignore_errors=True)


def _remove_content(directory: FleetDirectory) -> None:
    """Delete everything but the lock, which shows other processes that the directory is in use."""
    for entry in directory.path.iterdir():
        if entry != directory.lock:
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()


def advertised_address(host: str, wanted: str) -> str:
    """The advertised address of a server that listens on `host`; empty if it is the same. Raises FleetError."""
    if wanted or not ipaddress.ip_address(host).is_unspecified:
        return "" if wanted == host else wanted
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            # Sends nothing, but determines the source address for this destination, which is one for documentation.
            probe.connect(("2001:db8::1" if ":" in host else "192.0.2.1", 9))
            return str(probe.getsockname()[0])
        except OSError:
            raise FleetError(f"--host {host}: say with --advertise under which address others reach this machine") from None


def _check_host(host: str) -> None:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        raise FleetError(f"--host {host}: give an IP address of this machine; a name can be told with --advertise") from None


def _choose_port(wanted: int | None, host: str) -> int:
    if wanted:
        if not _is_free(wanted, host):
            raise FleetError(f"port {wanted} is taken by another program: choose another --port, or 0 for any free one")
        return wanted
    if wanted is None and _is_free(DEFAULT_PORT, host):
        return DEFAULT_PORT
    return _free_port()


def _free_port() -> int:
    return _free_ports(1)[0]


def _free_ports(count: int) -> list[int]:
    """Different free ports."""
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
