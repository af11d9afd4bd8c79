"""A fleet's directory: its desired state, its process, and the locks that prevent concurrent changes.

`fleet.json` is the desired state of the fleet; it is replaced atomically and only under `edit.lock`. `lock` is held, with the
process id in it, by the process that runs the fleet: whoever gets the lock knows that the fleet is stopped, otherwise the id is
valid. A directory with other files and without `fleet.json` is not a fleet's: nothing is written there, nothing removed.
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
"""Seconds after which a held lock is more than another process' short check of it."""


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class FleetError(Exception):
    """The message has the problem and the remedy."""


class ForeignDirectory(FleetError):
    def __init__(self, path: Path, problem: str = "is not empty and no fleet's") -> None:
        super().__init__(f"{path} {problem}: choose another --data-dir")
        self.path = path


class UnsafeFleet(FleetError):
    """Other users may have written to it: its lock, kubeconfig and database cannot be trusted."""

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
    """The hub as a managed cluster of itself: it has no control plane beside the hub's, and stays when it leaves."""


class Fleet(msgspec.Struct, frozen=True, kw_only=True):
    version: int = FORMAT
    port: int
    """Agents remember the hub's address, so the port stays until it is changed explicitly."""
    host: str = LOOPBACK
    """The listen address."""
    advertise: str = ""
    """The address for clients and agents, if it differs from `host`."""
    auth: str = DEFAULT
    grpc_port: int = 0
    """The port of the hub's gRPC server for agents, in a fleet that registers over gRPC."""
    aws_port: int = 0
    """The port of the local AWS, in a fleet that registers with AWS identities."""
    aws_mode: str = ""
    """The authentication mode of its hub's EKS cluster."""
    persistence: str = KUBE
    """Where the hub stores its objects: in its cluster, or in a database."""
    database: str = ""
    """The URL of the database, with credentials; empty: a file in this directory."""
    clusters_port: int = 0
    """The port of the managed clusters' API server, if the hub has one of its own."""
    gateway: bool = False
    """Whether the hub has a gateway, which is enabled on every cluster; fleets of earlier versions have none."""
    ephemeral: bool = False
    restored: bool = False
    """Not started yet since it was restored: the original fleet may run on this machine, with the same pod addresses."""
    simulate_images: bool = False
    """Whether pods with other images than Muster's are simulated as running."""
    installed: str = ""
    """The version of Muster with which the hub was initialized."""
    clusters: tuple[ClusterRecord, ...] = ()

    @property
    def address(self) -> str:
        return self.advertise or self.host

    @property
    def is_local(self) -> bool:
        """Whether the address is reachable from this machine only."""
        return is_loopback(self.address)

    def moved(self, port: int, host: str, advertise: str) -> Fleet:
        """The fleet with another address; all components that have the hub's address are installed again."""
        if (port, host, advertise) == (self.port, self.host, self.advertise):
            return self
        clusters = tuple(msgspec.structs.replace(record, installed="") for record in self.clusters)
        return msgspec.structs.replace(self, port=port, host=host, advertise=advertise, installed="", clusters=clusters)

    def with_gateway(self) -> Fleet:
        """The fleet with a gateway; components that were installed without one are installed again."""
        if self.gateway:
            return self
        clusters = tuple(msgspec.structs.replace(record, installed="") for record in self.clusters)
        return msgspec.structs.replace(self, gateway=True, installed="", clusters=clusters)

    def with_simulation(self, simulate: bool) -> Fleet:
        return msgspec.structs.replace(self, simulate_images=simulate)

    @property
    def hub_cluster(self) -> str:
        """The hub's name as a managed cluster of itself; empty if it is none."""
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
        """The database of a hub with persistence `sql`."""
        return fleet.database or f"sqlite:///{self.hub.absolute() / 'hub.db'}"

    def read(self) -> Fleet | None:
        """The fleet, or None if one can be created. Raises ForeignDirectory and UnreadableFleet."""
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
        """Raises NoFleet if there is none."""
        try:
            fleet = self.read()
        except ForeignDirectory:
            fleet = None
        if fleet is None:
            raise NoFleet(self.path)
        return fleet

    def _require_unused(self) -> None:
        # Left by an `up` that ended before it had written its configuration.
        beginnings = {self.lock.name, self._edit_lock.name, "fleet.tmp"}  # the last one is older versions'
        half_written = TEMPORARY.format(self.record.name)
        if any(entry.name not in beginnings and not entry.name.startswith(half_written) for entry in self.path.iterdir()):
            raise ForeignDirectory(self.path)

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """Within the context this process runs the fleet. Raises AlreadyRunning, and what `read` raises."""
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
                # Or another process only checks whether it is held, which takes no time.
                if time.monotonic() > deadline:
                    raise AlreadyRunning(self.path, _pid(descriptor)) from None
            time.sleep(GLANCE / 20)

    def holder(self) -> int | None:
        """The process that runs the fleet; None if there is none. Raises FleetError if that is uncertain."""
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
            # A process that has just started has not written its id yet; the content may be an old id.
            if time.monotonic() > deadline:
                raise FleetError(f"the fleet in {self.path} is running, but as another user: ask the one who started it")
            time.sleep(GLANCE / 20)

    def _is_open_in(self, pid: int) -> bool:
        """Whether the process has the lock's file open; true where the system cannot tell."""
        if not Path("/proc/self/fd").exists():
            return pid > 0
        lock = str(self.lock.resolve())
        try:
            return pid > 0 and any(_target(entry) == lock for entry in Path(f"/proc/{pid}/fd").iterdir())
        except OSError:
            return False

    def edit(self, change: Callable[[Fleet], Fleet], first: Fleet | None = None) -> Fleet:
        """Change the desired state; changes are serialized, and each is on disk before the next.

        If there is no fleet yet, `first` becomes it; without that NoFleet is raised.
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
        """Remove a directory in which no fleet was created yet. Raises ForeignDirectory if it has other files."""
        with self.claimed():
            self._require_unused()
            shutil.rmtree(self.path.resolve())

    def remove(self) -> None:
        """Remove the directory with all its content. Raises NoFleet and AlreadyRunning."""
        self.existing()
        with self.claimed():
            shutil.rmtree(self.path.resolve())
        if self.path.is_symlink():
            self.path.unlink()


def _pid(descriptor: int) -> int:
    """0 if none is written."""
    content = os.pread(descriptor, 32, 0)
    return int(content) if content.isdigit() else 0


def _target(link: Path) -> str:
    try:
        return os.readlink(link)
    except OSError:
        return ""
