"""`clusteradm` and a hub that is reached over gRPC: tokens for one name, joining without the hub's API server, and its proof."""

from __future__ import annotations

import base64
import json
import re
import shlex
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from muster.administration.hub.authority import AUTHORITY_MAP
from muster.administration.hubs import HubAddress, cluster_info
from muster.kube.certificates import SERVER_AUTH, CertificateAuthority
from muster.machinery.authentication import UserInfo
from muster.machinery.clock import SYSTEM
from muster.operator.names import CLUSTER_MANAGERS, KLUSTERLETS
from muster.registration.hub.install import bound_permissions
from muster.registration.kinds import MANAGED_CLUSTERS
from muster.registration.names import AGENT_NAMESPACE, HUB_NAMESPACE
from muster.runtime.client.builtin import SECRETS, SERVICES
from tests.support.processes import free_ports
from tests.support.proxy import Proxy
from tests.unit.cli.clusteradm.conftest import AVAILABLE, PLAIN, Fleet
from tests.unit.cli.clusteradm.grpc_hub import ACCOUNT, Hub, hub, pretender
from tests.unit.cli.clusteradm.joining import Joining
from tests.unit.cli.clusteradm.test_accept import MARKED, ask_over_grpc

__all__ = ["hub"]


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
    assert "--cluster-name: only tokens for a gRPC server are bound" in complaint
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


async def expose(hub: Hub, kind: str, host: str = "") -> None:
    exposure = {"type": kind, **({kind: {"host": host}} if host else {})}
    server = {"endpointsExposure": [{"protocol": "grpc", "grpc": exposure}]}
    await hub.fleet.admin().patch(CLUSTER_MANAGERS, "cluster-manager", {"spec": {"serverConfiguration": server}})


async def balance(hub: Hub, *ingress: dict[str, str]) -> None:
    """As the hub's operator makes the Service, and a cloud's controller gives it addresses."""
    port = {"name": "https", "port": 443, "targetPort": 8090, "protocol": "TCP"}
    metadata = {"name": "cluster-manager-grpc-server", "namespace": HUB_NAMESPACE}
    await hub.fleet.admin().apply(
        SERVICES, {"metadata": metadata, "spec": {"type": "LoadBalancer", "ports": [port]}}, manager="test"
    )
    status = {"status": {"loadBalancer": {"ingress": list(ingress)}}}
    await hub.fleet.admin().patch(SERVICES, metadata["name"], status, HUB_NAMESPACE, subresource="status")


@pytest.mark.parametrize(
    ("ingress", "address"),
    [
        ({"ip": "192.0.2.7"}, "192.0.2.7:443"),
        ({"hostname": "lb.example.com"}, "lb.example.com:443"),
        ({"ip": "2001:db8::7"}, "[2001:db8::7]:443"),
    ],
)
async def test_a_load_balancers_address_is_in_the_command(hub: Hub, ingress: dict[str, str], address: str) -> None:
    await hub.publish()
    await expose(hub, "loadBalancer")
    await balance(hub, ingress)
    (command,) = re.findall(r"clusteradm (join .*)", await hub.fleet.ok("get", "token", "--cluster-name", "cluster1"))
    words = shlex.split(command)
    assert words[words.index("--grpc-server") + 1] == address
    assert words[words.index("--grpc-ca-hash") + 1] == hub.digest
    assert (await hub.token())["grpc-server"] == address


async def test_while_a_load_balancer_has_no_address_the_command_says_so(hub: Hub) -> None:
    await hub.publish()
    await expose(hub, "loadBalancer")
    for there in (False, True):
        if there:
            await balance(hub)
        said = await hub.fleet.ok("get", "token", "--cluster-name", "cluster1")
        assert "--grpc-server <grpc_server>" in said
        assert f"<grpc_server> is not known yet: Service {HUB_NAMESPACE}/cluster-manager-grpc-server has got no address" in said
        assert "run get token again" in said
    machine = await hub.fleet.run("get", "token", "-o", "json")
    assert "grpc-server" not in json.loads(machine.stdout)
    assert "has got no address" in machine.stderr


async def test_who_makes_a_hub_behind_a_load_balancer_is_told_when_to_ask_again(fleet: Fleet) -> None:
    words = ["init", "--force", "--registration-drivers=csr,grpc", "--grpc-endpoint-type=loadBalancer"]
    said = await fleet.ok(*words)
    assert "--registration-auth grpc --grpc-server <grpc_server>" in said
    assert (
        "run get token again once kubectl -n open-cluster-management-hub get service cluster-manager-grpc-server shows one" in said
    )
    machine = await fleet.run(*words, "-o", "json")
    assert "grpc-server" not in json.loads(machine.stdout)
    assert "<grpc_server> is not known yet" in machine.stderr


async def test_a_name_of_the_administrators_for_the_load_balancer_goes_before_its_address(hub: Hub) -> None:
    await expose(hub, "loadBalancer", "grpc.example.com")
    await balance(hub, {"ip": "192.0.2.7"})
    assert (await hub.token())["grpc-server"] == "grpc.example.com"


async def test_a_routes_host_is_in_the_command_and_what_another_type_has_left_is_not(hub: Hub) -> None:
    await expose(hub, "route", "grpc.apps.example.com")
    exposure = {"type": "route", "route": {"host": "grpc.apps.example.com"}, "hostname": {"host": "old.example.com:8090"}}
    server = {"endpointsExposure": [{"protocol": "grpc", "grpc": exposure}]}
    await hub.fleet.admin().patch(CLUSTER_MANAGERS, "cluster-manager", {"spec": {"serverConfiguration": server}})
    assert (await hub.token())["grpc-server"] == "grpc.apps.example.com"


async def test_where_nobody_says_the_address_the_command_asks_for_it(hub: Hub) -> None:
    change = {"spec": {"serverConfiguration": None}}
    await hub.fleet.admin().patch(CLUSTER_MANAGERS, "cluster-manager", change)
    assert "run init --grpc-server HOST:PORT" in await hub.fleet.ok("get", "token")


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


async def test_a_cluster_of_another_driver_moves_without_force(hub: Hub) -> None:
    """What its agents hold leads to the very ManagedCluster whose name is asked for."""
    told = await hub.token()
    for resource, document in cluster_info(HubAddress(told["hub-apiserver"], hub.fleet.server.ca_pem)):
        await hub.fleet.admin().apply(resource, document, manager="test")
    joining = Joining(hub.fleet, told["hub-token"], told["hub-apiserver"], told["hub-ca-hash"])
    await joining.ok()
    await joining.enter()
    over_grpc = hub.proved(told["hub-token"])
    for _ in range(2):
        await hub.fleet.ok(*over_grpc, context=PLAIN)
    klusterlet = await joining.klusterlet()
    assert klusterlet["spec"]["registrationConfiguration"]["registrationDriver"] == {"authType": "grpc"}
    await joining.ok()
    other = CertificateAuthority.create("another", SYSTEM.now()).issue("x", SYSTEM.now(), timedelta(hours=1))
    stolen = {"tls.crt": base64.b64encode(other.certificate).decode(), "tls.key": base64.b64encode(other.key).decode()}
    await hub.fleet.admin(PLAIN).patch(SECRETS, "hub-kubeconfig-secret", {"data": stolen}, AGENT_NAMESPACE)
    assert "cluster1 has joined the hub and is alive" in await hub.fleet.fails(*over_grpc, context=PLAIN)


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
    other = CertificateAuthority.create("signer", SYSTEM.now())
    pair = other.issue("server", SYSTEM.now(), timedelta(hours=1), usages=(SERVER_AUTH,), hosts=("127.0.0.1",))
    with pretender(hub, pair) as (address, heard):
        words = [address if one == hub.address else one for one in hub.proved(token)]
        complaint = await hub.fleet.fails(*words, context=PLAIN)
    assert "--grpc-server" in complaint
    assert token.encode() not in b"".join(heard)
    assert await hub.untouched()


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (["--grpc-ca-hash", "md5:abc"], "--grpc-ca-hash: 'md5:abc' is not sha256:"),
        (["--grpc-server", "https://hub/x"], "--grpc-server: 'https://hub/x' leads nowhere"),
        (["--proxy-url", "socks5://proxy:1080"], "--proxy-url: 'socks5://proxy:1080' is not an http or https URL"),
        (["--proxy-url", "http://127.0.0.1:1"], "the proxy 127.0.0.1:1: connection refused"),
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


# Through a proxy


async def test_the_proxy_is_gone_through_and_told_to_the_agents(hub: Hub) -> None:
    token = (await hub.token())["hub-token"]
    (nobody,) = free_ports(1)
    address = f"127.0.0.1:{nobody}"
    with Proxy({address: hub.address}) as proxy:
        words = [address if one == hub.address else one for one in hub.proved(token)]
        await hub.fleet.ok(*words, "--proxy-url", proxy.url, context=PLAIN)
        assert set(proxy.asked) == {address}
        assert len(proxy.asked) > 1, "for the certificates, and for the questions"
    config = await hub.config()
    assert (config["url"], config["proxyURL"]) == (address, proxy.url)
    assert "proxyCAData" not in config
    klusterlet = await hub.fleet.admin(PLAIN).get(KLUSTERLETS, "klusterlet")
    assert proxy.url not in json.dumps(klusterlet), "it may have a password in it"


async def test_a_proxys_authority_needs_a_proxy_and_a_certificate(hub: Hub) -> None:
    words = hub.proved((await hub.token())["hub-token"])
    file = hub.pem(hub.authority.pem)
    assert "--proxy-ca-file: there is no proxy" in await hub.fleet.fails(*words, "--proxy-ca-file", file, context=PLAIN)
    flags = ["--proxy-url", "https://127.0.0.1:1", "--proxy-ca-file", hub.pem(b"rubbish")]
    assert "--proxy-ca-file: there is no certificate in it" in await hub.fleet.fails(*words, *flags, context=PLAIN)
    assert await hub.untouched()


# Dry runs and files


async def test_a_dry_run_writes_what_it_would_apply_to_a_file(hub: Hub, tmp_path: Path) -> None:
    token = (await hub.token())["hub-token"]
    file = tmp_path / "all.yaml"
    before = await hub.fleet.revision(PLAIN)
    await hub.fleet.ok(*hub.proved(token), "--dry-run", "--output-file", str(file), context=PLAIN)
    assert await hub.fleet.revision(PLAIN) == before
    written = {one["kind"]: one for one in yaml.safe_load_all(file.read_text())}
    assert set(written["Secret"]["data"]) == {"config.yaml"}
    assert written["Klusterlet"]["spec"]["registrationConfiguration"]["registrationDriver"] == {"authType": "grpc"}


# Leaving


async def left(hub: Hub, cluster: str = "cluster1") -> list[bool]:
    """Whether what lets this cluster alone in is there."""
    wanted = [(resource, document["metadata"]) for resource, document in bound_permissions(cluster)]
    return [await hub.fleet.find(one, meta["name"], meta.get("namespace", "")) is not None for one, meta in wanted]


async def joined_by_bound_token(hub: Hub) -> None:
    token = (await hub.token("--cluster-name", "cluster1"))["hub-token"]
    await hub.token("--cluster-name", "cluster2")
    await hub.fleet.ok(*hub.proved(token), context=PLAIN)
    await hub.fleet.cluster("cluster1", metadata=MARKED)


async def test_with_the_cluster_goes_what_its_tokens_were_good_for(hub: Hub) -> None:
    await joined_by_bound_token(hub)
    words = ["unjoin", "--cluster-name", "cluster1", "--hub-context", "hub"]
    before = (await hub.fleet.revision(PLAIN), await hub.fleet.revision())
    said = await hub.fleet.ok(*words, "--dry-run", context=PLAIN)
    assert "would delete serviceaccounts open-cluster-management/agent-registration-bootstrap-cluster1" in said
    assert "Tokens for cluster1 alone would be good for nothing any more" in said
    assert (await hub.fleet.revision(PLAIN), await hub.fleet.revision()) == before
    assert "Tokens for cluster1 alone are good for nothing any more" in await hub.fleet.ok(*words, context=PLAIN)
    assert await left(hub) == [False] * 3
    assert await left(hub, "cluster2") == [True] * 3


async def test_who_may_not_take_tokens_back_says_who_can(hub: Hub) -> None:
    await joined_by_bound_token(hub)
    for flags in (["--dry-run"], []):
        said = await hub.fleet.ok("unjoin", "--cluster-name", "cluster1", *flags, context=PLAIN)
        assert "clusteradm delete token --cluster-name cluster1" in said
    assert await left(hub) == [True] * 3


async def test_tokens_that_are_good_for_every_cluster_are_nobodys_to_take_back(hub: Hub) -> None:
    await hub.fleet.ok(*hub.proved((await hub.token())["hub-token"]), context=PLAIN)
    assert "delete token" not in await hub.fleet.ok("unjoin", "--cluster-name", "cluster1", context=PLAIN)
