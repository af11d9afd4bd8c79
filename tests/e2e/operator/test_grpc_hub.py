"""From nothing to a cluster managed over gRPC alone, whose pods a node runs: operators, hub, gRPC server and agents as themselves.

Agents are given the server's address, a token and the hub's bundle of authorities; nothing that they hold or may dial leads to the
hub's API server.
"""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding

from muster.administration.hub.tokens import account_token, ensure_bootstrap
from muster.administration.members.accept import AcceptOptions, accept
from muster.administration.members.requests import RequestFilter
from muster.api.agents import AgentIdentity
from muster.kube import yaml
from muster.kube.certificates import load_signing_key
from muster.machinery.objects import Object
from muster.operator.bundle import CLUSTER_MANAGER_OPERATOR, KLUSTERLET_OPERATOR
from muster.operator.names import CLUSTER_MANAGERS, EXTERNAL_HUB_SECRET, EXTERNAL_MANAGED_SECRET, KLUSTERLETS, OPERATOR_NAMESPACE
from muster.operator.pod_namespaces import allow, on_this_machine
from muster.registration.kinds import MANAGED_CLUSTERS
from muster.registration.names import AGENT_NAMESPACE, BOOTSTRAP_SECRET, HUB_NAMESPACE, HUB_SECRET
from muster.runtime.client import dump_kubeconfig
from muster.runtime.client.builtin import CONFIG_MAPS, DEPLOYMENTS, NAMESPACES, SECRETS
from muster.runtime.install import ensure_namespace
from muster.work.kinds import APPLIED_WORKS, MANIFEST_WORKS
from tests.e2e.operator.test_whole_managed_cluster import SECONDS, K, Managed, nothing_left
from tests.support.operating import Observed
from tests.support.sites import beside_kube, embedded_only, open_site, open_sites
from tests.support.stage import PODS, condition

pytestmark = pytest.mark.timeout(300)
CM = "cluster-manager"
SERVER = f"{CM}-grpc-server"
DRIVERS = {"registrationDrivers": [{"authType": "csr"}, {"authType": "grpc"}]}
GRPC = {"registrationDriver": {"authType": "grpc"}}


class GrpcManaged(Managed):
    """A hub whose gRPC server is known by its pod's address."""

    address = ""
    pod: Object

    async def begin(self) -> None:
        await self.hub.surround(CLUSTER_MANAGER_OPERATOR)
        await self.surround(KLUSTERLET_OPERATOR)
        await ensure_bootstrap(self.hub.admin)
        document = {"apiVersion": CLUSTER_MANAGERS.api_version, "kind": "ClusterManager", "metadata": {"name": CM}}
        await self.hub.admin.create(CLUSTER_MANAGERS, {**document, "spec": {"registrationConfiguration": DRIVERS}})
        await self.hub_says("GrpcServerDegraded", "False")
        await self.hub_says("HubRegistrationDegraded", "False")
        await self.expose()

    async def hub_says(self, kind: str, status: str) -> None:
        await self.hub.until_condition(CLUSTER_MANAGERS, CM, kind, status, "", SECONDS)

    async def expose(self) -> None:
        """By the address that the server's pod has: only now can anybody say it, so the certificate is made anew."""

        self.pod = await self.server_pod()
        self.address = str(self.pod["status"]["podIP"])
        exposure = {"type": "hostname", "hostname": {"host": f"{self.address}:8090"}}
        spec = {"serverConfiguration": {"endpointsExposure": [{"protocol": "grpc", "grpc": exposure}]}}
        await self.hub.admin.patch(CLUSTER_MANAGERS, CM, {"spec": spec})

        await self.hub.until(self.certified, "the certificate bears the address", SECONDS)

    async def certified(self) -> bool:
        names = (await self.serving()).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        return self.address in {str(one.value) for one in names}

    async def serving(self) -> x509.Certificate:
        """The server's certificate, as it is kept."""
        found = await self.hub.admin.get(SECRETS, "grpc-server-serving-cert", HUB_NAMESPACE)
        return x509.load_pem_x509_certificate(base64.b64decode(found["data"]["tls.crt"]))

    async def shown(self) -> x509.Certificate:
        """The certificate that it shows."""
        pem = await asyncio.to_thread(ssl.get_server_certificate, (self.address, 8090))
        return x509.load_pem_x509_certificate(pem.encode())

    async def server_pod(self) -> Object:
        async def ready() -> Object | None:
            pods = (await self.hub.admin.list(PODS, HUB_NAMESPACE)).items
            of_server = (one for one in pods if one["metadata"]["name"].startswith(SERVER))
            return next((one for one in of_server if condition(one, "Ready") == "True"), None)

        found: Object = await self.hub.until(ready, "the server's pod is ready", SECONDS)
        return found

    async def configure(self, text: str) -> None:
        """Another configuration, until another pod serves by it."""
        known = (await self.server_pod())["metadata"]["uid"]
        document = {"metadata": {"name": "grpc-server-config", "namespace": HUB_NAMESPACE}, "data": {"config.yaml": text}}
        await self.hub.admin.create(CONFIG_MAPS, document)

        async def replaced() -> bool:
            return bool((await self.server_pod())["metadata"]["uid"] != known)

        await self.hub.until(replaced, "another pod serves", SECONDS)

    async def age_authority(self) -> None:
        """Have the hub believe that its authority is old: the same name and key, begun long ago."""
        secret = await self.hub.admin.get(SECRETS, "signer-secret", HUB_NAMESPACE)
        pem, key = (base64.b64decode(secret["data"][name]) for name in ("tls.crt", "tls.key"))
        old, signing = x509.load_pem_x509_certificate(pem), load_signing_key(key)
        aged = x509.CertificateBuilder().subject_name(old.subject).issuer_name(old.subject).public_key(old.public_key())
        aged = aged.serial_number(7).not_valid_before(old.not_valid_before_utc - timedelta(days=25 * 365))
        aged = aged.not_valid_after(old.not_valid_after_utc)
        for extension in old.extensions:
            aged = aged.add_extension(extension.value, extension.critical)
        content = aged.sign(signing, hashes.SHA256()).public_bytes(Encoding.PEM)
        data = {"tls.crt": base64.b64encode(content).decode()}
        await self.hub.admin.patch(SECRETS, "signer-secret", {"data": data}, HUB_NAMESPACE)

    async def restart_agents(self) -> None:
        before = {one["metadata"]["uid"] for one in (await self.admin.list(PODS, AGENT_NAMESPACE)).items}
        for pod in (await self.admin.list(PODS, AGENT_NAMESPACE)).items:
            await self.admin.delete(PODS, pod["metadata"]["name"], AGENT_NAMESPACE)

        async def replaced() -> bool:
            pods = (await self.admin.list(PODS, AGENT_NAMESPACE)).items
            new = {one["metadata"]["uid"] for one in pods if condition(one, "Ready") == "True"}
            return len(new) == len(before) and not new & before

        await self.until(replaced, "other pods run the agents", SECONDS)

    async def config(self) -> str:
        bundle = (await self.hub.admin.get(CONFIG_MAPS, "ca-bundle-configmap", HUB_NAMESPACE))["data"]["ca-bundle.crt"]
        token = await account_token(self.hub.admin)
        ca = base64.b64encode(bundle.encode()).decode()
        return yaml.dump({"url": f"{self.address}:8090", "token": token, "caData": ca})

    async def introduce(self, namespace: str, *others: str) -> None:
        """Give agents what they introduce themselves with."""
        await ensure_namespace(self.admin, namespace)
        data = {"config.yaml": base64.b64encode((await self.config()).encode()).decode()}
        document = {"metadata": {"name": BOOTSTRAP_SECRET, "namespace": namespace}, "data": data}
        await self.admin.apply(SECRETS, document, manager="test-grpc")
        for one in (OPERATOR_NAMESPACE, namespace):
            await allow(self.admin, one, on_this_machine([f"https://{self.address}:8090", *others]))

    async def approved(self, cluster: str, key: str) -> None:
        """The request of the agent that is known already, by an administrator, until its Secret leads to the hub by this entry."""
        known = await self.admin.get(SECRETS, HUB_SECRET, AGENT_NAMESPACE)
        agent = AgentIdentity(cluster, base64.b64decode(known["data"]["agent-name"]).decode()).common_name

        async def led() -> bool:
            await accept(self.hub.admin, cluster, AcceptOptions(wanted=RequestFilter(requesters=(agent,))))
            secret = await self.find(SECRETS, HUB_SECRET, AGENT_NAMESPACE)
            return secret is not None and set(secret["data"]) & {"config.yaml", "kubeconfig"} == {key}

        await self.until(led, f"the agent's Secret has {key}", SECONDS)

    async def join_by_grpc(self, namespace: str, *others: str, **spec: Any) -> None:
        await self.introduce(namespace, *others)
        whole = {"apiVersion": KLUSTERLETS.api_version, "kind": "Klusterlet", "metadata": {"name": K}}
        await self.admin.create(KLUSTERLETS, {**whole, "spec": {**spec, "registrationConfiguration": GRPC}})


@pytest.fixture
async def managed(tmp_path: Path) -> AsyncIterator[GrpcManaged]:
    async with open_sites(tmp_path, "hub", "spoke") as (hub, spoke):
        made = GrpcManaged(spoke, hub)
        await made.begin()
        yield made


async def test_a_cluster_joins_and_works_and_removal_leaves_nothing(managed: GrpcManaged) -> None:
    await managed.join_by_grpc(AGENT_NAMESPACE)
    name = await managed.accepted()
    await managed.works(name)
    await managed.applies_works(name)
    secret = await managed.admin.get(SECRETS, HUB_SECRET, AGENT_NAMESPACE)
    assert "kubeconfig" not in secret["data"]
    config = yaml.load(base64.b64decode(secret["data"]["config.yaml"]))
    assert config["clientCertFile"] == "/spoke/hub-kubeconfig/tls.crt", "where upstream's work agents find it too"
    pod = await managed.server_pod()
    assert pod["metadata"]["uid"] == managed.pod["metadata"]["uid"], "it got another certificate and was not restarted"
    await managed.admin.delete(KLUSTERLETS, K)
    await managed.until_gone(KLUSTERLETS, K, seconds=SECONDS)
    assert await managed.find(NAMESPACES, AGENT_NAMESPACE) is None
    await managed.hub.admin.delete(CLUSTER_MANAGERS, CM)
    await managed.hub.until_gone(CLUSTER_MANAGERS, CM, seconds=SECONDS)
    assert await managed.hub.find(NAMESPACES, HUB_NAMESPACE) is None
    assert [one["metadata"]["namespace"] for one in (await managed.hub.admin.list(PODS)).items] == [OPERATOR_NAMESPACE]


@embedded_only
@beside_kube
async def test_one_agent_does_all_in_the_singleton_mode(managed: GrpcManaged) -> None:
    await managed.join_by_grpc(AGENT_NAMESPACE, clusterName="c1", deployOption={"mode": "Singleton"})
    await managed.works(await managed.accepted())
    await managed.applies_works("c1")


@pytest.mark.parametrize("mode", [pytest.param("Hosted", marks=beside_kube), pytest.param("SingletonHosted", marks=embedded_only)])
async def test_agents_manage_a_cluster_elsewhere(managed: GrpcManaged, tmp_path: Path, mode: str) -> None:
    async with open_site(tmp_path / "far") as far:
        await managed.secret(EXTERNAL_MANAGED_SECRET, K, dump_kubeconfig(far.config))
        await managed.join_by_grpc(K, far.config.server, clusterName="c1", deployOption={"mode": mode})
        await managed.works(await managed.accepted())
        await managed.applies_works("c1", far.admin)
        await managed.admin.delete(KLUSTERLETS, K)
        await managed.until_gone(KLUSTERLETS, K, seconds=SECONDS)
        assert await Observed(far.admin).find(NAMESPACES, AGENT_NAMESPACE) is None


@beside_kube
async def test_a_cluster_changes_to_grpc_and_back_and_keeps_its_workloads(managed: GrpcManaged) -> None:
    grace = {"appliedManifestWorkEvictionGracePeriod": "2s"}
    await managed.join(AGENT_NAMESPACE, clusterName="c1", workConfiguration=grace)
    await managed.works(await managed.accepted())
    where = await managed.work("c1")
    before = await identities(managed, where)
    await managed.introduce(AGENT_NAMESPACE)
    for driver, key in (("grpc", "config.yaml"), ("csr", "kubeconfig")):
        records = {one["metadata"]["name"] for one in (await where.admin.list(APPLIED_WORKS)).items}
        changed = {"registrationConfiguration": {"registrationDriver": {"authType": driver}}}
        await managed.admin.patch(KLUSTERLETS, K, {"spec": changed})
        await managed.approved("c1", key)
        await managed.works("c1")

        async def evicted(old: set[str] = records) -> bool:
            now = {one["metadata"]["name"] for one in (await where.admin.list(APPLIED_WORKS)).items}
            return bool(now) and not now & old

        await managed.until(evicted, "only a record of the other way is left", SECONDS)
        assert await identities(managed, where) == before
    await managed.hub.admin.delete(MANIFEST_WORKS, "hello", "c1")
    await managed.hub.until_gone(MANIFEST_WORKS, "hello", "c1", seconds=SECONDS)
    await nothing_left(where)


async def identities(managed: GrpcManaged, where: Observed) -> tuple[str, str]:
    """Of the cluster on its hub, and of what a work has made."""
    cluster = await managed.hub.admin.get(MANAGED_CLUSTERS, "c1")
    hello = await where.admin.get(CONFIG_MAPS, "hello", "default")
    return cluster["metadata"]["uid"], hello["metadata"]["uid"]


@embedded_only
@beside_kube
async def test_agents_follow_their_hub_to_another_authority(managed: GrpcManaged) -> None:
    await managed.join_by_grpc(AGENT_NAMESPACE, clusterName="c1")
    await managed.works(await managed.accepted())
    known = (await managed.serving()).issuer
    await managed.age_authority()

    async def succeeded() -> bool:
        kept = await managed.serving()
        return kept.issuer != known and await managed.shown() == kept

    await managed.until(succeeded, "the server shows what the new authority signed", SECONDS)
    await managed.restart_agents()
    await managed.applies_works("c1")
    await managed.configure("max_connection_age: 30m")


@embedded_only
async def test_a_hosted_hub_has_its_server_serve_from_elsewhere(tmp_path: Path) -> None:
    async with open_sites(tmp_path, "hosting", "hub") as (hosting, hub):
        here, there = Observed(hosting.admin), Observed(hub.admin)
        await here.surround(CLUSTER_MANAGER_OPERATOR)
        webhooks = ("registrationWebhookConfiguration", "workWebhookConfiguration")
        option = {"mode": "Hosted", "hosted": {name: {"address": "webhooks.example.com"} for name in webhooks}}
        spec = {"deployOption": option, "registrationConfiguration": DRIVERS}
        document = {"apiVersion": CLUSTER_MANAGERS.api_version, "kind": "ClusterManager", "metadata": {"name": CM}, "spec": spec}
        await here.admin.create(CLUSTER_MANAGERS, document)
        await here.until_found(NAMESPACES, CM, seconds=SECONDS)
        for namespace in (OPERATOR_NAMESPACE, CM):
            await allow(here.admin, namespace, on_this_machine([hub.config.server]))
        data = {"kubeconfig": base64.b64encode(dump_kubeconfig(hub.config).encode()).decode()}
        await here.admin.apply(SECRETS, {"metadata": {"name": EXTERNAL_HUB_SECRET, "namespace": CM}, "data": data}, manager="test")
        await here.until_condition(CLUSTER_MANAGERS, CM, "GrpcServerDegraded", "False", "GrpcServerFunctional", SECONDS)
        assert await there.find(DEPLOYMENTS, SERVER, HUB_NAMESPACE) is None
        await here.admin.delete(CLUSTER_MANAGERS, CM)
        await here.until_gone(CLUSTER_MANAGERS, CM, seconds=SECONDS)
        assert await here.find(NAMESPACES, CM) is None
        assert await there.find(NAMESPACES, HUB_NAMESPACE) is None
