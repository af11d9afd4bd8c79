"""Logs and terminals of pods: what the server says by itself, and what it passes on from the node that runs them."""

from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from typing import Any

import pytest

from muster.apiserver.client import DirectClient, object_path
from muster.apiserver.errors import ApiError
from muster.apiserver.nodes import LogOptions, NoLogs
from muster.apiserver.server import ApiServer
from muster.http import Response

PODS = object_path("v1", "pods", "default")
SLICES = object_path("discovery.k8s.io/v1", "endpointslices", "default")


class ScriptedNode:
    """Knows three lines, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[LogOptions] = []
        self.closed = 0

    async def logs(self, pod: dict[str, Any], options: LogOptions) -> AsyncGenerator[bytes, None]:
        self.asked.append(options)
        if options.previous:
            raise NoLogs('previous terminated container "c" in pod "p" not found')
        return self._pieces()

    async def _pieces(self) -> AsyncGenerator[bytes, None]:
        try:
            for number in range(3):
                yield b"line %d\n" % number
        finally:
            self.closed += 1


async def pod(client: DirectClient, name: str, *containers: str, node: str = "") -> None:
    spec: dict[str, Any] = {"containers": [{"name": each, "image": "i"} for each in containers]}
    if node:
        spec["nodeName"] = node
    await client.create(PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})


async def log(client: DirectClient, name: str, **query: str) -> bytes:
    answer = await client.send("GET", f"{PODS}/{name}/log", query)
    assert isinstance(answer, Response)
    body = answer.body if isinstance(answer.body, bytes) else b"".join(answer.body)
    assert (answer.status, answer.content_type) in ((200, "text/plain"), (204, None)), body
    return body


async def refused(client: DirectClient, name: str, **query: str) -> ApiError:
    with pytest.raises(ApiError) as problem:
        await client.call("GET", f"{PODS}/{name}/log", query)
    return problem.value


async def test_the_log_of_a_pod_without_a_node_is_empty(client: DirectClient) -> None:
    await pod(client, "p", "c")
    assert await log(client, "p") == b""


async def test_a_container_must_be_named_where_there_are_several(client: DirectClient) -> None:
    await pod(client, "p", "a", "b")
    assert (await refused(client, "p")).message == "a container name must be specified for pod p, choose one of: [a b]"
    assert (await refused(client, "p", container="z")).message == "container z is not valid for pod p"
    assert await log(client, "p", container="b") == b""


async def test_without_a_node_runtime_a_bound_pod_has_no_log(client: DirectClient) -> None:
    await pod(client, "p", "c", node="far")
    problem = await refused(client, "p")
    assert (problem.code, problem.message) == (404, 'pods "far" not found')


async def test_options_that_make_no_sense_are_refused_by_field(client: DirectClient) -> None:
    await pod(client, "p", "c")
    problem = await refused(client, "p", tailLines="-1", limitBytes="0")
    assert problem.code == 422
    assert [cause["field"] for cause in (problem.details or {})["causes"]] == ["tailLines", "limitBytes"]
    assert (await refused(client, "p", sinceTime="yesterday")).code == 400


async def test_the_node_is_asked_with_the_options_of_the_request(server: ApiServer, client: DirectClient) -> None:
    server.clusters["default"].node = node = ScriptedNode()
    await pod(client, "p", "c", node="here")
    since = "2026-01-02T03:04:05Z"
    assert await log(client, "p", tailLines="5", timestamps="true", sinceTime=since) == b"line 0\nline 1\nline 2\n"
    assert node.asked == [LogOptions("c", timestamps=True, tail_lines=5, since_time=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))]
    assert await log(client, "p", limitBytes="9") == b"line 0\nli"
    assert node.closed == 2
    assert (await refused(client, "p", previous="true")).code == 400


async def test_a_followed_log_is_streamed_until_the_container_ends(server: ApiServer, client: DirectClient) -> None:
    server.clusters["default"].node = node = ScriptedNode()
    await pod(client, "p", "c", node="here")
    lines = [line async for line in client.lines(f"{PODS}/p/log", {"follow": "true"})]
    assert lines == [b"line 0", b"line 1", b"line 2"]
    assert node.closed == 1


@pytest.mark.parametrize("what", ["exec", "attach", "portforward"])
async def test_terminals_are_refused_with_what_is_supported_instead(server: ApiServer, client: DirectClient, what: str) -> None:
    server.clusters["default"].node = ScriptedNode()
    await pod(client, "p", "c", node="here")
    with pytest.raises(ApiError) as problem:
        await client.call("POST", f"{PODS}/p/{what}", {"command": "sh"})
    assert problem.value.code == 501
    assert "kubectl logs" in problem.value.message


async def test_endpoints_lie_on_the_loopback_interface_only_where_pods_do(server: ApiServer, client: DirectClient) -> None:
    piece = {"metadata": {"name": "s"}, "addressType": "IPv4", "endpoints": [{"addresses": ["127.64.0.1"]}]}
    with pytest.raises(ApiError) as problem:
        await client.create(SLICES, piece)
    assert "loopback" in problem.value.message
    server.clusters["default"].node = ScriptedNode()
    assert (await client.create(SLICES, piece))["endpoints"][0]["addresses"] == ["127.64.0.1"]
