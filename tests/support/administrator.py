"""What the administrator of a hub does and sees in a test, whoever's hub it is: accept, approve, deny, delete, introduce, look.

Whoever waits here names what for; a wait that ends in vain shows the last answer and the end of every log.
"""

from __future__ import annotations

import base64
import contextlib
import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import yaml

from tests.support.client import Client, Reply
from tests.support.planes import Cluster
from tests.support.processes import Server, tail

T = TypeVar("T")
Document = dict[str, Any]

MANAGED_CLUSTERS = "/apis/cluster.open-cluster-management.io/v1/managedclusters"
CSRS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
ACCEPTED, JOINED, AVAILABLE = "HubAcceptedManagedCluster", "ManagedClusterJoined", "ManagedClusterConditionAvailable"
HUB_NAMESPACE, AGENT_NAMESPACE, BOOTSTRAP_NAMESPACE = (
    "open-cluster-management-hub",
    "open-cluster-management-agent",
    "open-cluster-management",
)
TRUSTED = f"system:serviceaccount:{BOOTSTRAP_NAMESPACE}:agent-registration-bootstrap"
"""Whose requests the hubs of these tests approve by themselves; holders of bootstrap tokens need a person."""


def wait_for(
    look: Callable[[], T | None], what: str, *, timeout: float = 30, servers: Sequence[Server] = (), poll: float = 0.05
) -> T:
    """What `look` gives once that is true in the sense of `if`; a failed wait says what was there instead."""
    deadline = time.monotonic() + timeout
    while not (seen := look()):
        if time.monotonic() > deadline:
            logs = "\n".join(f"--- {server.name}\n{tail(server.log, 25)}" for server in servers)
            raise AssertionError(f"waited {timeout:g} s for {what}; last seen: {seen!r}\n{logs}")
        time.sleep(poll)
    return seen


def wait_reply(send: Callable[[], Reply], what: str, *statuses: int, timeout: float = 30, servers: Sequence[Server] = ()) -> Any:
    """The body of the first answer with one of `statuses`; a failed wait shows the last answer."""
    last: list[Reply] = []

    def look() -> bool:
        last[:] = [send()]
        return last[0].status in statuses

    try:
        wait_for(look, what, timeout=timeout, servers=servers)
    except AssertionError as error:
        raise AssertionError(f"{last[0].status} {last[0].text[:1000]}\n{error}") from None
    return last[0].json


def managed_cluster(name: str, *, accepted: bool = False, **spec: Any) -> Document:
    kind = {"apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster"}
    return {**kind, "metadata": {"name": name}, "spec": {"hubAcceptsClient": accepted, **spec}}


def kubeconfig_text(url: str, ca: Path, user: Mapping[str, str], name: str = "hub") -> str:
    """A kubeconfig that needs no other file, as bootstrap Secrets hold it."""
    authority = base64.b64encode(ca.read_bytes()).decode()
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": name, "cluster": {"server": url, "certificate-authority-data": authority}}],
            "users": [{"name": "bootstrap", "user": dict(user)}],
            "contexts": [{"name": "bootstrap", "context": {"cluster": name, "user": "bootstrap"}}],
            "current-context": "bootstrap",
        }
    )


def service_account_token(admin: Client, namespace: str, name: str, seconds: int = 7200) -> str:
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": seconds}}
    reply = admin.post(f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token", request).expect(201)
    return str(reply["status"]["token"])


def read_secret(client: Client, namespace: str, name: str) -> dict[str, bytes]:
    """A Secret's data; empty when there is none."""
    reply = client.get(f"/api/v1/namespaces/{namespace}/secrets/{name}")
    if reply.status == 404:
        return {}
    return {key: base64.b64decode(value) for key, value in (reply.expect(200).get("data") or {}).items()}


class Administrator:
    """What the hub's administrator does and sees."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.admin = cluster.client()
        self.servers: list[Server] = []
        """Whose logs a failed wait shows."""
        self._tokens = itertools.count(1)

    def wait(self, look: Callable[[], T | None], what: str, timeout: float = 30) -> T:
        return wait_for(look, what, timeout=timeout, servers=self.servers)

    def wait_reply(self, send: Callable[[], Reply], what: str, *statuses: int, timeout: float = 30) -> Any:
        return wait_reply(send, what, *statuses, timeout=timeout, servers=self.servers)

    def read(self, path: str) -> Document | None:
        """An object or list; None when there is none. A server that asks for patience gets it."""
        reply = self.admin.get(path)
        while reply.status == 429:
            time.sleep(0.2)
            reply = self.admin.get(path)
        return None if reply.status == 404 else dict(reply.expect(200))

    # ManagedClusters

    def find(self, name: str) -> Document | None:
        return self.read(f"{MANAGED_CLUSTERS}/{name}")

    def condition(self, name: str, kind: str) -> Document:
        """A condition of a cluster; empty when there is none."""
        conditions = ((self.find(name) or {}).get("status") or {}).get("conditions") or []
        return next((dict(one) for one in conditions if one["type"] == kind), {})

    def status(self, name: str, kind: str) -> str:
        return str(self.condition(name, kind).get("status", ""))

    def wait_condition(self, name: str, kind: str, status: str = "True", reason: str = "", timeout: float = 30) -> Document:
        seen: list[Document] = [{}]

        def look() -> bool:
            seen[0] = self.condition(name, kind)
            return seen[0].get("status") == status and reason in ("", seen[0].get("reason"))

        try:
            self.wait(look, f"{kind}={status} {reason} of {name}", timeout)
        except AssertionError as error:
            raise AssertionError(f"{name}: {self.find(name)}\n{error}") from None
        return seen[0]

    def wait_available(self, name: str, timeout: float = 30) -> None:
        for kind in (ACCEPTED, JOINED, AVAILABLE):
            self.wait_condition(name, kind, timeout=timeout)

    def patch(self, name: str, change: Document) -> Reply:
        return self.admin.patch(f"{MANAGED_CLUSTERS}/{name}", change)

    def set_accepted(self, name: str, accepted: bool) -> None:
        self.patch(name, {"spec": {"hubAcceptsClient": accepted}}).expect(200)

    def accept(self, name: str, *, lease: int = 60) -> None:
        """Once the agent has announced itself."""
        self.wait(lambda: self.find(name), f"ManagedCluster {name}")
        self.patch(name, {"spec": {"hubAcceptsClient": True, "leaseDurationSeconds": lease}}).expect(200)

    def deny(self, name: str) -> None:
        self.set_accepted(name, False)

    def delete(self, name: str) -> None:
        self.admin.delete(f"{MANAGED_CLUSTERS}/{name}").expect(200, 404)

    def wait_gone(self, name: str, timeout: float = 30) -> None:
        self.wait(lambda: self.find(name) is None, f"ManagedCluster {name} to be gone", timeout)

    def lease(self, name: str) -> Document | None:
        reply = self.admin.get(f"/apis/coordination.k8s.io/v1/namespaces/{name}/leases/managed-cluster-lease")
        return None if reply.status == 404 else dict(reply.expect(200))

    def renewed(self, name: str) -> str:
        return str(((self.lease(name) or {}).get("spec") or {}).get("renewTime", ""))

    def wait_renewed(self, name: str, times: int = 1, timeout: float = 30) -> None:
        for _ in range(times):
            before = self.renewed(name)
            self.wait(lambda before=before: self.renewed(name) not in ("", before), f"a lease of {name} renewed", timeout)  # type: ignore[misc]

    # Certificates

    def requests(self, name: str) -> list[Document]:
        """A cluster's certificate requests, oldest first."""
        query = {"labelSelector": f"open-cluster-management.io/cluster-name={name}"}
        items = self.admin.get(CSRS, query=query).expect(200)["items"]
        whole = [{**item, "kind": "CertificateSigningRequest", "apiVersion": "certificates.k8s.io/v1"} for item in items]
        return sorted(whole, key=lambda item: (item["metadata"]["creationTimestamp"], int(item["metadata"]["resourceVersion"])))

    def decide(self, request: Document, verdict: str = "Approved") -> None:
        condition = {"type": verdict, "status": "True", "reason": "Test", "message": "decided by the test"}
        status = {**(request.get("status") or {}), "conditions": [condition]}
        self.admin.put(f"{CSRS}/{request['metadata']['name']}/approval", {**request, "status": status}).expect(200)

    def approve(self, name: str, timeout: float = 30) -> None:
        """The cluster's pending requests, of which there must be one."""
        for request in self.wait(lambda: self.pending(name), f"a certificate request of {name}", timeout):
            self.decide(request)

    def pending(self, name: str) -> list[Document]:
        return [request for request in self.requests(name) if not verdicts(request)]

    # Webhooks

    @contextlib.contextmanager
    def without_webhooks(self) -> Iterator[None]:
        """Nobody is asked about writes meanwhile."""
        places = [f"/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations" for kind in ("mutating", "validating")]
        taken = [(place, item) for place in places for item in self.admin.get(place).expect(200)["items"]]
        for place, item in taken:
            self.admin.delete(f"{place}/{item['metadata']['name']}").expect(200)
        try:
            yield
        finally:
            for place, item in taken:
                self.admin.post(place, {"metadata": {"name": item["metadata"]["name"]}, "webhooks": item["webhooks"]}).expect(201)

    # Introductions

    def trusted_kubeconfig(self, url: str = "") -> str:
        """Of the bootstrap service account."""
        namespace, account = TRUSTED.split(":")[2:]
        token = service_account_token(self.admin, namespace, account)
        return kubeconfig_text(url or self.cluster.url, self.cluster.ca, {"token": token})

    def token_kubeconfig(self, url: str = "", *, expires_in: float | None = None) -> str:
        """Of a new bootstrap token: somebody whom the hub lets ask, and no more."""
        identifier, secret = f"t{next(self._tokens):05d}", "0123456789abcdef"
        data = {
            "token-id": identifier,
            "token-secret": secret,
            "usage-bootstrap-authentication": "true",
            "auth-extra-groups": "system:bootstrappers:managedcluster",
        }
        if expires_in is not None:
            moment = datetime.now(UTC) + timedelta(seconds=expires_in)
            data["expiration"] = moment.strftime("%Y-%m-%dT%H:%M:%SZ")
        body = {
            "metadata": {"name": f"bootstrap-token-{identifier}"},
            "type": "bootstrap.kubernetes.io/token",
            "stringData": data,
        }
        self.admin.post("/api/v1/namespaces/kube-system/secrets", body).expect(201)
        return kubeconfig_text(url or self.cluster.url, self.cluster.ca, {"token": f"{identifier}.{secret}"})

    def account(self, name: str, rules: list[Document]) -> str:
        """The kubeconfig of a service account that may do just this; called again, it may do that instead."""
        role = {"metadata": {"name": name}, "rules": rules}
        if self.admin.post(f"{RBAC}/clusterroles", role).status == 409:
            self.admin.patch(f"{RBAC}/clusterroles/{name}", {"rules": rules}).expect(200)
        else:
            subject = {"kind": "ServiceAccount", "namespace": "default", "name": name}
            reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
            self.admin.post("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": name}}).expect(201)
            binding = {"metadata": {"name": name}, "subjects": [subject], "roleRef": reference}
            self.admin.post(f"{RBAC}/clusterrolebindings", binding).expect(201)
        token = service_account_token(self.admin, "default", name)
        return kubeconfig_text(self.cluster.url, self.cluster.ca, {"token": token})

    def events(self, namespace: str, reason: str) -> list[Document]:
        found = self.admin.get(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events").expect(200)["items"]
        return [dict(event) for event in found if event.get("reason") == reason]


def verdicts(request: Document) -> set[str]:
    return {condition["type"] for condition in (request.get("status") or {}).get("conditions") or ()}


def certificate_of(request: Document) -> str:
    return str((request.get("status") or {}).get("certificate", ""))
