"""A hub's kubeconfig as the way to its clusters, and what is needed for it: nothing but ourselves."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from muster.gateway.client import Gateway, GatewayApi, NoCluster, using_cluster
from muster.kube import yaml
from muster.runtime.client import AuthInfo, ClientConfig, KubeconfigError
from tests.support.https_server import Answer, HttpsServer, Received

PREFIX = "/apis/proxy.open-cluster-management.io/v1alpha1/clustergateways"
USER = {"tokenFile": "/run/token", "exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "get-token"}}


def hub(server: str = "https://hub.example.com:6443", **user: Any) -> dict[str, Any]:
    cluster = {"server": server, "certificate-authority-data": "UEVN", "tls-server-name": "kubernetes"}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "admin@hub",
        "clusters": [{"name": "hub", "cluster": cluster}, {"name": "other", "cluster": {"server": "https://other"}}],
        "users": [{"name": "admin", "user": user or USER}, {"name": "nobody", "user": {"token": "another's"}}],
        "contexts": [
            {"name": "admin@hub", "context": {"cluster": "hub", "user": "admin", "namespace": "of-the-hub"}},
            {"name": "other", "context": {"cluster": "other", "user": "nobody"}},
        ],
    }


def test_a_clusters_kubeconfig_is_the_hubs_with_another_address() -> None:
    assert Gateway.from_kubeconfig(hub()).kubeconfig_for("foo", namespace="web") == {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "foo",
        "clusters": [
            {
                "name": "foo",
                "cluster": {
                    "server": f"https://hub.example.com:6443{PREFIX}/foo/proxy",
                    "certificate-authority-data": "UEVN",
                    "tls-server-name": "kubernetes",
                },
            }
        ],
        "users": [{"name": "admin", "user": USER}],
        "contexts": [{"name": "foo", "context": {"cluster": "foo", "user": "admin", "namespace": "web"}}],
    }


def test_many_clusters_share_the_hubs_user() -> None:
    found = Gateway.from_kubeconfig(hub()).kubeconfig(["foo", "bar"], prefix="hub-")
    assert [one["name"] for one in found["contexts"]] == [one["name"] for one in found["clusters"]] == ["hub-foo", "hub-bar"]
    assert [one["context"] for one in found["contexts"]] == [{"cluster": f"hub-{name}", "user": "admin"} for name in ("foo", "bar")]
    assert [one["name"] for one in found["users"]] == ["admin"]
    assert found["current-context"] == "hub-foo"


def test_context_address_and_api_can_be_chosen(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(yaml.dump(hub()))
    gateway = Gateway.from_kubeconfig(path, "other", api=GatewayApi(version="v1beta1"), hub_server="https://outside/base/")
    assert gateway.hub_url == "https://outside/base"
    assert gateway.base_url("foo").startswith("https://outside/base/apis/proxy.open-cluster-management.io/v1beta1/")
    assert gateway.config_for("foo").identity.token == "another's"
    assert "another" not in repr(gateway)


def test_what_a_caller_does_with_a_document_changes_nothing() -> None:
    document = hub()
    gateway = Gateway.from_kubeconfig(document)
    gateway.kubeconfig_for("foo")["users"][0]["user"]["token"] = "x"
    gateway.hub_kubeconfig["clusters"].clear()
    assert gateway.kubeconfig_for("foo")["users"][0]["user"] == USER
    assert document == hub()


@pytest.mark.parametrize(
    ("document", "context", "complaint"),
    [
        (hub(), "nowhere", "'nowhere' does not exist"),
        ({**hub(), "current-context": ""}, "", "current-context: not set"),
    ],
)
def test_kubeconfigs_that_lead_nowhere_are_refused_by_field(document: dict[str, Any], context: str, complaint: str) -> None:
    with pytest.raises(KubeconfigError, match=complaint):
        Gateway.from_kubeconfig(document, context)


def test_a_hub_without_an_address_is_refused() -> None:
    with pytest.raises(ValueError, match="hub_url"):
        Gateway.from_kubeconfig(hub(server=""))


def test_a_pods_own_account_is_referred_to_and_not_copied(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("secret")
    gateway = Gateway.from_config(ClientConfig("https://10.0.0.1:443", b"PEM", identity=AuthInfo(token_file=token)))
    assert gateway.kubeconfig_for("foo")["users"] == [{"name": "hub", "user": {"tokenFile": str(token)}}]


def test_importing_it_needs_no_server_and_no_library() -> None:
    program = """
import sys
unwanted = {"kubernetes", "kubernetes_asyncio", "kr8s", "lightkube", "httpx", "httpx2", "requests", "aiohttp", "uvloop", "click"}
class Refuse:
    def find_spec(self, name, *rest):
        if name.partition(".")[0] in unwanted:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Refuse())
import muster.gateway.client as client
gateway = client.Gateway.from_kubeconfig({"current-context": "c", "clusters": [{"name": "c", "cluster": {"server": "https://hub"}}],
    "contexts": [{"name": "c", "context": {"cluster": "c"}}]})
servers = [name for name in sys.modules if name.startswith(("muster.apiserver", "muster.store", "muster.operator", "muster.work"))]
assert not servers, servers
for method in ("kubernetes", "dynamic", "kr8s", "lightkube", "rest", "requests_session", "aiohttp_session", "httpx_transport"):
    try:
        getattr(gateway, method)("foo")
    except ImportError as error:
        print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    said = done.stdout.splitlines()
    assert len(said) == 8
    assert all("is not installed here: pip install " in line for line in said), said
    assert "kubernetes.config is not installed here: pip install kubernetes" in said


@pytest.fixture
def server() -> Iterator[HttpsServer]:
    def answer(request: Received) -> Answer:
        return Answer({"path": request.path})

    with HttpsServer(answer) as running:
        yield running


def through(server: HttpsServer) -> Gateway:
    document = hub(f"{server.url}/clusters/hub/", token="hub-token")
    document["clusters"][0]["cluster"] = {"server": f"{server.url}/clusters/hub/", "certificate-authority-data": server.ca_bundle}
    return Gateway.from_kubeconfig(document)


async def test_a_session_of_aiohttp_is_led_to_the_cluster_as_the_hubs_user(server: HttpsServer) -> None:
    gateway = through(server)
    async with gateway.aiohttp_session("foo") as session, session.post(f"{gateway.hub_url}/api/v1/pods", json={"a": 1}) as answer:
        assert answer.status == 200
    (asked,) = server.received
    assert (asked.method, asked.path) == ("POST", f"/clusters/hub{PREFIX}/foo/proxy/api/v1/pods")
    assert asked.headers["authorization"] == "Bearer hub-token"
    assert asked.json == {"a": 1}


async def test_a_retry_above_the_middleware_is_led_once_more_and_not_twice(server: HttpsServer) -> None:
    gateway, seen = through(server), []

    async def again(request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
        first = await handler(request)
        await first.read()
        seen.append(str(request.url))
        return await handler(request)

    connector = aiohttp.TCPConnector(ssl=False)
    middlewares = (again, gateway.aiohttp_middleware(fallback_to_hub=True))
    async with aiohttp.ClientSession(connector=connector, middlewares=middlewares) as session:
        with using_cluster("foo"):
            await session.get(f"{gateway.hub_url}/api/v1/pods?limit=1")
        await session.get(f"{gateway.hub_url}/version")
    led = f"/clusters/hub{PREFIX}/foo/proxy/api/v1/pods?limit=1"
    assert [one.path for one in server.received] == [led, led, "/clusters/hub/version", "/clusters/hub/version"]
    assert seen[0] == f"{gateway.hub_url}/api/v1/pods?limit=1"


async def test_without_a_cluster_nothing_is_sent(server: HttpsServer) -> None:
    gateway = through(server)
    async with gateway.aiohttp_session() as session:
        with pytest.raises(NoCluster):
            await session.get(f"{gateway.hub_url}/api/v1/secrets")
    assert server.received == []


async def test_our_own_client_reads_by_it(server: HttpsServer) -> None:
    client = through(server).client("foo")
    try:
        await client.raw("GET", "/healthz")
    finally:
        await client.close()
    assert server.received[0].path == f"/clusters/hub{PREFIX}/foo/proxy/healthz"


async def test_a_plugin_gives_the_token_to_blocking_and_other_clients(tmp_path: Path) -> None:
    plugin = tmp_path / "plugin"
    answer = '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"issued"}}'
    plugin.write_text(f"#!/bin/sh\necho '{answer}'\n")
    plugin.chmod(0o700)
    document = hub(exec={"apiVersion": "client.authentication.k8s.io/v1", "command": str(plugin), "interactiveMode": "Never"})
    del document["clusters"][0]["cluster"]["certificate-authority-data"]
    identity = Gateway.from_kubeconfig(document)._identity
    assert identity.headers_blocking() == await identity.headers() == [("Authorization", "Bearer issued")]
