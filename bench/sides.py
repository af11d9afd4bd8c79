"""The two servers under measurement, set up alike: TLS, token authentication, RBAC, admission, validation, audit.

The load comes from a user without any special group, who may touch ConfigMaps because a ClusterRole is bound to it; the
audit log is on in both (Metadata level), and both write through to disk (etcd with fsync, SQLite with synchronous=FULL).
Memory is that of the API server and its store: kube-apiserver and etcd on one side, the one process on the other (whose
figure includes the controllers; kube-controller-manager's memory is not counted).
"""

from __future__ import annotations

import abc
import compileall
import os
import shutil
import socket
import ssl
import threading
import time
from pathlib import Path

from tests.support import peers
from tests.support.planes import USERS, ControlPlane, EmbeddedPlane, KubeOptions, KubePlane

from bench.loadgen import Target

USER = "alice"
NAMESPACES = ("bench", "bench-list", "bench-many", "bench-watch")
_TICKS = os.sysconf("SC_CLK_TCK")
_RULE = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]}
_ROLE = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "bench"}, "rules": [_RULE]}
_BINDING = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRoleBinding",
    "metadata": {"name": "bench"},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "bench"},
    "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": USER}],
}


class Side(abc.ABC):
    """One server: started, measured and gone."""

    name: str
    plane: ControlPlane

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    @property
    @abc.abstractmethod
    def port(self) -> int: ...

    @property
    @abc.abstractmethod
    def pids(self) -> list[int]: ...

    def start(self) -> float:
        """Start it; seconds until `/readyz` first said yes."""
        began = time.monotonic()
        seen: list[float] = []
        probe = threading.Thread(target=lambda: seen.append(_await_ready(self.port)), daemon=True)
        probe.start()
        self.plane.start()
        probe.join(60)
        return seen[0] - began

    def prepare(self) -> Target:
        """Namespaces, and a user who may only touch ConfigMaps."""
        client = self.plane.client()
        client.post("/apis/rbac.authorization.k8s.io/v1/clusterroles", _ROLE).expect(201)
        client.post("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", _BINDING).expect(201)
        for name in NAMESPACES:
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            client.post("/api/v1/namespaces", body).expect(201)
        client.close()
        target = Target(self.plane.url, self.plane.ca, USERS[USER].token)
        self._await_access()
        return target

    def _await_access(self) -> None:
        """Until the binding counts: the real server learns of it by a watch."""
        client = self.plane.client(USER)
        deadline = time.monotonic() + 10
        while client.get("/api/v1/namespaces/bench/configmaps").status != 200:
            if time.monotonic() > deadline:
                raise RuntimeError(f"{self.name}: the bench user was never let in")
            time.sleep(0.05)
        client.close()

    def memory(self) -> int:
        """Resident bytes."""
        return sum(resident(pid) for pid in self.pids)

    def cpu(self) -> float:
        """CPU seconds used so far."""
        return sum(cpu_seconds(pid) for pid in self.pids)

    def discard(self) -> None:
        self.plane.stop(kill=True)
        shutil.rmtree(self.directory, ignore_errors=True)


class Ours(Side):
    name = "muster"
    root = peers.ROOT

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        directory.mkdir(parents=True)
        # As installed: where Python may not write bytecode, every start would compile the sources anew.
        compileall.compile_dir(self.root / "src" / "muster", quiet=2)
        flags = ("--audit-log", str(directory / "audit.log"))
        self.embedded = EmbeddedPlane(directory, clusters=(), flags=flags, root=self.root)
        self.plane = self.embedded

    @property
    def port(self) -> int:
        return self.embedded.port

    @property
    def pids(self) -> list[int]:
        return [self.embedded.pid]


def earlier(checkout: Path) -> type[Side]:
    """Ours as it is in another checkout, which is set up."""
    return type("Earlier", (Ours,), {"name": "earlier", "root": checkout})


class Theirs(Side):
    name = "kube-apiserver + etcd"

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.kube = KubePlane(directory, KubeOptions(fsync=True, audit_log=True))
        self.plane = self.kube

    @property
    def port(self) -> int:
        return self.kube.port

    @property
    def pids(self) -> list[int]:
        return [self.kube.pids["etcd"], self.kube.pids["kube-apiserver"]]


def resident(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return 0


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _await_ready(port: int, timeout: float = 60) -> float:
    """When `/readyz` answers 200 for the first time; asks without verifying, because the CA may not exist yet."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        try:
            with (
                socket.create_connection(("127.0.0.1", port), timeout=5) as raw,
                context.wrap_socket(raw, server_hostname="localhost") as secure,
            ):
                secure.sendall(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                if secure.recv(32).startswith(b"HTTP/1.1 200"):
                    return time.monotonic()
        except OSError:
            pass
        time.sleep(0.01)
    raise RuntimeError(f"nothing became ready on port {port}")
