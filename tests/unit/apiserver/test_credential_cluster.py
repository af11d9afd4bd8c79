"""A path that names no cluster means the one whose credential the request shows, and never another one."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path
from urllib.request import urlopen

import orjson
import pytest

from muster.apiserver.adminkubeconfig import write_kubeconfig
from muster.apiserver.server import ApiServer
from tests.support.client import Client, Reply
from tests.support.kubectl import background, kubectl
from tests.support.planes import Cluster

CLUSTERS = ("default", "other")
MAP = "/api/v1/namespaces/default/configmaps"


async def mark(server: ApiServer) -> None:
    """Give each cluster a ConfigMap that says which it is."""
    for name in CLUSTERS:
        await server.client(server.clusters[name]).create(MAP, {"metadata": {"name": "mine"}, "data": {"cluster": name}})


async def certificate(server: ApiServer, name: str, directory: Path) -> tuple[Path, Path]:
    pair = await server.admin_credentials(server.clusters[name])
    cert, key = directory / f"{name}.crt", directory / f"{name}.key"
    cert.write_bytes(pair.certificate)
    key.write_bytes(pair.key)
    return cert, key


async def token(server: ApiServer, name: str) -> str:
    client = server.client(server.clusters[name])
    binding = {
        "metadata": {"name": "default-reads"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": "default"}],
    }
    await client.create("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding)
    request = {"spec": {"expirationSeconds": 3600}}
    made = await client.create("/api/v1/namespaces/default/serviceaccounts/default/token", request)
    found: str = made["status"]["token"]
    return found


async def ask(server: ApiServer, path: str, directory: Path, *, cert: tuple[Path, Path] | None = None, token: str = "") -> Reply:
    authority = directory / "ca.crt"
    authority.write_bytes(server.ca_pem)
    client = Client(f"https://127.0.0.1:{server.port}", ca=authority, certificate=cert, token=token or None)
    try:
        return await asyncio.to_thread(client.get, path)
    finally:
        client.close()


def shown(reply: Reply) -> str:
    cluster: str = reply.expect(200)["data"]["cluster"]
    return cluster


@pytest.mark.parametrize("name", CLUSTERS)
async def test_a_certificate_leads_to_the_cluster_that_signed_it(server: ApiServer, name: str, tmp_path: Path) -> None:
    await mark(server)
    cert = await certificate(server, name, tmp_path)
    assert shown(await ask(server, f"{MAP}/mine", tmp_path, cert=cert)) == name


@pytest.mark.parametrize("name", CLUSTERS)
async def test_a_token_leads_to_the_cluster_that_issued_it(server: ApiServer, name: str, tmp_path: Path) -> None:
    await mark(server)
    assert shown(await ask(server, f"{MAP}/mine", tmp_path, token=await token(server, name))) == name


async def test_a_path_that_names_a_cluster_is_for_that_one(server: ApiServer, tmp_path: Path) -> None:
    cert = await certificate(server, "other", tmp_path)
    assert (await ask(server, f"/clusters/default{MAP}", tmp_path, cert=cert)).status == 401
    assert (await ask(server, f"/clusters/default{MAP}", tmp_path, token=await token(server, "other"))).status == 401


async def test_a_token_that_only_says_where_it_is_from_is_refused_there(server: ApiServer, tmp_path: Path) -> None:
    head, _, signature = (await token(server, "other")).split(".")
    claims = {"iss": server.cluster_url("default"), "sub": "system:serviceaccount:default:default", "exp": 2**40}
    forged = base64.urlsafe_b64encode(orjson.dumps(claims)).rstrip(b"=").decode()
    assert (await ask(server, MAP, tmp_path, token=f"{head}.{forged}.{signature}")).status == 401


async def test_a_token_of_one_cluster_does_not_follow_a_certificate_of_another(server: ApiServer, tmp_path: Path) -> None:
    """The certificate says who asks, as it does where the path names the cluster."""
    await mark(server)
    cert = await certificate(server, "other", tmp_path)
    assert shown(await ask(server, f"{MAP}/mine", tmp_path, cert=cert, token=await token(server, "default"))) == "other"


async def test_a_certificate_of_a_removed_cluster_leads_to_nobody(server: ApiServer, tmp_path: Path) -> None:
    cert = await certificate(server, "other", tmp_path)
    await server.remove_cluster("other")
    await server.add_cluster("third")
    assert (await ask(server, MAP, tmp_path, cert=cert)).status == 401
    await server.add_cluster("other")
    assert (await ask(server, MAP, tmp_path, cert=cert)).status == 401


@pytest.mark.parametrize("issuer", ["https://127.0.0.1/clusters/_system", "https://127.0.0.1/clusters/none", "x", 3, None])
async def test_a_token_of_no_cluster_is_nobodys(server: ApiServer, issuer: object, tmp_path: Path) -> None:
    head, _, signature = (await token(server, "other")).split(".")
    claims = base64.urlsafe_b64encode(orjson.dumps({"iss": issuer})).rstrip(b"=").decode()
    assert (await ask(server, MAP, tmp_path, token=f"{head}.{claims}.{signature}")).status == 401


async def test_nobody_is_led_to_the_default_cluster(server: ApiServer, tmp_path: Path) -> None:
    reply = await ask(server, MAP, tmp_path)
    assert reply.status == 403
    assert 'User "system:anonymous" cannot list resource "configmaps"' in reply.json["message"]
    await server.remove_cluster("default")
    await server.add_cluster("third")
    assert (await ask(server, MAP, tmp_path)).status == 404


async def test_kubectl_reaches_its_cluster_where_it_drops_the_path(server: ApiServer, tmp_path: Path) -> None:
    await mark(server)
    kubeconfig = tmp_path / "kubeconfig"
    await write_kubeconfig(server, kubeconfig)
    cluster = Cluster("all", server.url, tmp_path / "ca.crt", kubeconfig)
    raw = await asyncio.to_thread(kubectl, cluster, "--context", "other", "get", "--raw", f"{MAP}/mine")
    assert orjson.loads(raw.expect(0).out)["data"] == {"cluster": "other"}
    with background(cluster, "--context", "other", "proxy", "--port=0") as proxy:
        assert proxy.stdout is not None
        lines = proxy.stdout
        serving = await asyncio.to_thread(lambda: next(line for line in lines if line.startswith("Starting to serve on")))
        address = serving.split()[-1]
        body = await asyncio.to_thread(lambda: urlopen(f"http://{address}{MAP}/mine", timeout=20).read())
    assert orjson.loads(body)["data"] == {"cluster": "other"}
