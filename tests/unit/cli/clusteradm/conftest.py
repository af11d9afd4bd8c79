"""A hub and a cluster that is none on an API server in this process; `clusteradm` is run against them over HTTPS, as people do."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from click.testing import CliRunner, Result

from muster.administration.hubs import HubAddress, cluster_info
from muster.apiserver.adminkubeconfig import write_kubeconfig
from muster.apiserver.server import ApiServer, ServerConfig
from muster.cli.clusteradm import main
from muster.fleet.in_process import InProcessClient
from muster.machinery.authentication import UserInfo
from muster.machinery.objects import GVR, Object
from muster.registration.drivers.certificates.agents import agent_profile
from muster.registration.drivers.certificates.requests import new_key, request_object
from muster.registration.hub.install import BOOTSTRAP_GROUP, install
from muster.registration.kinds import MANAGED_CLUSTERS
from muster.registration.names import AgentIdentity
from muster.runtime.client.builtin import CONFIG_MAPS, NAMESPACES, SERVICE_ACCOUNTS, SIGNING_REQUESTS
from muster.runtime.client.errors import NotFound

if TYPE_CHECKING:
    from tests.unit.cli.clusteradm.joining import Joining

HUB, PLAIN, FRESH = "hub", "plain", "fresh"
TOKENS = {"mallory-token": UserInfo("mallory", groups=("system:authenticated",))}


@dataclass
class Fleet:
    """`hub` has OCM's definitions, without a controller; `plain` and `fresh` have nothing yet."""

    server: ApiServer
    kubeconfig: Path
    runner: CliRunner = field(default_factory=CliRunner)

    def admin(self, cluster: str = HUB) -> InProcessClient:
        return InProcessClient(self.server.client(self.server.clusters[cluster]), cluster)

    def user(self, user: UserInfo, cluster: str = HUB) -> InProcessClient:
        return InProcessClient(self.server.client(self.server.clusters[cluster], user), cluster)

    async def run(self, *arguments: str, context: str = HUB) -> Result:
        """In a thread: the command has a loop of its own, and talks to the server in ours."""
        everything = ["--kubeconfig", str(self.kubeconfig), "--context", context, *arguments]
        return await asyncio.to_thread(self.runner.invoke, main, everything)

    async def ok(self, *arguments: str, context: str = HUB) -> str:
        result = await self.run(*arguments, context=context)
        assert result.exit_code == 0, result.output
        return result.stdout

    async def fails(self, *arguments: str, context: str = HUB, code: int = 1) -> str:
        result = await self.run(*arguments, context=context)
        assert result.exit_code == code, result.output
        assert "Traceback" not in result.output
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result.stderr

    async def revision(self, cluster: str = HUB) -> str:
        """Of the whole store, once the server has made what every namespace has."""
        admin = self.admin(cluster)

        async def settled() -> bool:
            namespaces = {one["metadata"]["name"] for one in (await admin.list(NAMESPACES)).items}
            accounts = [one["metadata"] for one in (await admin.list(SERVICE_ACCOUNTS)).items]
            maps = [one["metadata"] for one in (await admin.list(CONFIG_MAPS)).items]
            served = {one["namespace"] for one in accounts if one["name"] == "default"}
            return namespaces == served == {one["namespace"] for one in maps if one["name"] == "kube-root-ca.crt"}

        await self.until(settled)
        return (await admin.list(CONFIG_MAPS)).resource_version

    async def find(self, resource: GVR, name: str, namespace: str = "", cluster: str = HUB) -> Object | None:
        try:
            return await self.admin(cluster).get(resource, name, namespace)
        except NotFound:
            return None

    async def cluster(self, name: str, **parts: Any) -> None:
        """A ManagedCluster, as its agent or an administrator makes it."""
        status = parts.pop("status", None)
        metadata = {"name": name, **parts.pop("metadata", {})}
        await self.admin().create(
            MANAGED_CLUSTERS,
            {"apiVersion": MANAGED_CLUSTERS.api_version, "kind": "ManagedCluster", "metadata": metadata, "spec": {}, **parts},
        )
        if status is not None:
            await self.admin().patch(MANAGED_CLUSTERS, name, {"status": status}, subresource="status")

    async def request(
        self,
        cluster: str,
        agent: str = "agent1",
        *,
        name: str = "",
        user: UserInfo | None = None,
        label: str = "",
        key: bytes = b"",
        **spec: Any,
    ) -> str:
        """A signing request of an agent; gives its name."""
        name = name or f"{label or cluster}-{agent}"
        document = request_object(name, agent_profile(AgentIdentity(cluster, agent)), key or new_key())
        document["spec"] |= spec
        if label:
            document["metadata"]["labels"]["open-cluster-management.io/cluster-name"] = label
        requester = user or UserInfo(
            "system:bootstrap:ocmhub", groups=("system:bootstrappers", BOOTSTRAP_GROUP, "system:authenticated")
        )
        await self.user(requester).create(SIGNING_REQUESTS, document)
        return name

    async def until(self, look: Callable[[], Awaitable[object]]) -> None:
        async with asyncio.timeout(20):
            while True:
                if await look():
                    return
                await asyncio.sleep(0.01)

    async def signed(self, name: str) -> bool:
        return bool((await self.admin().get(SIGNING_REQUESTS, name)).get("status", {}).get("certificate"))

    async def approved(self, name: str) -> bool:
        csr = await self.admin().get(SIGNING_REQUESTS, name)
        return any(one["type"] == "Approved" for one in (csr.get("status") or {}).get("conditions") or ())


class Told:
    """A Progress that remembers."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def info(self, text: str) -> None:
        self.lines.append(text)

    def note(self, text: str) -> None:
        self.lines.append(text)

    def warn(self, text: str) -> None:
        self.lines.append(f"warning: {text}")

    def waiting(self, what: str, why: str) -> None:
        self.lines.append(f"{what}: {why}")

    async def heard(self, text: str) -> bool:
        return any(text in line for line in self.lines)


def condition(kind: str, status: str, reason: str = "Reason", message: str = "message") -> Object:
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }


AVAILABLE = [
    condition("HubAcceptedManagedCluster", "True", "HubClusterAdminAccepted"),
    condition("ManagedClusterJoined", "True", "ManagedClusterJoined"),
    condition("ManagedClusterConditionAvailable", "True", "ManagedClusterAvailable"),
]


@pytest.fixture
async def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Fleet]:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    config = ServerConfig(store="memory", namespace_grace_period=0, port=0, clusters=(HUB, PLAIN, FRESH), static_tokens=TOKENS)
    server = ApiServer(config)
    await server.start()
    made = Fleet(server, tmp_path / "kubeconfig")
    await write_kubeconfig(server, made.kubeconfig)
    _add_user(made.kubeconfig, "mallory", "mallory-token")
    await install(made.admin())
    yield made
    await server.stop()


@pytest.fixture
async def joining(fleet: Fleet) -> Joining:
    from tests.unit.cli.clusteradm.joining import Joining

    told = json.loads(await fleet.ok("init", "-o", "json", "--force"))
    # With --force nobody looks whether newcomers find the hub.
    for resource, document in cluster_info(HubAddress(told["hub-apiserver"], fleet.server.ca_pem)):
        await fleet.admin().apply(resource, document, manager="test")
    return Joining(fleet, told["hub-token"], told["hub-apiserver"], told["hub-ca-hash"])


def _add_user(kubeconfig: Path, name: str, token: str) -> None:
    """Contexts `<name>@<cluster>` of somebody without rights."""
    document = yaml.safe_load(kubeconfig.read_text())
    document["users"].append({"name": name, "user": {"token": token}})
    document["contexts"] += [
        {"name": f"{name}@{cluster['name']}", "context": {"cluster": cluster["name"], "user": name}}
        for cluster in document["clusters"]
    ]
    kubeconfig.write_text(yaml.safe_dump(document))
