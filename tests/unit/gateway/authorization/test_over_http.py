"""The judge behind a server: requests as API servers read them, bodies as they arrive, and kubectl's questions."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from muster.gateway.authorization import GatewayAuthorizer, HubAccess
from muster.gateway.authorization.self_reviews import MAX_BODY_SIZE
from muster.gateway.request_decision import Granted
from muster.http import HttpServer, Request, Response
from muster.kube.request_info import request_info
from muster.machinery.authorization import AccessAttributes
from tests.support.kubectl import executable
from tests.unit.gateway.authorization.hub import USER1, RecordingHub, may_use, rule

PODS = {"name": "pods", "singularName": "pod", "namespaced": True, "kind": "Pod", "verbs": ["get", "list"]}
CLUSTER: dict[str, dict[str, Any]] = {
    "/api": {"kind": "APIVersions", "versions": ["v1"]},
    "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": []},
    "/api/v1": {"kind": "APIResourceList", "groupVersion": "v1", "resources": [PODS]},
    "/version": {"major": "1", "minor": "35"},
}


class Gateway:
    """The way of a request for the cluster foo, up to where it would be sent."""

    def __init__(self) -> None:
        self.hub = RecordingHub(may_use("foo", "get create"), rule("foo/get", "pods"), rule("foo/get", paths="/metrics"))
        self.judge = GatewayAuthorizer(HubAccess(self.hub))
        self.server = HttpServer(self.handle, stream_body=lambda request: True)
        self.forwarded: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.port}"

    async def handle(self, request: Request) -> Response:
        inner = request_info(request.method, request.raw_path, request.query)
        verdict = await self.judge.authorize(USER1, "foo", inner, request)
        if not isinstance(verdict, Granted):
            return verdict.answer
        self.forwarded.append(request.target)
        return Response(200, orjson.dumps(CLUSTER.get(request.path, {})), content_type="application/json")

    async def exchange(self, method: str, target: str, *fields: str, body: bytes = b"") -> tuple[int, Any]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.server.port)
        head = "".join(f"{line}\r\n" for line in (f"{method} {target} HTTP/1.1", "Host: x", "Connection: close", *fields))
        writer.write(head.encode() + b"\r\n" + body)
        answer = await reader.read()
        writer.close()
        top, _, content = answer.partition(b"\r\n\r\n")
        return int(top.split()[1]), orjson.loads(content) if content else None


@pytest.fixture
async def gateway() -> AsyncIterator[Gateway]:
    gateway = Gateway()
    await gateway.server.start("127.0.0.1", 0)
    yield gateway
    await gateway.server.stop(0)


@pytest.mark.parametrize(
    ("method", "target", "asked"),
    [
        ("GET", "/api/v1/pods", AccessAttributes("foo/list", "", "v1", "pods")),
        ("GET", "/api/v1/pods?watch=1", AccessAttributes("foo/watch", "", "v1", "pods")),
        ("GET", "/api/v1/pods?watch=0", AccessAttributes("foo/list", "", "v1", "pods")),
        ("GET", "/api/v1/watch/pods", AccessAttributes("foo/watch", "", "v1", "pods")),
        ("GET", "/api/v1/watch/namespaces/a/secrets/s", AccessAttributes("foo/watch", "", "v1", "secrets", "", "a", "s")),
        (
            "GET",
            "/api/v1/namespaces/a/pods?fieldSelector=metadata.name%3Dx",
            AccessAttributes("foo/list", "", "v1", "pods", "", "a", "x", field_selector="metadata.name=x"),
        ),
        (
            "DELETE",
            "/apis/apps/v1/namespaces/a/deployments?labelSelector=b",
            AccessAttributes("foo/deletecollection", "apps", "v1", "deployments", "", "a", label_selector="b"),
        ),
        ("GET", "/api/v1/namespaces/a/pods/p/log?follow=true", AccessAttributes("foo/get", "", "v1", "pods", "log", "a", "p")),
        ("GET", "/api/v1/namespaces/a/pods/p/exec?command=sh", AccessAttributes("foo/create", "", "v1", "pods", "exec", "a", "p")),
        ("POST", "/api/v1/namespaces/a/pods/p/attach", AccessAttributes("foo/create", "", "v1", "pods", "attach", "a", "p")),
        ("POST", "/metrics", AccessAttributes("foo/post", path="/metrics")),
    ],
)
async def test_the_hub_is_asked_for_what_the_cluster_would_read(
    gateway: Gateway, method: str, target: str, asked: AccessAttributes
) -> None:
    code, status = await gateway.exchange(method, target)
    assert (code, status["reason"]) == (403, "Forbidden")
    assert gateway.hub.questions == [asked]
    assert gateway.forwarded == []


@pytest.mark.parametrize("method", ["OPTIONS", "PROPFIND", "TRACE"])
async def test_methods_without_a_verb_are_not_forwarded(gateway: Gateway, method: str) -> None:
    gateway.hub.rules = (rule("*", "*", "*"),)
    code, _ = await gateway.exchange(method, "/api/v1/namespaces/a/pods/p")
    assert code in (400, 405)
    assert gateway.hub.asked == []
    assert gateway.forwarded == []


REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
REVIEW = b'{"spec":{"resourceAttributes":{"verb":"get","resource":"pods"}}}'


async def test_a_review_is_read_as_it_arrives(gateway: Gateway) -> None:
    code, answer = await gateway.exchange("POST", REVIEWS, f"Content-Length: {len(REVIEW)}", body=REVIEW)
    assert (code, answer["status"]["allowed"]) == (201, True)
    chunked = b"%x\r\n%b\r\n0\r\n\r\n" % (len(REVIEW), REVIEW)
    code, answer = await gateway.exchange("POST", REVIEWS, "Transfer-Encoding: chunked", body=chunked)
    assert (code, answer["status"]["allowed"]) == (201, True)
    assert gateway.forwarded == []


async def test_a_review_that_is_too_large_is_not_read_to_its_end(gateway: Gateway) -> None:
    code, _ = await gateway.exchange("POST", REVIEWS, "Content-Length: 1000000000")
    assert code == 413
    piece = b"%x\r\n%b\r\n" % (MAX_BODY_SIZE, b" " * MAX_BODY_SIZE)
    code, _ = await gateway.exchange("POST", REVIEWS, "Transfer-Encoding: chunked", body=piece * 2)
    assert code == 413


async def kubectl(gateway: Gateway, home: Path, *arguments: str) -> tuple[int, str]:
    program = executable()
    assert program is not None
    environment = {**os.environ, "HOME": str(home), "KUBECONFIG": str(home / "none")}
    process = await asyncio.create_subprocess_exec(
        program,
        *("--server", gateway.url, *arguments),
        env=environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    out, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode()


@pytest.mark.skipif(executable() is None, reason="no kubectl here")
async def test_kubectl_asks_what_it_may_do(gateway: Gateway, tmp_path: Path) -> None:
    assert await kubectl(gateway, tmp_path, "auth", "can-i", "get", "pods") == (0, "yes\n")
    code, out = await kubectl(gateway, tmp_path, "auth", "can-i", "list", "pods")
    assert code == 1
    assert out.startswith('no - the cluster gateway requires the verb "foo/list"')
    _, out = await kubectl(gateway, tmp_path, "auth", "can-i", "--list")
    assert "Warning: the list may be incomplete" in out
    assert '"foo/<verb>" on the hub' in out
    code, out = await kubectl(gateway, tmp_path, "auth", "whoami", "-o", "json")
    assert orjson.loads(out)["status"]["userInfo"]["username"] == "user1"
    code, out = await kubectl(gateway, tmp_path, "get", "pods")
    assert code == 1
    assert out.startswith('Error from server (Forbidden): pods is forbidden: User "user1" cannot list resource "pods"')
    assert 'of cluster "foo"' in out
