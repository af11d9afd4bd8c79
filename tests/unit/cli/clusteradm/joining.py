"""A hub that takes newcomers, and a cluster that joins it, and lives there."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any

import yaml

from muster.administration.hub.tokens import BOOTSTRAP_USERS
from muster.machinery.authentication import UserInfo
from muster.machinery.objects import Object
from muster.operator.names import KLUSTERLETS
from muster.registration.drivers.certificates.agents import agent_profile
from muster.registration.drivers.certificates.requests import new_key, request_object
from muster.registration.drivers.kubeconfigs import KUBECONFIGS, hub_kubeconfig
from muster.registration.hub.clusters.rbac import AgentSubjects, own_binding, own_role
from muster.registration.hub.install import BOOTSTRAP_GROUP
from muster.registration.names import AGENT_NAMESPACE, AgentIdentity
from muster.runtime.client.builtin import SECRETS, SIGNING_REQUESTS
from tests.unit.cli.clusteradm.conftest import AVAILABLE, PLAIN, Fleet


@dataclass
class Joining:
    """A hub that has been initialized, and a cluster that is to join it."""

    fleet: Fleet
    token: str
    server: str
    digest: str
    cluster: str = PLAIN

    @property
    def flags(self) -> list[str]:
        """All but the name, as init prints them."""
        return ["--hub-token", self.token, "--hub-apiserver", self.server, "--hub-ca-hash", self.digest]

    async def ok(self, *flags: str, name: str = "cluster1") -> str:
        return await self.fleet.ok("join", *self.flags, "--cluster-name", name, *flags, context=self.cluster)

    async def fails(self, *flags: str, name: str = "cluster1", code: int = 1) -> str:
        return await self.fleet.fails("join", *self.flags, "--cluster-name", name, *flags, context=self.cluster, code=code)

    async def klusterlet(self, name: str = "klusterlet") -> Object:
        return await self.fleet.admin(self.cluster).get(KLUSTERLETS, name)

    async def secret(self, name: str, namespace: str = AGENT_NAMESPACE) -> dict[str, str]:
        found = await self.fleet.admin(self.cluster).get(SECRETS, name, namespace)
        return {key: base64.b64decode(value).decode() for key, value in found["data"].items()}

    async def bootstrap(self, namespace: str = AGENT_NAMESPACE) -> dict[str, Any]:
        return dict(yaml.safe_load((await self.secret("bootstrap-hub-kubeconfig", namespace))["kubeconfig"]))

    async def enter(self, name: str = "cluster1") -> None:
        """What the agent and the hub's controller would do: there is a ManagedCluster, a credential, and what it may do."""
        fleet, key = self.fleet, new_key()
        await fleet.cluster(name, spec={"hubAcceptsClient": True}, status={"conditions": AVAILABLE})
        for wanted in (own_role(name, {}, accepted=True), own_binding(name, {}, AgentSubjects(by_group=True))):
            await fleet.admin().apply(wanted.resource, wanted.body, manager="test")
        await fleet.user(NEWCOMER).create(SIGNING_REQUESTS, request_object(name, agent_profile(AgentIdentity(name, "agent1")), key))
        csr = await fleet.admin().get(SIGNING_REQUESTS, name)
        csr["status"] = {"conditions": [{"type": "Approved", "status": "True", "reason": "Test", "message": ""}]}
        await fleet.admin().update(SIGNING_REQUESTS, csr, subresource="approval")
        await fleet.until(lambda: fleet.signed(name))
        certificate = (await fleet.admin().get(SIGNING_REQUESTS, name))["status"]["certificate"]
        address = KUBECONFIGS.read(fleet.kubeconfig, yaml.safe_dump(await self.bootstrap()).encode()).address
        content = {
            "cluster-name": name.encode(),
            "agent-name": b"agent1",
            "kubeconfig": hub_kubeconfig(address, {"client-certificate": "tls.crt", "client-key": "tls.key"}),
            "tls.key": key,
        }
        data = {field: base64.b64encode(value).decode() for field, value in content.items()} | {"tls.crt": certificate}
        secret = {"metadata": {"name": "hub-kubeconfig-secret", "namespace": AGENT_NAMESPACE}, "data": data}
        await fleet.admin(self.cluster).create(SECRETS, secret, AGENT_NAMESPACE)


NEWCOMER = UserInfo(BOOTSTRAP_USERS[0], groups=("system:bootstrappers", BOOTSTRAP_GROUP, "system:authenticated"))
