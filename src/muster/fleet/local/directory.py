"""A fleet's directory: what the fleet should be, who runs it, and the rules that keep two people's hands out of it at once.

`fleet.json` is the fleet as its owner wants it; it is replaced in one step and only under `edit.lock`. `lock` is held, with the
process id in it, by the process that runs the fleet: whoever can take it knows that nobody does, and whoever cannot may trust the
id. A directory with other things in it and no `fleet.json` is somebody else's: nothing is written there, nothing removed.
"""

from __future__ import annotations

import fcntl
import ipaddress
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from muster.machinery.privatefiles import (
    TEMPORARY,
    UnsafePath,
    check_private_directory,
    make_private_directory,
    open_private,
    replace_private,
)
from muster.registration.drivers.flags import DEFAULT
from muster.transport.persistence import KUBE

FORMAT: Final = 1
HUB: Final = "hub"
LOOPBACK: Final = "127.0.0.1"
GLANCE: Final = 0.4
"""Seconds after which a lock that is held is not only being looked at."""


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class FleetError(Exception):
    """The message says what is wrong and what to do."""


class ForeignDirectory(FleetError):
    def __init__(self, path: Path, problem: str = "is not empty and no fleet's") -> None:
        super().__init__(f"{path} {problem}: choose another --data-dir")
        self.path = path


class UnsafeFleet(FleetError):
    """Somebody else may have made it what it is: its lock, kubeconfig and database are not to be trusted."""

    def __init__(self, error: UnsafePath) -> None:
        super().__init__(f"--data-dir: {error.filename}: {error.strerror}")


class UnreadableFleet(FleetError):
    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"{path}: {problem}")
        self.path = path


class NoFleet(FleetError):
    def __init__(self, path: Path) -> None:
        super().__init__(f"there is no fleet in {path}: start one with muster up, or choose another --data-dir")
        self.path = path


class AlreadyRunning(FleetError):
    def __init__(self, path: Path, pid: int) -> None:
        super().__init__(f"the fleet in {path} is running already (process {pid}): see muster status, or end it with muster down")
        self.pid = pid


class ClusterRecord(msgspec.Struct, frozen=True):
    name: str
    leaving: bool = False
    installed: str = ""
    """The version of Muster with which it has joined."""
    is_hub: bool = False
    """The hub as a cluster of its own: it has no control plane beside the hub's, and stays when it leaves."""


class Fleet(msgspec.Struct, frozen=True, kw_only=True):
    version: int = FORMAT
    port: int
    """Agents remember where their hub is, so a fleet stays on its port until somebody moves it."""
    host: str = LOOPBACK
    """Address to listen on."""
    advertise: str = ""
    """What clients and agents are told to connect to, where it is not `host`."""
    auth: str = DEFAULT
    grpc_port: int = 0
    """Where agents reach the hub's gRPC server, in a fleet that registers by it."""
    aws_port: int = 0
    """Of the local AWS, in a fleet that registers by its identities."""
    aws_mode: str = ""
    """Its hub's authentication mode, as EKS calls it."""
    persistence: str = KUBE
    """Where the hub keeps its objects: in its cluster, or in a database."""
    database: str = ""
    """With whatever it takes to get in; empty: one in this directory."""
    clusters_port: int = 0
    """Of the managed clusters' API server, where the hub has one of its own."""
    gateway: bool = False
    """Whether the hub has a gateway, and every cluster lets it in; fleets of before there was one have none."""
    ephemeral: bool = False
    restored: bool = False
    """Has not run yet since it was restored: the fleet it is a copy of may run on this machine, with its pods' addresses."""
    simulate_images: bool = False
    """Whether pods of images that are not Muster's count as running."""
    installed: str = ""
    """The version of Muster with which the hub was initialized."""
    clusters: tuple[ClusterRecord, ...] = ()

    @property
    def address(self) -> str:
        return self.advertise or self.host

    @property
    def is_local(self) -> bool:
        """Whether the address means this machine on this machine alone."""
        return is_loopback(self.address)

    def moved(self, port: int, host: str, advertise: str) -> Fleet:
        """What knows where the hub is was installed for its old place, and is installed anew."""
        if (port, host, advertise) == (self.port, self.host, self.advertise):
            return self
        clusters = tuple(msgspec.structs.replace(record, installed="") for record in self.clusters)
        return msgspec.structs.replace(self, port=port, host=host, advertise=advertise, installed="", clusters=clusters)

    def with_gateway(self) -> Fleet:
        """What was installed without one is installed anew."""
        if self.gateway:
            return self
        clusters = tuple(msgspec.structs.replace(record, installed="") for record in self.clusters)
        return msgspec.structs.replace(self, gateway=True, installed="", clusters=clusters)

    def with_simulation(self, simulate: bool) -> Fleet:
        return msgspec.structs.replace(self, simulate_images=simulate)

    @property
    def hub_cluster(self) -> str:
        """What the hub is called as a cluster of its own; empty where it is none."""
        return next((record.name for record in self.clusters if record.is_hub), "")

    @property
    def members(self) -> tuple[str, ...]:
        """Clusters with a control plane of their own."""
        return tuple(record.name for record in self.clusters if not record.is_hub)

    @property
    def staying(self) -> tuple[str, ...]:
        """Members that are not being removed."""
        return tuple(record.name for record in self.clusters if not record.is_hub and not record.leaving)

    def with_hub_cluster(self, name: str) -> Fleet:
        record = ClusterRecord(name, is_hub=True)
        return self if self.has(name) else msgspec.structs.replace(self, clusters=(*self.clusters, record))

    def has(self, name: str) -> bool:
        return any(record.name == name for record in self.clusters)

    def version_of(self, name: str) -> str:
        return next((record.installed for record in self.clusters if record.name == name), "")

    def with_cluster(self, name: str) -> Fleet:
        return self if self.has(name) else msgspec.structs.replace(self, clusters=(*self.clusters, ClusterRecord(name)))

    def without_cluster(self, name: str) -> Fleet:
        return msgspec.structs.replace(self, clusters=tuple(record for record in self.clusters if record.name != name))

    def leaving(self, name: str) -> Fleet:
        return self._with(name, leaving=True)

    def joined(self, name: str, version: str) -> Fleet:
        return self._with(name, installed=version)

    def _with(self, name: str, **fields: object) -> Fleet:
        changed = (msgspec.structs.replace(cluster, **fields) if cluster.name == name else cluster for cluster in self.clusters)
        return msgspec.structs.replace(self, clusters=tuple(changed))


class _Version(msgspec.Struct):
    version: int


class FleetDirectory:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.record = path / "fleet.json"
        self.lock = path / "lock"
        self.kubeconfig = path / "kubeconfig"
        self.status = path / "status.json"
        self.log = path / "fleet.log"
        self.nodes = path / "nodes"
        self.aws = path / "aws"
        self.hub = path / "hub"
        self._edit_lock = path / "edit.lock"

    def database(self, fleet: Fleet) -> str:
        """Where the hub of a fleet of persistence `sql` is."""
        return fleet.database or f"sqlite:///{self.hub.absolute() / 'hub.db'}"

    def read(self) -> Fleet | None:
        """The fleet, or None where one can be made. Raises ForeignDirectory and UnreadableFleet."""
        try:
            check_private_directory(self.path)
        except FileNotFoundError:
            return None
        except NotADirectoryError:
            raise ForeignDirectory(self.path, "is, or is below, a file where a directory is needed") from None
        except UnsafePath as error:
            raise UnsafeFleet(error) from None
        try:
            content = self.record.read_bytes()
        except FileNotFoundError:
            self._require_unused()
            return None
        try:
            version = msgspec.json.decode(content, type=_Version).version
            if version != FORMAT:
                raise UnreadableFleet(self.record, f"written in format {version}, and this muster knows {FORMAT} only")
            return msgspec.json.decode(content, type=Fleet)
        except (msgspec.DecodeError, msgspec.ValidationError) as error:
            raise UnreadableFleet(self.record, f"damaged ({error}): mend it, or remove the directory") from None

    def existing(self) -> Fleet:
        """Raises NoFleet where there is none."""
        try:
            fleet = self.read()
        except ForeignDirectory:
            fleet = None
        if fleet is None:
            raise NoFleet(self.path)
        return fleet

    def _require_unused(self) -> None:
        # What an `up` leaves that ended before it had written down what it wanted.
        beginnings = {self.lock.name, self._edit_lock.name, "fleet.tmp"}  # the last one is older versions'
        half_written = TEMPORARY.format(self.record.name)
        if any(entry.name not in beginnings and not entry.name.startswith(half_written) for entry in self.path.iterdir()):
            raise ForeignDirectory(self.path)

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """Inside, this process runs the fleet. Raises AlreadyRunning, and what `read` raises."""
        self.read()
        try:
            make_private_directory(self.path)
            descriptor = open_private(self.lock, os.O_RDWR | os.O_CREAT)
        except UnsafePath as error:
            raise UnsafeFleet(error) from None
        try:
            self._lock(descriptor)
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, str(os.getpid()).encode(), 0)
            yield
        finally:
            os.close(descriptor)

    def _lock(self, descriptor: int) -> None:
        deadline = time.monotonic() + GLANCE
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                # Or somebody only looks whether it is held, which takes no time.
                if time.monotonic() > deadline:
                    raise AlreadyRunning(self.path, _pid(descriptor)) from None
            time.sleep(GLANCE / 20)

    def holder(self) -> int | None:
        """The process that runs the fleet; None if there is none. Raises FleetError when it cannot be known for sure."""
        deadline = time.monotonic() + GLANCE
        while True:
            try:
                descriptor = open_private(self.lock, os.O_RDWR)
            except (FileNotFoundError, NotADirectoryError):
                return None
            except UnsafePath as error:
                raise UnsafeFleet(error) from None
            try:
                fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
                return None
            except BlockingIOError:
                pid = _pid(descriptor)
            finally:
                os.close(descriptor)
            if self._is_open_in(pid):
                return pid
            # A process that has just begun has not written its id yet; what is there may be that of one long gone.
            if time.monotonic() > deadline:
                raise FleetError(f"the fleet in {self.path} is running, but as another user: ask the one who started it")
            time.sleep(GLANCE / 20)

    def _is_open_in(self, pid: int) -> bool:
        """Whether the process has the lock's file open; where the system does not tell, its word must do."""
        if not Path("/proc/self/fd").exists():
            return pid > 0
        lock = str(self.lock.resolve())
        try:
            return pid > 0 and any(_target(entry) == lock for entry in Path(f"/proc/{pid}/fd").iterdir())
        except OSError:
            return False

    def edit(self, change: Callable[[Fleet], Fleet], first: Fleet | None = None) -> Fleet:
        """Change what the fleet should be; changes come one after the other, and each is whole on disk before the next.

        Where there is no fleet yet, `first` becomes it; without that NoFleet is raised.
        """
        if first is None:
            self.existing()
        descriptor = open_private(self._edit_lock, os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            before = self.read()
            if before is None and first is None:
                raise NoFleet(self.path)
            after = change(before) if before is not None else first
            assert after is not None, "one of them is there"
            if after != before:
                self._write(after)
            return after
        finally:
            os.close(descriptor)

    def _write(self, fleet: Fleet) -> None:
        replace_private(self.record, msgspec.json.format(msgspec.json.encode(fleet)) + b"\n", durable=True)

    def clear(self) -> None:
        """Take a directory away that no fleet was made in yet. Raises ForeignDirectory where there are other things in it."""
        with self.claimed():
            self._require_unused()
            shutil.rmtree(self.path.resolve())

    def remove(self) -> None:
        """Take the directory away with everything in it. Raises NoFleet, and AlreadyRunning."""
        self.existing()
        with self.claimed():
            shutil.rmtree(self.path.resolve())
        if self.path.is_symlink():
            self.path.unlink()


def _pid(descriptor: int) -> int:
    """0 where none is written."""
    content = os.pread(descriptor, 32, 0)
    return int(content) if content.isdigit() else 0


def _target(link: Path) -> str:
    try:
        return os.readlink(link)
    except OSError:
        return ""
