"""What the gateways are measured on: a hub and a cluster behind them, both kube-apiservers, and the two gateways."""

from __future__ import annotations

import abc
import base64
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Self

from tests.e2e.gateway.conftest import CREDENTIALS, GATEWAYS, MANAGED_CLUSTERS, SECRETS, GatewaySite, account, base64_of
from tests.e2e.gateway.test_tunnel import Tunnelled
from tests.support import upstream_gateway as upstream
from tests.support.administrator import HUB_NAMESPACE, RBAC, managed_cluster, wait_reply
from tests.support.hub_components import GatewayHub
from tests.support.planes import USERS, KubeOptions, KubePlane
from tests.support.processes import Server
from tests.support.registration import Hub
from tests.support.upstream_gateway import API_SERVICES, UpstreamGateway

from bench import loadgen
from bench.audit import AuditLog
from bench.loadgen import Target
from bench.sides import cpu_seconds, resident
from muster.gateway.apiservice import API_VERSIONS, api_service_name, serving_hosts

USER: Final = "alice"
"""Whose requests they are: somebody with every right, but not by a group that authorizers let through unasked."""
CLUSTER: Final = "foo"
TUNNELLED: Final = "hidden"
NAMESPACE: Final = "bench"
SMALL: Final = "small"
POOL: Final = 100
DOCUMENT: Final = "/openapi/v2"
"""Large, and nothing that a kube-apiserver has to make first."""


class Ground:
    """The hub and the cluster, with objects to read."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.plane = KubePlane(directory / "plane", KubeOptions(fsync=False, audit_log=True))
        self.token = ""

    def start(self, objects: int) -> None:
        self.plane.start()
        self.spoke = self.plane.extra(CLUSTER)
        Hub(self.plane.cluster, self.directory / "hub", webhooks=False).install()
        binding = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "bench"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": USER}],
        }
        self.plane.client().post(f"{RBAC}/clusterrolebindings", binding).expect(201)
        self.token = account(self.spoke)
        for name in (NAMESPACE, "bench-list", "bench-watch"):
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            self.spoke.client().post("/api/v1/namespaces", body).expect(201)
        straight = self.straight()
        for namespace, count in ((NAMESPACE, POOL), ("bench-list", objects)):
            flags = {"namespace": namespace, "prefix": SMALL, "count": count, "clients": 16, "seconds": 100}
            loadgen.run(straight, "load", verb="create", **flags)

    def straight(self) -> Target:
        """The cluster with nothing between, as the gateways ask it."""
        return Target(self.spoke.url, self.spoke.ca, self.token)

    def register(self, *names: str) -> None:
        """Clusters that are all the one there is, with upstream's labels, which both gateways understand."""
        admin = self.plane.client()
        labels = {upstream.CREDENTIAL_TYPE: "ServiceAccountToken", upstream.ENDPOINT_TYPE: "Const"}
        data = base64_of({"endpoint": self.spoke.url, "ca.crt": self.spoke.ca.read_bytes(), "token": self.token})
        for name in names:
            admin.post(MANAGED_CLUSTERS, managed_cluster(name, accepted=True)).expect(201)
            secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "labels": labels}, "data": data}
            admin.post(SECRETS, secret).expect(201)
        admin.close()

    def asked(self, account: str) -> Asked:
        return Asked(self.plane.directory, account)

    def discard(self) -> None:
        self.plane.discard()


class Asked:
    """How often a gateway asked the hub, and anybody with the gateways' account the cluster, since this was made."""

    def __init__(self, directory: Path, account: str) -> None:
        self._account = account
        self._hub = AuditLog(directory / "audit.log")
        self._spoke = AuditLog(directory / f"cluster-{CLUSTER}" / "audit.log")
        self._marks = self._hub.mark(), self._spoke.mark()

    def hub(self) -> int:
        return sum(one.user == self._account for one in self._hub.requests(self._marks[0]))

    def cluster(self) -> int:
        return sum(one.user == "system:serviceaccount:default:gateway" for one in self._spoke.requests(self._marks[1]))


class Gateway(abc.ABC):
    name: str
    path: str
    account: str
    api_service: str

    def __init__(self, ground: Ground) -> None:
        self.ground = ground

    @property
    @abc.abstractmethod
    def server(self) -> Server: ...

    @abc.abstractmethod
    def install(self) -> None: ...

    @abc.abstractmethod
    def launch(self) -> None: ...

    @abc.abstractmethod
    def stop(self) -> None: ...

    @abc.abstractmethod
    def asked_directly(self, cluster: str = CLUSTER) -> Target: ...

    def through_the_hub(self) -> Target:
        return Target(f"{self.ground.plane.url}{self.path}/{CLUSTER}/proxy", self.ground.plane.ca, USERS[USER].token)

    @contextmanager
    def running(self) -> Iterator[Self]:
        self.launch()
        try:
            self.await_cluster(CLUSTER)
            yield self
        finally:
            self.stop()

    def await_cluster(self, name: str) -> None:
        # The hub's API server looks for one that was gone ever less often, but at once where its APIService changes.
        admin, mark = self.ground.plane.client(), {"metadata": {"annotations": {"bench": str(time.monotonic())}}}
        admin.patch(f"{API_SERVICES}/{self.api_service}", mark).expect(200)
        client = self.ground.plane.client(USER)
        path = f"{self.path}/{name}/proxy/version"
        wait_reply(lambda: client.get(path), f"{name} behind {self.name}", 200, timeout=120, servers=[self.server])
        client.close()

    def memory(self) -> int:
        return resident(self.server.pid)

    def cpu(self) -> float:
        return cpu_seconds(self.server.pid)


class Ours(Gateway):
    name = "muster"
    path = GATEWAYS
    account = f"system:serviceaccount:{HUB_NAMESPACE}:cluster-gateway-sa"
    api_service = api_service_name(API_VERSIONS[0])

    def __init__(self, ground: Ground) -> None:
        super().__init__(ground)
        self._hub = GatewayHub(ground.plane.cluster, ground.directory / "ours")

    @property
    def server(self) -> Server:
        assert self._hub.process is not None, "started"
        return self._hub.process

    def install(self) -> None:
        self._hub.install()

    def launch(self) -> None:
        self._hub.start("--http2")

    def stop(self) -> None:
        self._hub.stop()

    @contextmanager
    def tunnel(self) -> Iterator[str]:
        """The name of the same cluster with no way to it but a tunnel, which goes through the hub's API server."""
        plane = self.ground.plane
        site = GatewaySite(plane, self._hub, {CLUSTER: self.ground.spoke}, {CLUSTER: self.ground.token})
        behind = Tunnelled(site, TUNNELLED, self.ground.spoke, self.ground.directory / "agent")
        behind.prepare()
        behind.start()
        try:
            self.await_cluster(TUNNELLED)
            yield TUNNELLED
        finally:
            behind.agent.stop()
            site.forget(TUNNELLED)

    def asked_directly(self, cluster: str = CLUSTER) -> Target:
        found = self._hub.admin.get(f"{API_SERVICES}/{self.api_service}").expect(200)
        ca = self.ground.directory / "ours.crt"
        ca.write_bytes(base64.b64decode(found["spec"]["caBundle"]))
        url = f"https://127.0.0.1:{self._hub.port}{self.path}/{cluster}/proxy"
        return Target(url, ca, USERS[USER].token, serving_hosts(HUB_NAMESPACE)[0])


class Theirs(Gateway):
    """As it comes: whoever may use `clustergateways/proxy` may do on the cluster what the gateway may."""

    name = "cluster-gateway"
    path = upstream.GATEWAYS
    account = f"system:serviceaccount:{upstream.NAMESPACE}:{upstream.ACCOUNT}"
    api_service = upstream.API_SERVICE
    flags: tuple[str, ...] = ()

    def __init__(self, ground: Ground, beside: Theirs | None = None) -> None:
        """`beside`: one that is installed, for another with other flags."""
        super().__init__(ground)
        self._hub: UpstreamGateway = (
            UpstreamGateway(ground.plane.cluster, ground.directory / "theirs", CREDENTIALS) if beside is None else beside._hub
        )

    @property
    def server(self) -> Server:
        assert self._hub.process is not None, "started"
        return self._hub.process

    def install(self) -> None:
        self._hub.install()

    def launch(self) -> None:
        self._hub.start(*self.flags)

    def stop(self) -> None:
        self._hub.stop()

    def asked_directly(self, cluster: str = CLUSTER) -> Target:
        return Target(f"https://127.0.0.1:{self._hub.port}{self.path}/{cluster}/proxy", self._hub.ca, USERS[USER].token)


class Authorizing(Theirs):
    """It asks the hub whether the caller may do on it what is asked of the cluster: the nearest that it has to virtual verbs."""

    name = "cluster-gateway that authorizes"
    flags = ("--authorize-proxy-subpath",)


class Peak:
    """The most memory that a process had while this was on."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self.bytes = 0

    def __enter__(self) -> Peak:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._over.wait(0.1):
            self.bytes = max(self.bytes, self._gateway.memory())


def at_rest(gateway: Gateway, seconds: float) -> tuple[float, float, float, float]:
    """MiB; milliseconds of CPU per second; requests per minute to the hub, and to the clusters."""
    asked, cpu = gateway.ground.asked(gateway.account), gateway.cpu()
    time.sleep(seconds)
    spent = (gateway.cpu() - cpu) / seconds * 1000
    minutes = seconds / 60
    return gateway.memory() / 2**20, spent, asked.hub() / minutes, asked.cluster() / minutes
