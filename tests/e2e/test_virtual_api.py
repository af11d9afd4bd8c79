"""An aggregated API of computed objects behind an APIService, on either control plane, as kubectl sees it.

A Service of type ExternalName leads to this machine; the server runs on a loop in a thread of the test.
"""

from __future__ import annotations

import asyncio
import base64
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from muster.api.proxy.v1alpha1 import GROUP, ClusterGateway
from muster.apiserver.virtual import Answer, VirtualApi, VirtualSubresource
from muster.http import HttpServer, Request, Response, server_context
from muster.machinery.authentication import UserInfo
from tests.support.client import Client
from tests.support.eventually import until
from tests.support.kubectl import executable, kubectl
from tests.support.pki import Authority
from tests.support.planes import ADMIN, ControlPlane

NAMESPACE = "virtual-api"
API_SERVICE = f"/apis/apiregistration.k8s.io/v1/apiservices/v1alpha1.{GROUP}"
GATEWAYS = f"/apis/{GROUP}/v1alpha1/clustergateways"


class Gateway:
    """Shows what is put into it, and answers what is below `proxy` by telling what arrived."""

    def __init__(self, directory: Path, proxy_ca: bytes) -> None:
        authority = Authority(directory, "gateway")
        pair = authority.issue("server", hosts=(f"gateway.{NAMESPACE}.svc",))
        self.ca_bundle = base64.b64encode(authority.pair.cert.read_bytes()).decode()
        verbs = ("create", "delete", "get", "patch", "update")
        proxy = VirtualSubresource(self._proxy, verbs, "ClusterGatewayProxyOptions", takes_path=True)
        self.api = VirtualApi(ClusterGateway, subresources={"proxy": proxy})
        tls = server_context(pair.cert.read_bytes(), pair.key.read_bytes(), proxy_ca)
        self.http = HttpServer(self._handle, tls=tls, stream_body=self.api.streams, reads_bodies=True)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    async def _handle(self, request: Request) -> Answer:
        return await self.api.serve(request, UserInfo(request.headers.get("x-remote-user") or ""))

    async def _proxy(self, request: Request, user: UserInfo, name: str) -> Answer:
        body = b"" if request.body_stream is None else b"".join([piece async for piece in request.body_stream])
        told = {"method": request.method, "user": user.name, "name": name, "target": request.target, "length": len(body)}
        return Response(200, orjson.dumps(told), (), "application/json")

    def start(self) -> None:
        self._thread.start()
        self._run(self._start)

    async def _start(self) -> None:
        await self.api.start()
        await self.http.start("127.0.0.1", 0)

    def stop(self) -> None:
        self._run(self._stop)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        self._loop.close()

    async def _stop(self) -> None:
        await self.api.stop()
        await self.http.stop(0.1)

    def put(self, name: str, **labels: str) -> None:
        document = {
            "metadata": {"name": name, "labels": labels, "uid": name, "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"access": {"endpoint": f"https://{name}:6443", "credential": {"type": "ServiceAccountToken"}}},
            "status": {"healthy": True},
        }

        async def put() -> None:
            self.api.put(document)

        self._run(put)

    def _run(self, work: Callable[[], Any]) -> None:
        asyncio.run_coroutine_threadsafe(work(), self._loop).result(10)


@pytest.fixture(scope="module")
def gateway(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """Registered and available, with two clusters."""
    client: Client = plane.client()
    trust = client.get("/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication").expect(200)["data"]
    served = Gateway(tmp_path_factory.mktemp("gateway"), trust["requestheader-client-ca-file"].encode())
    served.start()
    served.put("east", region="e")
    served.put("west", region="w")
    client.post("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    service = {"metadata": {"name": "gateway"}, "spec": {"type": "ExternalName", "externalName": "localhost"}}
    client.post(f"/api/v1/namespaces/{NAMESPACE}/services", service).expect(201)
    spec = {
        "group": GROUP,
        "version": "v1alpha1",
        "groupPriorityMinimum": 1000,
        "versionPriority": 15,
        "caBundle": served.ca_bundle,
        "service": {"namespace": NAMESPACE, "name": "gateway", "port": served.http.port},
    }
    document = {"metadata": {"name": API_SERVICE.rpartition("/")[2]}, "spec": spec}
    client.post(API_SERVICE.rpartition("/")[0], document).expect(201)
    until(lambda: client.get(GATEWAYS).status == 200)
    yield served
    client.delete(API_SERVICE)
    client.delete(f"/api/v1/namespaces/{NAMESPACE}/services/gateway")
    client.close()
    served.stop()


def test_kubectl_works_on_computed_objects(plane: ControlPlane, gateway: Gateway) -> None:
    def run(*arguments: str, code: int = 0) -> str:
        outcome = kubectl(plane.cluster, *arguments).expect(code)
        return outcome.out if code == 0 else outcome.err

    until(lambda: "ClusterGateway" in run("api-resources", "--api-group", GROUP))
    heading, *rows = run("get", "clustergateways").splitlines()
    assert heading.split() == ["NAME", "CREDENTIAL-TYPE", "ENDPOINT", "HEALTHY", "EXPIRES", "AGE"]
    assert [row.split()[:4] for row in rows] == [
        ["east", "ServiceAccountToken", "https://east:6443", "true"],
        ["west", "ServiceAccountToken", "https://west:6443", "true"],
    ]
    assert run("get", "clustergateways", "-l", "region=w", "-o", "name").split() == [f"clustergateway.{GROUP}/west"]
    assert "endpoint: https://east:6443" in run("get", "clustergateway", "east", "-o", "yaml")
    assert "MethodNotAllowed" in run("delete", "clustergateway", "east", code=1)
    assert "not found" in run("get", "clustergateway", "north", code=1)

    until(lambda: kubectl(plane.cluster, "explain", "clustergateways").code == 0)
    explained = run("explain", "clustergateways.spec.access.credential")
    assert "x509Certificate" in explained
    assert "GROUP:      proxy.open-cluster-management.io" in explained


def test_kubectl_watches_computed_objects(plane: ControlPlane, gateway: Gateway) -> None:
    program = executable()
    assert program is not None
    command = [str(program), "--kubeconfig", str(plane.kubeconfig), "get", "clustergateways", "-w", "-o", "name"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as watching:
        assert watching.stdout is not None
        assert [watching.stdout.readline().strip() for _ in range(2)] == [
            f"clustergateway.{GROUP}/east",
            f"clustergateway.{GROUP}/west",
        ]
        gateway.put("north")
        assert watching.stdout.readline().strip() == f"clustergateway.{GROUP}/north"
        watching.terminate()


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
def test_every_method_passes_the_api_server_to_a_subresource_with_a_path(
    plane: ControlPlane, gateway: Gateway, method: str
) -> None:
    body = b"x" * (4 * 1024 * 1024) if method in ("POST", "PUT", "PATCH") else None
    client = plane.client()
    told = client.request(method, f"{GATEWAYS}/east/proxy/api/v1/pods?limit=1", body).expect(200)
    client.close()
    assert told == {
        "method": method,
        "user": ADMIN,
        "name": "east",
        "target": f"{GATEWAYS}/east/proxy/api/v1/pods?limit=1",
        "length": len(body or b""),
    }


def test_the_merged_v2_document_has_the_kind_and_leaves_ours_as_they_are(plane: ControlPlane, gateway: Gateway) -> None:
    client = plane.client()
    kind = "io.open-cluster-management.proxy.v1alpha1.ClusterGateway"
    until(lambda: kind in client.get("/openapi/v2").json["definitions"], 90)
    definitions = client.get("/openapi/v2").json["definitions"]
    client.close()
    meta = definitions[kind]["properties"]["metadata"]["$ref"].removeprefix("#/definitions/")
    assert "creationTimestamp" in definitions[meta]["properties"]
    assert definitions["io.k8s.api.core.v1.Pod"]["properties"]["metadata"]["$ref"].endswith("meta.v1.ObjectMeta")
