"""Control planes for tests: Muster's embedded one and a real etcd + kube-apiserver + kube-controller-manager.

Both look alike to a test: a URL, a CA file, a kubeconfig, an admin token and a few more static users (`USERS`), further
clusters by name, and `restart()` on the same port with the same state. Whatever a test can learn only from one of them
does not belong here. `python -m tests.support.planes kube|embedded` starts one by hand and keeps it up.
"""

import abc
import argparse
import base64
import os
import re
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path

import yaml

from tests.support import kube_flags, peers
from tests.support.client import Client
from tests.support.processes import Server, free_ports, python_path, tail

ADMIN = "admin"


@dataclass(frozen=True)
class User:
    """A static user; its bearer token is made from its name."""

    name: str
    groups: tuple[str, ...] = ()

    @property
    def token(self) -> str:
        return f"{self.name}-static-token"

    def row(self) -> str:
        groups = f',"{",".join(self.groups)}"' if self.groups else ""
        return f"{self.token},{self.name},{self.name}-uid{groups}\n"


USERS: Mapping[str, User] = {
    user.name: user
    for user in (
        User(ADMIN, ("system:masters",)),
        User("alice", ("developers",)),
        User("bob", ("operators",)),
        User("carol", ("developers", "operators")),
        User("mallory"),
        User("plugged", ("open-cluster-management:plugged",)),
    )
}


@dataclass(frozen=True)
class Cluster:
    """One Kubernetes API endpoint, as a client sees it."""

    name: str
    url: str
    ca: Path
    kubeconfig: Path

    def client(self, user: str = ADMIN, *, timeout: float = 30) -> Client:
        """A client of a static user; "" is nobody."""
        return Client(self.url, ca=self.ca, token=USERS[user].token if user else None, timeout=timeout)


class ControlPlane(abc.ABC):
    """A running API server with its default cluster, and more clusters on demand."""

    name: str
    directory: Path
    cluster: Cluster
    logs: list[Path]

    @property
    def url(self) -> str:
        return self.cluster.url

    @property
    def ca(self) -> Path:
        return self.cluster.ca

    @property
    def kubeconfig(self) -> Path:
        return self.cluster.kubeconfig

    @property
    def token(self) -> str:
        return USERS[ADMIN].token

    def client(self, user: str = ADMIN, *, timeout: float = 30) -> Client:
        return self.cluster.client(user, timeout=timeout)

    @abc.abstractmethod
    def start(self) -> None: ...

    @abc.abstractmethod
    def stop(self, *, kill: bool = False) -> None:
        """Ends the processes; state stays, so `start` brings the same cluster back."""

    @abc.abstractmethod
    def extra(self, name: str) -> Cluster:
        """A second cluster that shares nothing with the default one."""

    def restart(self, *, kill: bool = False) -> None:
        self.stop(kill=kill)
        self.start()

    def discard(self) -> None:
        self.stop(kill=True)
        shutil.rmtree(self.directory, ignore_errors=True)

    def log(self, lines: int = 40) -> str:
        return "\n".join(f"--- {path.name}\n{tail(path, lines)}" for path in self.logs)

    def wait_ready(self, server: Server, timeout: float = 60) -> None:
        """Until `/readyz` says so; `kube-root-ca.crt` then shows that the controllers work too."""
        client = Client(self.url, ca=self.ca, token=self.token, timeout=10)

        def answers(path: str) -> bool:
            try:
                return client.get(path).status == 200
            except (OSError, HTTPException):
                client.close()
                return False

        server.wait_until(lambda: answers("/readyz"), timeout)
        server.wait_until(lambda: answers("/api/v1/namespaces/default/configmaps/kube-root-ca.crt"), timeout)
        server.wait_until(lambda: answers("/api/v1/namespaces/default/serviceaccounts/default"), timeout)
        client.close()


def write_kubeconfig(path: Path, url: str, ca: Path, user: Mapping[str, str]) -> None:
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "default", "cluster": {"server": url, "certificate-authority": str(ca)}}],
        "users": [{"name": "admin", "user": dict(user)}],
        "contexts": [{"name": "default", "context": {"cluster": "default", "user": "admin"}}],
        "current-context": "default",
    }
    path.write_text(yaml.safe_dump(document))
    path.chmod(0o600)


def write_contexts(path: Path, clusters: Mapping[str, Cluster], others: Sequence[str] = ()) -> None:
    """One kubeconfig with the administrator's way to several clusters, each a context; the first is current. `alice@<cluster>` is
    the way of one of the others."""
    places = {name: {"server": one.url, "certificate-authority": str(one.ca)} for name, one in clusters.items()}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": place} for name, place in places.items()],
        "users": [{"name": name, "user": {"token": USERS[name].token}} for name in (ADMIN, *others)],
        "contexts": [
            *({"name": name, "context": {"cluster": name, "user": ADMIN}} for name in places),
            *({"name": f"{user}@{name}", "context": {"cluster": name, "user": user}} for user in others for name in places),
        ],
        "current-context": next(iter(places)),
    }
    path.write_text(yaml.safe_dump(document))
    path.chmod(0o600)


def write_token_file(path: Path) -> None:
    path.write_text("".join(user.row() for user in USERS.values()))


@dataclass
class KubeOptions:
    """What a caller may want different on the real plane."""

    fsync: bool = True
    pods: bool = False
    """Somebody looks after Deployments, and a node of ours runs pods of Muster's image."""
    node: Sequence[str | Path] = (peers.ROOT / ".venv/bin/muster", "node")
    """The command of that node; empty where the test runs one itself."""
    issuer: str = kube_flags.ISSUER
    audit_log: bool = False
    apiserver_flags: list[str] = field(default_factory=list)
    within: Sequence[str] = ()
    """A command that runs its processes somewhere else, and is given each."""


class KubePlane(ControlPlane):
    """etcd, kube-apiserver and kube-controller-manager as child processes on loopback, and a node where pods are wanted."""

    name = "kube"

    def __init__(self, directory: Path, options: KubeOptions | None = None) -> None:
        self.directory = directory
        self.options = options or KubeOptions()
        self._extra: dict[str, KubePlane] = {}
        directory.mkdir(parents=True, exist_ok=True)
        self._etcd_port, self._peer_port, self.port, self._manager_port = free_ports(4)
        self._files = kube_flags.make_files(directory)
        write_token_file(self._files.tokens)
        url = f"https://127.0.0.1:{self.port}"
        ca = self._files.ca.pair.cert
        self.cluster = Cluster("default", url, ca, directory / "kubeconfig")
        write_kubeconfig(self.kubeconfig, url, ca, {"token": self.token})
        write_kubeconfig(directory / "manager.kubeconfig", url, ca, kube_flags.manager_identity(self._files))
        self.logs = [directory / f"{name}.log" for name in ("etcd", "kube-apiserver", "kube-controller-manager")]
        self._servers: list[Server] = []

    @property
    def files(self) -> kube_flags.Files:
        """Its keys and authorities, by which a test can be anybody."""
        return self._files

    def start(self) -> None:
        etcd_url = f"http://127.0.0.1:{self._etcd_port}"
        commands: list[list[str | Path]] = [
            [
                peers.need("etcd"),
                *kube_flags.etcd(
                    self.directory / "etcd", etcd_url, f"http://127.0.0.1:{self._peer_port}", fsync=self.options.fsync
                ),
            ],
            [
                peers.need("kube-apiserver"),
                *kube_flags.apiserver(
                    self._files,
                    etcd_url,
                    self.port,
                    audit_log=self.options.audit_log,
                    pods=self.options.pods,
                    issuer=self.options.issuer,
                ),
                *self.options.apiserver_flags,
            ],
            [
                peers.need("kube-controller-manager"),
                *kube_flags.manager(self._files, self.directory / "manager.kubeconfig", self._manager_port, pods=self.options.pods),
            ],
        ]
        # All at once: each retries until the one below answers, which is faster than waiting in turn.
        self._servers = [
            Server(log.stem, [*self.options.within, *command], log, {"KUBECONFIG": ""})
            for command, log in zip(commands, self.logs[:3], strict=True)
        ]
        etcd, apiserver, manager = self._servers
        if self.options.pods and self.options.node:
            self._servers.append(self._node())
        etcd.start()
        apiserver.start()
        ready = Client(self.url, ca=self.ca, token=self.token, timeout=10)

        def serves() -> bool:
            try:
                return ready.get("/livez/ping").status == 200
            except (OSError, HTTPException):
                ready.close()
                return False

        apiserver.wait_until(serves, 90)
        ready.close()
        manager.start()
        for node in self._servers[3:]:
            node.start()
        self.wait_ready(apiserver, 90)

    def _node(self) -> Server:
        log = self.directory / "node.log"
        if log not in self.logs:
            self.logs.append(log)
        command = [*self.options.node, "--kubeconfig", self.kubeconfig, "--node-name", "default-node"]
        command += ["--client-ca-file", self.ca, "--directory", self.directory / "node"]
        return Server("node", command, log, python_path(peers.ROOT))

    def restart_one(self, name: str) -> None:
        """Of its processes that one alone, `kube-apiserver` say."""
        server = next(one for one in self._servers if one.name == name)
        server.stop()
        server.start()
        self.wait_ready(server, 90)

    def restart_node(self, *, kill: bool) -> None:
        node = self._servers[-1]
        node.stop(kill=kill)
        node.start()

    @property
    def pids(self) -> dict[str, int]:
        return {server.name: server.pid for server in self._servers}

    def stop(self, *, kill: bool = False) -> None:
        for plane in self._extra.values():
            plane.stop(kill=kill)
        for server in reversed(self._servers):
            server.stop(kill=kill)

    def extra(self, name: str) -> Cluster:
        if name not in self._extra:
            plane = KubePlane(self.directory / f"cluster-{name}", self.options)
            plane.start()
            self._extra[name] = plane
            self.logs += plane.logs
        plane = self._extra[name]
        return Cluster(name, plane.url, plane.ca, plane.kubeconfig)


class EmbeddedPlane(ControlPlane):
    """`muster apiserver` as a child process; further clusters are logical ones of the same process."""

    name = "embedded"

    def __init__(
        self,
        directory: Path,
        clusters: Iterable[str] = ("spare1", "spare2"),
        *,
        store: str | None = None,
        flags: Iterable[str] = (),
        root: Path = peers.ROOT,
        open_files: tuple[int, int] | None = None,
        port: int = 0,
        within: Sequence[str] = (),
    ) -> None:
        """`root`: the checkout, set up, whose server it is. `open_files`: the limits, soft and hard, that the process starts
        with. `port`: a free one, unless given. `within`: a command that runs it somewhere else, and is given it."""
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        tokens = directory / "tokens.csv"
        write_token_file(tokens)
        self.port = port or free_ports(1)[0]
        self._data = directory / "data"
        self.logs = [directory / "apiserver.log"]
        command: list[str | Path] = [root / ".venv/bin/muster", "apiserver", "--data-dir", self._data]
        command += ["--port", str(self.port), "--token-auth-file", tokens]
        for name in ("default", *clusters):
            command += ["--cluster", name]
        if store:
            command += ["--store", store]
        limited: list[str | Path] = []
        if open_files is not None:
            soft, hard = open_files
            limited = ["sh", "-c", f'ulimit -Sn {soft} && ulimit -Hn {hard} && exec "$@"', "sh"]
        self._server = Server("muster apiserver", [*within, *limited, *command, *flags], self.logs[0])
        self._clusters: dict[str, Cluster] = {}

    @property
    def pid(self) -> int:
        return self._server.pid

    def start(self) -> None:
        seen = self.logs[0].stat().st_size if self.logs[0].exists() else 0

        def announced() -> bool:
            with self.logs[0].open("rb") as log:
                log.seek(seen)
                return re.search(rb"\bready\b", log.read()) is not None

        self._server.start()
        self._server.wait_until(announced, 30, poll=0.02)
        self._clusters = read_clusters(self._data / "kubeconfig", self.directory)
        self.cluster = self._clusters["default"]
        self.wait_ready(self._server, 30)

    def stop(self, *, kill: bool = False) -> None:
        self._server.stop(kill=kill)

    def extra(self, name: str) -> Cluster:
        return self._clusters[name]


def read_clusters(kubeconfig: Path, directory: Path) -> dict[str, Cluster]:
    """One `Cluster` per context, each with a kubeconfig of its own that has that context current."""
    document = yaml.safe_load(kubeconfig.read_text())
    endpoints = {entry["name"]: entry["cluster"] for entry in document["clusters"]}
    clusters: dict[str, Cluster] = {}
    for context in document["contexts"]:
        name = context["name"]
        endpoint = endpoints[context["context"]["cluster"]]
        ca = Path(endpoint["certificate-authority"]) if "certificate-authority" in endpoint else directory / f"{name}.crt"
        if "certificate-authority-data" in endpoint:
            ca.write_bytes(base64.b64decode(endpoint["certificate-authority-data"]))
        own = directory / f"{name}.kubeconfig"
        own.write_text(yaml.safe_dump({**document, "current-context": name}))
        clusters[name] = Cluster(name, endpoint["server"].rstrip("/"), ca, own)
    return clusters


def chosen(directory: Path, *clusters: str, audit_log: bool = False) -> ControlPlane:
    """A plane of one's own, of the kind that MUSTER_E2E names, that can have these clusters beside its default one. An audit log
    is `audit.log` in its directory."""
    if os.environ.get("MUSTER_E2E") == "kube":
        return KubePlane(directory, KubeOptions(fsync=False, audit_log=audit_log))
    return EmbeddedPlane(directory, clusters, flags=["--audit-log", str(directory / "audit.log")] if audit_log else [])


def lent(directory: Path, *clusters: str, audit_log: bool = False) -> Iterator[ControlPlane]:
    """The chosen plane, for as long as whoever has it goes on."""
    plane = chosen(directory, *clusters, audit_log=audit_log)
    plane.start()
    yield plane
    plane.stop(kill=True)


def make(kind: str, directory: Path | None = None) -> ControlPlane:
    directory = directory or Path(tempfile.mkdtemp(prefix=f"muster-{kind}-"))
    return KubePlane(directory) if kind == "kube" else EmbeddedPlane(directory)


def main() -> int:
    parser = argparse.ArgumentParser(description="Start a control plane for tests and keep it up until interrupted.")
    parser.add_argument("kind", choices=["kube", "embedded"])
    parser.add_argument("--directory", type=Path, help="state, keys and logs (kept); a temporary one when not given")
    arguments = parser.parse_args()
    plane = make(arguments.kind, arguments.directory)
    began = time.monotonic()
    try:
        plane.start()
    except Exception as error:
        plane.stop(kill=True)
        print(error, file=sys.stderr)
        return 1
    print(f"ready in {time.monotonic() - began:.1f} s (pid {os.getpid()})")
    print(f"url        {plane.url}")
    print(f"ca         {plane.ca}")
    print(f"kubeconfig {plane.kubeconfig}")
    print(f"logs       {' '.join(map(str, plane.logs))}")
    for user in USERS.values():
        print(f"token      {user.token}  ({user.name}, groups {', '.join(user.groups) or '-'})", flush=True)
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    stop.wait()
    plane.stop() if arguments.directory else plane.discard()
    return 0


if __name__ == "__main__":
    sys.exit(main())
