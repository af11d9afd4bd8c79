"""A cluster whose administrator and agents reach nothing of a hub but its gRPC server; each test goes on where the last one ended.

The hub's gRPC server runs as a process with the rights that its installation gives it. What the hub's operator would publish of it
is put there by hand, since nobody runs pods here. Where a cluster lives over gRPC, join was told an API server that is not
there, and an address of the gRPC server where nobody listens: a proxy alone knows the way from there, so whatever reaches the hub
has gone through the proxy.
"""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from tests.e2e.clusteradm.claims import shows
from tests.e2e.clusteradm.conftest import HUB, MANAGED, World, open_world
from tests.support.administrator import (
    AGENT_NAMESPACE,
    BOOTSTRAP_NAMESPACE,
    HUB_NAMESPACE,
    certificate_of,
    read_secret,
    service_account_token,
)
from tests.support.pki import Authority
from tests.support.planes import write_kubeconfig
from tests.support.processes import Server, free_ports
from tests.support.proxy import Proxy
from tests.support.registration import MUSTER, http_status

KLUSTERLET = "/apis/operator.open-cluster-management.io/v1/klusterlets/klusterlet"
SERVER = f"system:serviceaccount:{HUB_NAMESPACE}:grpc-server-sa"
SECRETS = f"/api/v1/namespaces/{HUB_NAMESPACE}"


@dataclass
class Site:
    world: World
    authority: Authority
    port: int
    proxy: Proxy
    proxy_ca: Path
    proxied: str
    """The server's address that the proxy alone can reach."""

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def token(self, *words: str) -> dict[str, str]:
        told: dict[str, str] = json.loads(self.world.ok("get", "token", "-o", "json", *words))
        return told

    def join(self, token: dict[str, str], name: str, *words: str, server: str = "") -> list[str]:
        flags = {"hub-token": token["hub-token"], "cluster-name": name, "registration-auth": "grpc"}
        flags["grpc-server"] = server or self.address
        return ["join", *(word for flag, value in flags.items() for word in (f"--{flag}", value)), *words]

    def bootstrap(self) -> dict[str, bytes]:
        return read_secret(self.world.managed.client(), AGENT_NAMESPACE, "bootstrap-hub-kubeconfig")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    directory = tmp_path_factory.mktemp("grpc")
    authority = Authority(directory, "signer")
    serving = authority.issue("grpc-server", hosts=("127.0.0.1",), file="serving")
    port, health, nobody = free_ports(3)
    proxies = Authority(directory, "proxies")
    flags = ("--enabled-registration-drivers=csr,grpc", f"--grpc-ca-file={authority.pair.cert}")
    with open_world(directory, *flags, f"--grpc-key-file={authority.pair.key}") as world:
        world.ok("init", "--registration-drivers", "csr,grpc", "--grpc-server", f"127.0.0.1:{port}")
        world.hub.install()
        world.hub.start()
        bundle = {"metadata": {"name": "ca-bundle-configmap"}, "data": {"ca-bundle.crt": authority.pair.cert.read_text()}}
        world.hub.admin.post(f"{SECRETS}/configmaps", bundle).expect(201)
        installed = [str(MUSTER), "grpc-server", "--kubeconfig", str(world.hub.cluster.kubeconfig), "--install-only"]
        subprocess.run(installed, check=True, capture_output=True, timeout=60)
        own = directory / "grpc-server.kubeconfig"
        token = service_account_token(world.hub.admin, HUB_NAMESPACE, "grpc-server-sa")
        write_kubeconfig(own, world.hub.cluster.url, world.hub.cluster.ca, {"token": token})
        files = {"tls_cert_file": serving.cert, "tls_key_file": serving.key, "client_ca_file": authority.pair.cert}
        config = directory / "grpc-server.yaml"
        config.write_text(yaml.safe_dump({key: str(path) for key, path in files.items()}))
        command: list[str | Path] = [
            MUSTER,
            "grpc-server",
            f"--kubeconfig={own}",
            f"--server-config={config}",
            "--bind-host=127.0.0.1",
        ]
        command += [f"--bind-port={port}", f"--health-port={health}"]
        server = Server("muster grpc-server", command, directory / "grpc-server.log")
        world.hub.servers.append(server)
        server.start()
        server.wait_until(lambda: http_status(health, "/readyz") == 200, 60)
        proxied = f"127.0.0.1:{nobody}"
        with Proxy({proxied: f"127.0.0.1:{port}"}, proxies.issue("proxy", hosts=("127.0.0.1",))) as proxy:
            yield Site(world, authority, port, proxy, proxies.pair.cert, proxied)


@shows("get token", "--cluster-name")
@shows("join", "--grpc-ca-hash", "--grpc-server", "--proxy-url", "--proxy-ca-file")
def test_a_token_for_one_cluster_joins_that_and_no_other(site: Site) -> None:
    token = site.token("--cluster-name", "remote")
    assert token["grpc-server"] == site.address
    proof = ["--grpc-ca-hash", token["grpc-ca-hash"]]
    before = site.world.objects(MANAGED)
    told = site.world.fails(*site.join(token, "other", *proof), context=MANAGED)
    assert "--hub-token: its holder may not introduce other" in told
    wrong = site.world.fails(*site.join(token, "remote", "--grpc-ca-hash", "sha256:" + "0" * 64), context=MANAGED)
    assert "no authority of the gRPC server" in wrong
    assert site.world.objects(MANAGED) == before
    (nobody,) = free_ports(1)
    far = site.join(token, "remote", *proof, "--hub-apiserver", f"https://127.0.0.1:{nobody}", server=site.proxied)
    assert "connection refused" in site.world.fails(*far, context=MANAGED)
    assert "certificate" in site.world.fails(*far, "--proxy-url", site.proxy.url, context=MANAGED), "who vouches for the proxy?"
    assert site.proxy.asked == []
    site.world.ok(*far, "--proxy-url", site.proxy.url, "--proxy-ca-file", str(site.proxy_ca), context=MANAGED)
    assert set(site.bootstrap()) == {"config.yaml"}
    config = yaml.safe_load(site.bootstrap()["config.yaml"])
    assert (config["url"], config["token"], config["proxyURL"]) == (site.proxied, token["hub-token"], site.proxy.url)
    assert base64.b64decode(config["caData"]).strip() == site.authority.pair.cert.read_bytes().strip()
    assert base64.b64decode(config["proxyCAData"]) == site.proxy_ca.read_bytes()


@shows("accept", "--grpc-server-account")
def test_its_agent_is_accepted_and_lives_over_grpc_alone(site: Site) -> None:
    world = site.world
    before = len(site.proxy.asked)
    world.operator("klusterlet", MANAGED)
    world.registration_agent()
    world.hub.wait(lambda: world.hub.requests("remote"), "the agent's request")
    told = world.fails("accept", "--clusters", "remote", "--grpc-server-account", "system:serviceaccount:other:server")
    assert "its requester is not authenticated as an agent" in told
    world.ok("accept", "--clusters", "remote", "--wait", "--grpc-server-account", SERVER, context=HUB)
    world.hub.wait_available("remote", timeout=60)
    (request,) = world.hub.requests("remote")
    assert request["spec"]["signerName"] == "open-cluster-management.io/grpc"
    asked_by = request["metadata"]["annotations"]["open-cluster-management.io/csr-user"]
    assert asked_by == "system:serviceaccount:open-cluster-management:agent-registration-bootstrap-remote"
    assert certificate_of(request)
    own = read_secret(world.managed.client(), AGENT_NAMESPACE, "hub-kubeconfig-secret")
    assert "kubeconfig" not in own
    config = yaml.safe_load(own["config.yaml"])
    assert (config["url"], config["proxyURL"]) == (site.proxied, site.proxy.url)
    assert set(site.proxy.asked[before:]) == {site.proxied}
    api = world.hub.cluster.url.split("://")[1].split("/")[0].encode()
    assert not [key for key, value in (own | site.bootstrap()).items() if api in value]


def test_its_operator_sees_the_connection_through_the_proxy(site: Site) -> None:
    def connected() -> bool:
        found = site.world.managed.client().get(KLUSTERLET).expect(200)
        conditions = (found.get("status") or {}).get("conditions") or ()
        return any(one["type"] == "HubConnectionDegraded" and one["status"] == "False" for one in conditions)

    site.world.hub.wait(connected, "the Klusterlet says that the hub is reached")


def test_a_dry_run_of_leaving_says_what_would_stay_on_the_hub(site: Site) -> None:
    before = len(site.proxy.asked)
    said = site.world.ok("unjoin", "--cluster-name", "remote", "--dry-run", context=MANAGED)
    assert "would update managedclusters.cluster.open-cluster-management.io remote" in said
    assert "would delete klusterlets" in said
    assert "left: ManagedCluster remote stays on the hub, denied" in said
    assert "clusteradm delete token --cluster-name remote" in said
    assert set(site.proxy.asked[before:]) == {site.proxied}, "the hub was asked, through the proxy"
    assert (site.world.hub.find("remote") or {})["spec"]["hubAcceptsClient"] is True


@shows("delete token", "--cluster-name")
def test_tokens_of_one_cluster_can_be_taken_back(site: Site) -> None:
    token = site.token("--cluster-name", "late")
    proof = ["--grpc-ca-hash", token["grpc-ca-hash"], "--dry-run"]
    site.world.ok("delete", "token", "--cluster-name", "late")

    def refused() -> bool:
        done = site.world.run(*site.join(token, "late", *proof), context=HUB)
        return done.exit_code == 1 and "--hub-token: " in done.output

    site.world.hub.wait(refused, "the token is good for nothing")


@shows("join", "--bootstrap-kubeconfig")
def test_a_way_to_the_api_server_is_given_only_to_who_asks_for_one(site: Site) -> None:
    access = site.token()
    api = ["--hub-apiserver", access["hub-apiserver"], "--hub-ca-hash", access["hub-ca-hash"]]
    proof = ["--grpc-ca-hash", access["grpc-ca-hash"], "--force"]
    site.world.ok(*site.join(access, "remote", *proof, *api, "--bootstrap-kubeconfig"), context=MANAGED)
    assert set(site.bootstrap()) == {"config.yaml", "kubeconfig"}
    site.world.ok(*site.join(access, "remote", *proof), context=MANAGED)
    assert set(site.bootstrap()) == {"config.yaml"}


@shows("unjoin", "--hub-context")
def test_with_an_administrators_way_to_the_hub_nothing_is_left_there(site: Site) -> None:
    account = f"/api/v1/namespaces/{BOOTSTRAP_NAMESPACE}/serviceaccounts/agent-registration-bootstrap-remote"
    site.world.hub.admin.get(account).expect(200)
    said = site.world.ok("unjoin", "--cluster-name", "remote", "--hub-context", HUB, "--timeout", "60", context=MANAGED)
    assert "ManagedCluster remote is deleted on the hub" in said
    assert "Tokens for remote alone are good for nothing any more" in said
    assert "left:" not in said
    site.world.hub.admin.get(account).expect(404)
