"""A hub's controllers that benchmarks compare: `muster placement` and upstream's, `muster addon-manager` and upstream's.

Each gets a kube-apiserver of its own, started anew with the same flags and definitions, and runs as the same account.
Leader election is off in both; everything else is each side's default, upstream's limit of 50 requests per second
included, unless a case lifts it.
"""

from __future__ import annotations

import abc
import asyncio
import subprocess
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from tests.interop import ocm
from tests.support import peers
from tests.support.processes import Server, free_ports

from bench.audit import Request, by_party
from bench.awaiting import until
from bench.hubs import MUSTER
from bench.measured import MeasuredProcess

T = TypeVar("T")
WITHIN = 1800.0
_WRITES = ("create", "update", "patch", "delete")
_MAKERS = 16


@dataclass(frozen=True)
class Program:
    name: str
    """Of ours, as in `muster placement`."""
    upstream: tuple[str, str]
    account: str

    @property
    def user(self) -> str:
        return f"system:serviceaccount:{ocm.HUB_NAMESPACE}:{self.account}"


PLACEMENT = Program("placement", ("placement", "controller"), "placement-controller-sa")
ADDONS = Program("addon-manager", ("addon", "manager"), "addon-manager-controller-sa")


class HubController(MeasuredProcess):
    """A real API server, and the controller's process once it is started."""

    def __init__(self, program: Program, directory: Path, unlimited: bool) -> None:
        super().__init__(directory)
        self.program = program
        self.unlimited = unlimited

    def prepare(self) -> None:
        """Everything but the controller."""
        self.plane.start()
        self.install()
        admin = self.plane.client()
        self._own = ocm.service_account_kubeconfig(
            self.plane.cluster, admin, ocm.HUB_NAMESPACE, self.program.account, self.directory / "own.kubeconfig"
        )
        admin.close()

    def install(self) -> None:
        command: list[str | Path] = [MUSTER, self.program.name, "--install-only", f"--kubeconfig={self.plane.kubeconfig}"]
        subprocess.run(command, check=True, timeout=60, stdout=subprocess.DEVNULL)

    def start(self) -> None:
        flags = [f"--kubeconfig={self._own}", "--disable-leader-election"]
        environment = {"POD_NAME": self.program.name, "KUBECONFIG": ""}
        self._server = Server(self.name, [*self.command(), *flags], self.directory / "controller.log", environment)
        self._server.start()

    @abc.abstractmethod
    def command(self) -> list[str | Path]: ...

    def requests(self, mark: int) -> Counter[str]:
        """What it asked for since a mark, by verb and kind."""
        return by_party(self.audit.requests(mark), self._whose).get(self.name, Counter())

    def _whose(self, request: Request) -> str:
        return self.name if request.user == self.program.user else ""

    def asked(self, mark: int) -> Counter[str]:
        """The same, as reads, writes and events, which are told apart."""
        sorts: Counter[str] = Counter()
        for request, number in self.requests(mark).items():
            verb, _, resource = request.partition(" ")
            sorts["events" if resource.startswith("events") else "writes" if verb in _WRITES else "reads"] += number
        return sorts

    async def settled(self, seconds: float) -> None:
        """Until nothing was written for some seconds."""
        mark, since = self.audit.mark(), time.monotonic()
        while time.monotonic() < since + seconds:
            await asyncio.sleep(min(0.5, seconds))
            if self.asked(mark)["writes"]:
                mark, since = self.audit.mark(), time.monotonic()


class Ours(HubController):
    name = "muster"

    def command(self) -> list[str | Path]:
        return [MUSTER, self.program.name, "--no-install", "--health-port=0"]


class Upstream(HubController):
    name = "upstream"

    def install(self) -> None:
        super().install()
        admin = self.plane.client()
        # It looks for ConfigMaps and Pods at its start, and ends without them.
        subject = {"kind": "ServiceAccount", "namespace": ocm.HUB_NAMESPACE, "name": self.program.account}
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
        metadata = {"name": f"bench-{self.program.name}"}
        ocm.create(admin, f"{ocm.RBAC}/clusterrolebindings", {"metadata": metadata, "subjects": [subject], "roleRef": reference})
        admin.close()

    def command(self) -> list[str | Path]:
        (port,) = free_ports(1)
        limits = ["--kube-api-qps=10000", "--kube-api-burst=10000"] if self.unlimited else []
        program, command = self.program.upstream
        return [peers.need(program), command, f"--listen=127.0.0.1:{port}", *limits]


@dataclass
class Onlooker:
    """Whoever follows what a controller does; what follows sets `news`."""

    controller: HubController
    news: asyncio.Event = field(default_factory=asyncio.Event)

    async def until_so(self, done: Callable[[], bool], what: str) -> float:
        """When it was so: monotonic time."""
        return await until(self.controller, self.news, done, what, WITHIN)


async def each(things: Iterable[T], make: Callable[[T], Awaitable[object]]) -> None:
    """Some at a time."""
    left = iter(things)

    async def maker() -> None:
        for one in left:
            await make(one)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(_MAKERS):
            tasks.create_task(maker())
