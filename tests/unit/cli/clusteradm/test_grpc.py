"""`clusteradm` and a hub that is reached over gRPC: tokens for one name, joining without the hub's API server, and its proof."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import shlex
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from muster.administration.hub.authority import AUTHORITY_MAP
from muster.kube.certificates import SERVER_AUTH, CertificateAuthority, fingerprint
from muster.machinery.authentication import UserInfo
from muster.machinery.clock import SYSTEM
from muster.operator.names import KLUSTERLETS
from muster.registration.hub.install import bound_permissions
from muster.registration.kinds import MANAGED_CLUSTERS
from muster.registration.names import AGENT_NAMESPACE, HUB_NAMESPACE
from muster.runtime.client.builtin import CONFIG_MAPS, CRDS, DEPLOYMENTS, SECRETS
from muster.transport.server.config import GrpcServerConfig
from muster.transport.server.server import GrpcServer, GrpcServerOptions
from tests.support.processes import free_ports
from tests.unit.cli.clusteradm.conftest import AVAILABLE, PLAIN, Fleet
from tests.unit.cli.clusteradm.test_accept import MARKED, ask_over_grpc

ACCOUNT = "system:serviceaccount:open-cluster-management:agent-registration-bootstrap"
SERVER = UserInfo(f"system:serviceaccount:{HUB_NAMESPACE}:grpc-server-sa", groups=("system:masters",))


@dataclass
class Hub:
    """With a gRPC server in this process."""

    fleet: Fleet
    authority: CertificateAuthority
    port: int
    directory: Path

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def digest(self) -> str:
        return fingerprint(self.authority.certificate.public_key())

    async def publish(self) -> None:
        """As the hub's operator does."""
        data = {"ca-bundle.crt": self.authority.pem.decode()}
        body = {"metadata": {"name": AUTHORITY_MAP, "namespace": HUB_NAMESPACE}, "data": data}
        await self.fleet.admin().create(CONFIG_MAPS, body, HUB_NAMESPACE)

    async def token(self, *flags: str) -> dict[str, str]:
        return dict(json.loads(await self.fleet.ok("get", "token", "-o", "json", *flags)))

    def words(self, token: str, name: str = "cluster1") -> list[str]:
        flags = ["--hub-token", token, "--cluster-name", name, "--registration-auth", "grpc", "--grpc-server", self.address]
        return ["join", *flags]

    def proved(self, token: str, name: str = "cluster1") -> list[str]:
        return [*self.words(token, name), "--grpc-ca-hash", self.digest]

    async def secret(self) -> dict[str, bytes]:
        found = await self.fleet.admin(PLAIN).get(SECRETS, "bootstrap-hub-kubeconfig", AGENT_NAMESPACE)
        return {key: base64.b64decode(value) for key, value in found["data"].items()}

    async def config(self) -> dict[str, Any]:
        return dict(yaml.safe_load((await self.secret())["config.yaml"]))

    async def untouched(self) -> bool:
        return await self.fleet.find(CRDS, "klusterlets.operator.open-cluster-management.io", "", PLAIN) is None

    def pem(self, content: bytes) -> str:
        path = self.directory / "authority.crt"
        path.write_bytes(content)
        return str(path)


@pytest.fixture
async def hub(fleet: Fleet, tmp_path: Path) -> AsyncIterator[Hub]:
    """One authority for server and agents, as upstream's operator makes it: then the server presents it."""
    authority = CertificateAuthority.create("signer", SYSTEM.now())
    pair = authority.issue("server", SYSTEM.now(), timedelta(hours=1), usages=(SERVER_AUTH,), hosts=("127.0.0.1",))
    files = {"tls.crt": pair.certificate, "tls.key": pair.key, "ca.crt": authority.pem}
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    cert, key, client_ca = (str(tmp_path / name) for name in files)
    config = GrpcServerConfig(cert, key, client_ca, server_bind_port=0)
    server = GrpcServer(fleet.user(SERVER), GrpcServerOptions(config, "127.0.0.1"))
    await server.start()
    running = asyncio.create_task(server.run())
    await server.synced()
    await fleet.ok("init", "--force", "--registration-drivers=csr,grpc", f"--grpc-server=127.0.0.1:{server.port}")
    yield Hub(fleet, authority, server.port, tmp_path)
    await server.stop(grace=0.1)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


# Tokens


async def test_a_token_is_shown_with_both_ways_to_join(hub: Hub) -> None:
    await hub.publish()
    said = await hub.fleet.ok("get", "token")
    usual, over_grpc = re.findall(r"clusteradm (join .*)", said)
    assert "--hub-apiserver" in usual
    assert "--registration-auth" not in usual
    words = shlex.split(over_grpc)
    assert words[words.index("--grpc-server") + 1] == hub.address
    assert words[words.index("--grpc-ca-hash") + 1] == hub.digest
    assert "--hub-apiserver" not in words
    found = await hub.token()
    assert (found["grpc-server"], found["grpc-ca-hash"]) == (hub.address, hub.digest)


async def test_while_the_authority_is_not_published_the_api_server_has_to_tell_it(hub: Hub) -> None:
    *_, over_grpc = re.findall(r"clusteradm (join .*)", await hub.fleet.ok("get", "token"))
    assert "--hub-apiserver" in over_grpc
    assert "--grpc-ca-hash" not in over_grpc


async def test_a_token_for_one_cluster_is_good_for_no_other(hub: Hub) -> None:
    await hub.publish()
    said = await hub.fleet.ok("get", "token", "--cluster-name", "cluster1")
    (command,) = re.findall(r"clusteradm (join .*)", said)
    assert command.endswith("--cluster-name cluster1")
    words = shlex.split(command)
    bound = words[words.index("--hub-token") + 1]
    complaint = await hub.fleet.fails(*hub.proved(bound, "cluster2"), context=PLAIN)
    assert "--hub-token: its holder may not introduce cluster2; use one that get token --cluster-name cluster2 gives" in complaint
    assert await hub.untouched()
    assert "introduces itself to the hub by grpc" in await hub.fleet.ok(*words, context=PLAIN)


async def test_a_token_for_one_cluster_creates_none_at_the_api_server(hub: Hub) -> None:
    await hub.token("--cluster-name", "cluster1")
    agent = hub.fleet.user(
        UserInfo(f"{ACCOUNT}-cluster1", groups=("system:serviceaccounts:open-cluster-management", "system:authenticated"))
    )
    from muster.runtime.client import Forbidden

    for name in ("cluster1", "cluster2"):
        with pytest.raises(Forbidden):
            await agent.create(MANAGED_CLUSTERS, {"metadata": {"name": name}})


async def test_tokens_for_one_cluster_are_deleted_by_name_or_with_all(hub: Hub) -> None:
    async def left(cluster: str) -> list[bool]:
        wanted = bound_permissions(cluster)
        return [await there(resource, document["metadata"]) for resource, document in wanted]

    async def there(resource: Any, metadata: dict[str, Any]) -> bool:
        return await hub.fleet.find(resource, metadata["name"], metadata.get("namespace", "")) is not None

    for name in ("cluster1", "cluster2", "cluster3"):
        await hub.token("--cluster-name", name)
    assert await left("cluster1") == [True] * 3
    assert "cluster2" not in await hub.fleet.ok("delete", "token", "--cluster-name", "cluster1")
    assert await left("cluster1") == [False] * 3
    assert await left("cluster2") == [True] * 3
    await hub.token()
    await hub.fleet.ok("delete", "token")
    assert await left("cluster2") == await left("cluster3") == [False] * 3


async def test_a_dry_run_of_a_token_for_one_cluster_makes_nothing(hub: Hub) -> None:
    before = await hub.fleet.revision()
    said = await hub.fleet.ok("get", "token", "--cluster-name", "cluster1", "--dry-run")
    assert "--hub-token <token>" in said
    assert await hub.fleet.revision() == before


async def test_only_where_a_grpc_server_asks_for_names_can_a_token_be_bound_to_one(fleet: Fleet) -> None:
    await fleet.ok("init", "--force")
    complaint = await fleet.fails("get", "token", "--cluster-name", "cluster1")
    assert "--cluster-name: only the gRPC server can tell" in complaint
    assert "init --registration-drivers grpc" in complaint
    await fleet.fails("get", "token", "--cluster-name", "c", "--use-bootstrap-token", code=2)
    await fleet.ok("init", "--force", "--registration-drivers=grpc", "--grpc-server=hub:8090")
    assert "'Not_a_name' cannot name a cluster" in await fleet.fails("get", "token", "--cluster-name", "Not_a_name")


async def test_who_asks_with_a_token_for_one_cluster_is_a_newcomer_for_that_alone(hub: Hub) -> None:
    for name in ("cluster1", "cluster2"):
        await hub.fleet.cluster(name, metadata=MARKED)
    own = await ask_over_grpc(hub.fleet, "cluster1", user=f"{ACCOUNT}-cluster1")
    other = await ask_over_grpc(hub.fleet, "cluster2", user=f"{ACCOUNT}-cluster1")
    assert f"CSR {own} approved" in await hub.fleet.ok("accept", "--clusters", "cluster1")
    assert f"user '{ACCOUNT}-cluster1' is no bootstrap identity" in await hub.fleet.fails("accept", "--clusters", "cluster2")
    assert not await hub.fleet.approved(other)


# Joining


async def test_the_bootstrap_secret_leads_to_the_grpc_server_and_nowhere_else(hub: Hub) -> None:
    token = (await hub.token())["hub-token"]
    said = await hub.fleet.ok(*hub.proved(token), context=PLAIN)
    assert "clusteradm accept --clusters cluster1" in said
    assert token not in said
    assert set(await hub.secret()) == {"config.yaml"}
    config = await hub.config()
    assert (config["url"], config["token"]) == (hub.address, token)
    assert base64.b64decode(config["caData"]) == hub.authority.pem
    klusterlet = await hub.fleet.admin(PLAIN).get(KLUSTERLETS, "klusterlet")
    assert klusterlet["spec"]["registrationConfiguration"]["registrationDriver"] == {"authType": "grpc"}


async def test_nothing_dials_the_hubs_api_server(hub: Hub) -> None:
    """Whatever it is said to be: the gRPC server is asked whether it takes the token and whether the name is free."""
    token = (await hub.token())["hub-token"]
    (port,) = free_ports(1)
    nowhere = ["--hub-apiserver", f"https://127.0.0.1:{port}"]
    await hub.fleet.ok(*hub.proved(token), *nowhere, context=PLAIN)
    await hub.fleet.cluster("taken", metadata=MARKED, spec={"hubAcceptsClient": True}, status={"conditions": AVAILABLE})
    complaint = await hub.fleet.fails(*hub.proved(token, "taken"), "--force-internal-endpoint-lookup", context=PLAIN)
    assert "this cluster is managed already" in complaint


async def test_a_name_that_is_alive_on_the_hub_is_not_taken(hub: Hub) -> None:
    token = (await hub.token())["hub-token"]
    await hub.fleet.cluster("taken", metadata=MARKED, spec={"hubAcceptsClient": True}, status={"conditions": AVAILABLE})
    assert "taken has joined the hub and is alive" in await hub.fleet.fails(*hub.proved(token, "taken"), context=PLAIN)
    assert await hub.untouched()


async def test_the_authority_of_a_file_is_proof(hub: Hub) -> None:
    token = (await hub.token())["hub-token"]
    await hub.fleet.ok(*hub.words(token), "--grpc-ca-file", hub.pem(hub.authority.pem), context=PLAIN)
    assert base64.b64decode((await hub.config())["caData"]) == hub.authority.pem


async def test_the_api_server_tells_the_authority_where_nothing_else_does(hub: Hub) -> None:
    found = await hub.token()
    api = ["--hub-apiserver", found["hub-apiserver"], "--ca-file", hub.pem(hub.fleet.server.ca_pem)]
    complaint = await hub.fleet.fails(*hub.words(found["hub-token"]), *api, context=PLAIN)
    assert f"in ConfigMap {HUB_NAMESPACE}/{AUTHORITY_MAP}" in complaint
    assert "--grpc-ca-file" in complaint
    await hub.publish()
    await hub.fleet.ok(*hub.words(found["hub-token"]), *api, context=PLAIN)
    assert base64.b64decode((await hub.config())["caData"]) == hub.authority.pem
    assert set(await hub.secret()) == {"config.yaml"}


async def test_a_kubeconfig_is_beside_only_for_who_asks(hub: Hub) -> None:
    found = await hub.token()
    api = ["--hub-apiserver", found["hub-apiserver"], "--ca-file", hub.pem(hub.fleet.server.ca_pem)]
    assert "--bootstrap-kubeconfig: needs --hub-apiserver" in await hub.fleet.fails(
        *hub.proved(found["hub-token"]), "--bootstrap-kubeconfig", context=PLAIN
    )
    await hub.fleet.ok(*hub.proved(found["hub-token"]), *api, "--bootstrap-kubeconfig", context=PLAIN)
    way = yaml.safe_load((await hub.secret())["kubeconfig"])
    assert way["clusters"][0]["cluster"]["server"] == found["hub-apiserver"]
    assert (await hub.config())["url"] == hub.address


async def test_without_proof_the_token_stays_here(hub: Hub) -> None:
    token = (await hub.token())["hub-token"]
    complaint = await hub.fleet.fails(*hub.words(token), context=PLAIN)
    assert f"nothing proves that {hub.address} is the hub's gRPC server" in complaint
    assert "--grpc-ca-hash" in complaint
    wrong = await hub.fleet.fails(*hub.words(token), "--grpc-ca-hash", "sha256:" + "0" * 64, context=PLAIN)
    assert "--grpc-ca-hash: no authority of the gRPC server" in wrong
    assert await hub.untouched()


async def test_who_shows_the_authority_and_has_not_its_key_is_refused(hub: Hub) -> None:
    """The authority is public: somebody in between can present it behind a certificate of another."""
    token = (await hub.token())["hub-token"]
    with pretender(hub) as (address, heard):
        words = [address if one == hub.address else one for one in hub.proved(token)]
        complaint = await hub.fleet.fails(*words, context=PLAIN)
    assert "--grpc-server" in complaint
    assert token.encode() not in b"".join(heard)
    assert await hub.untouched()


@contextmanager
def pretender(hub: Hub) -> Iterator[tuple[str, list[bytes]]]:
    """A TLS server with a certificate of its own making, and the hub's authority behind it."""
    import socket
    import ssl
    import threading

    from muster.http.tls import HTTP_2, server_context

    other = CertificateAuthority.create("signer", SYSTEM.now())
    pair = other.issue("server", SYSTEM.now(), timedelta(hours=1), usages=(SERVER_AUTH,), hosts=("127.0.0.1",))
    context = server_context(pair.certificate + hub.authority.pem, pair.key, alpn=HTTP_2)
    heard: list[bytes] = []
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                plain, _ = listening.accept()
            except OSError:
                return
            try:
                with context.wrap_socket(plain, server_side=True) as secured:
                    secured.settimeout(5)
                    secured.sendall(b"\x00\x00\x00\x04\x00\x00\x00\x00\x00")
                    while data := secured.recv(65536):
                        heard.append(data)
            except (OSError, ssl.SSLError):
                continue

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield f"127.0.0.1:{listening.getsockname()[1]}", heard
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join(10)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (["--grpc-ca-hash", "md5:abc"], "--grpc-ca-hash: 'md5:abc' is not sha256:"),
        (["--grpc-server", "https://hub/x"], "--grpc-server: 'https://hub/x' leads nowhere"),
        (["--proxy-url", "http://proxy:3128"], "--proxy-url: agents that register by grpc do not read it"),
        (["--grpc-ca-file", "/nowhere"], "--grpc-ca-file /nowhere"),
        (["--hub-token", "rubbish"], "--hub-token: the hub does not accept this token"),
    ],
)
async def test_what_is_wrong_is_named_with_its_flag(hub: Hub, change: list[str], complaint: str) -> None:
    words = [*hub.proved((await hub.token())["hub-token"]), *change]
    assert complaint in await hub.fleet.fails(*words, context=PLAIN)
    assert await hub.untouched()


async def test_a_server_that_is_away_is_named(hub: Hub) -> None:
    token = (await hub.token())["hub-token"]
    (port,) = free_ports(1)
    words = [f"127.0.0.1:{port}" if one == hub.address else one for one in hub.proved(token)]
    assert f"--grpc-server: 127.0.0.1:{port}: connection refused" in await hub.fleet.fails(*words, context=PLAIN)
    file = [*words[: words.index("--grpc-ca-hash")], "--grpc-ca-file", hub.pem(hub.authority.pem)]
    assert "--grpc-server: " in await hub.fleet.fails(*file, context=PLAIN)
    assert await hub.untouched()
    await hub.fleet.ok(*file, "--force", context=PLAIN)


async def test_a_dry_run_of_joining_writes_nothing(hub: Hub) -> None:
    token = (await hub.token())["hub-token"]
    before = await hub.fleet.revision(PLAIN)
    said = await hub.fleet.ok(*hub.proved(token), "--dry-run", "--wait", context=PLAIN)
    assert f"would apply secrets {AGENT_NAMESPACE}/bootstrap-hub-kubeconfig" in said
    assert token not in said
    assert await hub.fleet.revision(PLAIN) == before


async def test_joining_again_changes_nothing(hub: Hub) -> None:
    token = (await hub.token())["hub-token"]
    await hub.fleet.ok(*hub.proved(token), context=PLAIN)
    before = await hub.fleet.revision(PLAIN)
    await hub.fleet.ok(*hub.proved(token), context=PLAIN)
    assert await hub.fleet.revision(PLAIN) == before


# Looking after it


async def doctor(hub: Hub) -> dict[str, str]:
    found = json.loads((await hub.fleet.run("doctor", "cluster1", "-o", "json")).stdout)["cluster1"]
    (one,) = (one for one in found if one["subject"] == "gRPC server")
    return dict(one)


async def deploy(hub: Hub) -> None:
    container = {"name": "server", "image": "muster"}
    template = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [container]}}
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": "x"}}, "template": template}
    metadata = {"name": "cluster-manager-grpc-server", "namespace": HUB_NAMESPACE}
    made = await hub.fleet.admin().apply(DEPLOYMENTS, {"metadata": metadata, "spec": spec}, manager="test")
    counts = dict.fromkeys(("replicas", "updatedReplicas", "readyReplicas", "availableReplicas"), 1)
    status = {"observedGeneration": made["metadata"]["generation"], **counts}
    await hub.fleet.admin().patch(DEPLOYMENTS, metadata["name"], {"status": status}, metadata["namespace"], subresource="status")


async def test_the_doctor_looks_for_the_server_that_agents_come_through(hub: Hub) -> None:
    assert "it is not there yet" in (await doctor(hub))["text"]
    await deploy(hub)
    assert AUTHORITY_MAP in (await doctor(hub))["text"], "nobody could tell who vouches for it"
    await hub.publish()
    found = await doctor(hub)
    assert found["verdict"] == "problem"
    assert "its certificate ends at" in found["text"], "in an hour, and nobody has renewed it"


async def test_the_doctor_tells_a_server_that_nobody_can_trust_or_reach(hub: Hub) -> None:
    await deploy(hub)
    other = CertificateAuthority.create("another", SYSTEM.now())
    hub.authority = other
    await hub.publish()
    assert "nobody can trust" in (await doctor(hub))["text"]
    (port,) = free_ports(1)
    await hub.fleet.ok("init", "--force", "--registration-drivers=csr,grpc", f"--grpc-server=127.0.0.1:{port}")
    assert "it cannot be reached from here" in (await doctor(hub))["text"]


async def test_the_doctor_says_nothing_of_a_server_that_nobody_wants(fleet: Fleet) -> None:
    await fleet.ok("init", "--force")
    found = json.loads((await fleet.run("doctor", "cluster1", "-o", "json")).stdout)["cluster1"]
    assert [one for one in found if one["subject"] == "gRPC server"] == []
    await fleet.cluster("cluster1", metadata=MARKED)
    found = json.loads((await fleet.run("doctor", "cluster1", "-o", "json")).stdout)["cluster1"]
    (one,) = (one for one in found if one["subject"] == "gRPC server")
    assert "the ClusterManager has no such driver" in one["text"]
