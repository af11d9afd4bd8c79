"""A hub with a gateway as a process of its own, and two clusters that it leads to, `foo` and `bar`, all of the chosen kind.

The hub's API server reaches the gateway as it reaches any aggregated API: by an APIService and a Service. `foo` and `bar` are
accepted ManagedClusters whose credentials are labelled Secrets; tests that break something make clusters of their own.
"""

from __future__ import annotations

import base64
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from tests.support.administrator import RBAC, Document, managed_cluster, service_account_token, wait_for
from tests.support.client import Client, Reply
from tests.support.hub_components import GatewayHub
from tests.support.kubectl import Outcome, kubectl
from tests.support.planes import USERS, Cluster, ControlPlane, lent
from tests.support.processes import complaints
from tests.support.registration import Hub

GROUP = "proxy.open-cluster-management.io"
GATEWAYS = f"/apis/{GROUP}/v1alpha1/clustergateways"
MANAGED_CLUSTERS = "/apis/cluster.open-cluster-management.io/v1/managedclusters"
CREDENTIALS = "managed-cluster-credentials"
CREDENTIAL_TYPE = f"{GROUP}/cluster-credential-type"
SECRETS = f"/api/v1/namespaces/{CREDENTIALS}/secrets"
READS = ("get", "list", "watch")
_numbers = itertools.count(1)


def base64_of(data: Mapping[str, str | bytes]) -> dict[str, str]:
    texts = {key: value.encode() if isinstance(value, str) else value for key, value in data.items()}
    return {key: base64.b64encode(value).decode() for key, value in texts.items()}


def rule(resources: Sequence[str], verbs: Sequence[str], names: Sequence[str] = (), group: str = "") -> Document:
    return {"apiGroups": [group], "resources": list(resources), "verbs": list(verbs), "resourceNames": list(names)}


@dataclass
class GatewaySite:
    ground: ControlPlane
    gateway: GatewayHub
    spokes: dict[str, Cluster]
    tokens: dict[str, str] = field(default_factory=dict)
    """Of the gateway's account on each cluster."""

    @property
    def hub(self) -> Cluster:
        return self.ground.cluster

    @property
    def admin(self) -> Client:
        return self.gateway.admin

    def proxy(self, cluster: str, path: str = "/", user: str = "admin", method: str = "GET", **options: Any) -> Reply:
        return self.hub.client(user).request(method, f"{GATEWAYS}/{cluster}/proxy{path}", **options)

    def through(self, cluster: str, user: str = "admin") -> Client:
        """A client of the cluster that goes through the gateway."""
        token = USERS[user].token
        return Client(f"{self.hub.url}{GATEWAYS}/{cluster}/proxy", ca=self.hub.ca, token=token)

    def kubectl(self, cluster: str, *arguments: str, user: str = "admin", **options: Any) -> Outcome:
        return kubectl(self.behind(cluster), *arguments, user=USERS[user].token, **options)

    def behind(self, cluster: str) -> Cluster:
        """The cluster as people have it in their kubeconfig: the hub's address with a path."""
        url = f"{self.hub.url}{GATEWAYS}/{cluster}/proxy"
        directory = self.ground.directory / f"behind-{cluster}"
        directory.mkdir(exist_ok=True)
        return Cluster(f"behind-{cluster}", url, self.hub.ca, directory / "kubeconfig")

    def seen(self, cluster: str) -> Document | None:
        reply = self.admin.get(f"{GATEWAYS}/{cluster}")
        return None if reply.status == 404 else dict(reply.expect(200))

    def wait_status(self, cluster: str, *, healthy: bool, reason: str = "") -> Document:
        def look() -> Document | None:
            status = (self.seen(cluster) or {}).get("status") or {}
            fits = status.get("healthy", False) is healthy and reason in str(status.get("healthyReason", ""))
            return dict(status) if fits and status else None

        return wait_for(look, f"{cluster} healthy={healthy} {reason}", servers=self.gateway.servers)

    # What an administrator does

    def name(self, prefix: str) -> str:
        return f"{prefix}{next(_numbers)}"

    def accept(self, name: str, **spec: Any) -> None:
        self.admin.post(MANAGED_CLUSTERS, managed_cluster(name, accepted=True, **spec)).expect(201)

    def credential(self, name: str, kind: str, data: Mapping[str, str | bytes], **labels: str) -> Document:
        kinds = {"apiVersion": "v1", "kind": "Secret", "type": "Opaque"}
        metadata = {"name": name, "labels": {CREDENTIAL_TYPE: kind, **labels}}
        return dict(self.admin.post(SECRETS, {**kinds, "metadata": metadata, "data": base64_of(data)}).expect(201))

    def register(self, name: str, spoke: Cluster, token: str) -> None:
        """A cluster of its own name for one that is there."""
        self.accept(name)
        data: dict[str, str | bytes] = {"endpoint": spoke.url, "ca.crt": spoke.ca.read_bytes(), "token": token}
        self.credential(name, "ServiceAccountToken", data)
        self.wait_status(name, healthy=True)

    def forget(self, name: str) -> None:
        self.admin.delete(f"{MANAGED_CLUSTERS}/{name}")
        self.admin.delete(f"{SECRETS}/{name}")

    def grant(self, user: str, *rules: Document) -> None:
        """Roles on the hub: on gateways, and by virtual verbs on what is behind them."""
        name = self.name(f"gateway-test-{user}-")
        role = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": name},
            "rules": list(rules),
        }
        self.admin.post(f"{RBAC}/clusterroles", role).expect(201)
        binding = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": user}],
        }
        self.admin.post(f"{RBAC}/clusterrolebindings", binding).expect(201)

    def may_use(self, user: str, *clusters: str, verbs: Sequence[str] = ("get",)) -> None:
        self.grant(user, rule(["clustergateways/proxy"], verbs, clusters, GROUP))

    def audited(self) -> list[Document]:
        lines = self.gateway.audit_log.read_text().splitlines() if self.gateway.audit_log.exists() else []
        return [orjson.loads(line) for line in lines]


def account(spoke: Cluster, name: str = "gateway") -> str:
    """A token of an account on the cluster that may do everything there."""
    admin = spoke.client()
    kind = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}
    admin.post("/api/v1/namespaces/default/serviceaccounts", kind).expect(201, 409)
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": f"everything-for-{name}"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "namespace": "default", "name": name}],
    }
    admin.post(f"{RBAC}/clusterrolebindings", binding).expect(201, 409)
    return service_account_token(admin, "default", name)


def powerless(spoke: Cluster, name: str) -> str:
    """A token of an account on the cluster that may do nothing but what everybody may."""
    admin = spoke.client()
    kind = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}
    admin.post("/api/v1/namespaces/default/serviceaccounts", kind).expect(201)
    return service_account_token(admin, "default", name)


@pytest.fixture(scope="package")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    yield from lent(tmp_path_factory.mktemp("gateway"), "foo", "bar", audit_log=True)


@pytest.fixture(scope="package")
def site(ground: ControlPlane) -> Iterator[GatewaySite]:
    Hub(ground.cluster, ground.directory / "hub", webhooks=False).install()
    gateway = GatewayHub(ground.cluster, ground.directory / "gateway")
    gateway.install()
    gateway.start()
    found = GatewaySite(ground, gateway, {name: ground.extra(name) for name in ("foo", "bar")})
    gateway.wait_reply(lambda: found.admin.get(GATEWAYS), "the aggregated API", 200, timeout=60)
    for name, spoke in found.spokes.items():
        found.tokens[name] = account(spoke)
        found.register(name, spoke, found.tokens[name])
    yield found
    gateway.stop()
    assert gateway.process is not None
    assert complaints(gateway.process.log) == []
    # C1: whatever the tests have done, no token of the clusters or of people was written down.
    written = gateway.process.log.read_bytes() + gateway.audit_log.read_bytes()
    assert [name for name, token in found.tokens.items() if token.encode() in written] == []
    assert [user.name for user in USERS.values() if user.token.encode() in written] == []


def kubeconfig_of(site: GatewaySite, cluster: str, user: str, path: Path) -> Path:
    """As `clusteradm gateway kubeconfig` writes it: the hub's credential, the gateway's path."""
    authority = base64.b64encode(site.hub.ca.read_bytes()).decode()
    server = f"{site.hub.url}{GATEWAYS}/{cluster}/proxy"
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": cluster, "cluster": {"server": server, "certificate-authority-data": authority}}],
        "users": [{"name": user, "user": {"token": USERS[user].token}}],
        "contexts": [{"name": cluster, "context": {"cluster": cluster, "user": user}}],
        "current-context": cluster,
    }
    path.write_text(yaml.safe_dump(document))
    return path
