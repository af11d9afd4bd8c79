"""An aggregated API of computed objects, over a real HTTP server: what clients ask of one, and what they are answered."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest

from muster.api.proxy.v1alpha1 import ClusterGateway
from muster.apiserver.virtual import Answer, ApiError, VirtualApi, VirtualSubresource
from muster.http import HttpServer, RawConnection, Request, Response, Takeover, UpstreamPool
from muster.http.upstream import AnswerHead, encode_request
from muster.machinery.authentication import UserInfo
from muster.machinery.objects import GVR
from muster.runtime.cache import Informer, Snapshot
from muster.runtime.client import ClientConfig
from muster.runtime.client.http import HttpClient
from tests.unit.apiserver.conftest import eventually

ALICE = UserInfo("alice")
GROUP = "proxy.open-cluster-management.io"
OAM = "cluster.core.oam.dev"
ROOT = f"/apis/{GROUP}/v1alpha1"
GATEWAYS = f"{ROOT}/clustergateways"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "PROPFIND")


class Front:
    """A server as an owner builds it: every caller is alice; the proxy subresource remembers what reached it."""

    def __init__(self, replica: int | None = None) -> None:
        self.taken: list[tuple[str, str, str, bytes | None]] = []
        self.problem: str | None = None
        self.api = VirtualApi(
            ClusterGateway,
            served=((GROUP, "v1alpha1"), (GROUP, "v1beta1"), (OAM, "v1alpha1")),
            subresources={
                "proxy": VirtualSubresource(
                    self._proxy, ("create", "delete", "get", "patch", "update"), "ClusterGatewayProxyOptions", takes_path=True
                ),
                "health": VirtualSubresource(self._health),
                "attach": VirtualSubresource(self._attach),
            },
            replica=replica,
            ready=lambda: self.problem,
        )
        self.http = HttpServer(self._handle, stream_body=self.api.streams, reads_bodies=True)
        self.pool = UpstreamPool()

    async def _handle(self, request: Request) -> Answer:
        return await self.api.serve(request, ALICE)

    async def _proxy(self, request: Request, user: UserInfo, name: str) -> Answer:
        received = None if request.body_stream is None else b"".join([piece async for piece in request.body_stream])
        self.taken.append((request.method, name, request.raw_path, received))
        return Response(418, user.name.encode())

    async def _health(self, request: Request, user: UserInfo, name: str) -> Answer:
        return Response(200, orjson.dumps({"healthy": name}), (), "application/json")

    async def _attach(self, request: Request, user: UserInfo, name: str) -> Answer:
        async def echo(connection: RawConnection) -> None:
            connection.write(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n" + name.encode())
            while data := await connection.read():
                connection.write(data)

        if not request.upgrade:
            raise ApiError(400, "BadRequest", "attach is an upgrade: send Connection: Upgrade")
        return Takeover(echo)

    async def start(self) -> None:
        await self.api.start()
        await self.http.start("127.0.0.1", 0)

    async def stop(self) -> None:
        await self.api.stop()
        self.pool.close()
        await self.http.stop(0.1)

    async def ask(self, method: str, target: str, *fields: tuple[str, str], body: bytes = b"") -> tuple[AnswerHead, bytes]:
        asked = encode_request(method, target, [("Host", "x"), *fields], body)
        return await self.pool.request(
            ("127.0.0.1", self.http.port, None, None), asked, timeout=10, repeat=False, bodiless=method == "HEAD"
        )

    async def get(self, target: str, accept: str = "application/json") -> Any:
        answer, body = await self.ask("GET", target, ("Accept", accept))
        assert answer.status == 200, body
        return orjson.loads(body)

    async def watch(self, target: str) -> AsyncIterator[tuple[str, Any]]:
        connection = await self.pool.connect(("127.0.0.1", self.http.port, None, None), 5, fresh=True)
        try:
            connection.exchange(encode_request("GET", target, [("Host", "x")]), bodiless=False)
            assert (await connection.answer()).status == 200
            pending = b""
            while piece := await connection.body():
                *lines, pending = (pending + piece).split(b"\n")
                for line in lines:
                    event = orjson.loads(line)
                    yield event["type"], event["object"]
        finally:
            connection.abort()


def gateway(name: str, endpoint: str = "https://one:6443", **labels: str) -> dict[str, Any]:
    return {
        "apiVersion": f"{GROUP}/v1alpha1",
        "kind": "ClusterGateway",
        "metadata": {
            "name": name,
            "uid": f"{name}-uid",
            "creationTimestamp": "2026-11-01T00:00:00Z",
            "labels": labels,
            "resourceVersion": "12",
        },
        "spec": {"access": {"endpoint": endpoint, "credential": {"type": "ServiceAccountToken"}}},
        "status": {"healthy": True},
    }


@pytest.fixture
async def front() -> AsyncIterator[Front]:
    made = Front()
    await made.start()
    made.api.put(gateway("one", region="north"))
    made.api.put(gateway("two", region="south"))
    yield made
    await made.stop()


async def test_objects_are_read_with_the_metadata_they_were_given_and_a_version_of_our_own(front: Front) -> None:
    found = await front.get(f"{GATEWAYS}/one")
    assert (found["apiVersion"], found["kind"]) == (f"{GROUP}/v1alpha1", "ClusterGateway")
    assert found["metadata"]["uid"] == "one-uid"
    assert found["metadata"]["creationTimestamp"] == "2026-11-01T00:00:00Z"
    assert found["metadata"]["resourceVersion"] != "12"
    assert found["spec"]["access"]["endpoint"] == "https://one:6443"


async def test_every_group_and_version_shows_the_same_objects_in_its_own_name(front: Front) -> None:
    for api_version in (f"{GROUP}/v1beta1", f"{OAM}/v1alpha1"):
        listed = await front.get(f"/apis/{api_version}/clustergateways")
        assert listed["apiVersion"] == api_version
        assert [item["apiVersion"] for item in listed["items"]] == [api_version, api_version]
        assert listed["items"][0]["metadata"]["uid"] == "one-uid"


async def test_selectors_and_pages(front: Front) -> None:
    for query in ("labelSelector=region%3Dsouth", "fieldSelector=metadata.name%3Dtwo"):
        listed = await front.get(f"{GATEWAYS}?{query}")
        assert [item["metadata"]["name"] for item in listed["items"]] == ["two"]
    page = await front.get(f"{GATEWAYS}?limit=1")
    rest = await front.get(f"{GATEWAYS}?limit=1&continue={page['metadata']['continue']}")
    assert [item["metadata"]["name"] for item in page["items"] + rest["items"]] == ["one", "two"]


async def test_tables_have_the_columns_of_the_kind(front: Front) -> None:
    table = await front.get(GATEWAYS, TABLE)
    assert [column["name"] for column in table["columnDefinitions"]] == [
        "Name",
        "Credential-Type",
        "Endpoint",
        "Healthy",
        "Expires",
        "Age",
    ]
    assert table["rows"][0]["cells"][:4] == ["one", "ServiceAccountToken", "https://one:6443", True]


async def test_what_is_not_there_is_not_found(front: Front) -> None:
    answer, body = await front.ask("GET", f"{GATEWAYS}/none")
    status = orjson.loads(body)
    assert (answer.status, status["reason"]) == (404, "NotFound")
    assert status["details"] == {"name": "none", "group": GROUP, "kind": "clustergateways"}
    assert (await front.ask("GET", f"/apis/{GROUP}/v2/clustergateways"))[0].status == 404


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", ""), ("DELETE", ""), ("PUT", "/one"), ("PATCH", "/one"), ("DELETE", "/one"), ("PUT", "/one/health")],
)
async def test_writes_are_not_allowed(front: Front, method: str, path: str) -> None:
    answer, body = await front.ask(method, GATEWAYS + path, ("Content-Type", "application/json"), body=b"{}")
    status = orjson.loads(body)
    assert (answer.status, status["kind"], status["reason"]) == (405, "Status", "MethodNotAllowed")
    assert answer.field("allow") == "GET"
    assert len((await front.get(GATEWAYS))["items"]) == 2


async def test_a_watch_tells_additions_changes_and_removals(front: Front) -> None:
    version = (await front.get(GATEWAYS))["metadata"]["resourceVersion"]
    events = front.watch(f"{GATEWAYS}?watch=true&resourceVersion={version}&labelSelector=region")
    seen = asyncio.create_task(_first(events, 4))
    assert front.api.put(gateway("three", region="west"))
    assert front.api.put(gateway("one", "https://other:6443", region="north"))
    front.api.put(gateway("two"))
    assert front.api.remove("three")
    told = [(kind, obj["metadata"]["name"]) for kind, obj in await asyncio.wait_for(seen, 5)]
    assert told == [("ADDED", "three"), ("MODIFIED", "one"), ("DELETED", "two"), ("DELETED", "three")]


async def test_what_has_not_changed_is_no_event(front: Front) -> None:
    before = await front.get(GATEWAYS)
    assert not front.api.put({**gateway("one", region="north")})
    assert not front.api.remove("three")
    front.api.replace_all([gateway("one", region="north"), gateway("two", region="south")])
    assert await front.get(GATEWAYS) == before


async def test_replacing_all_removes_the_others(front: Front) -> None:
    front.api.replace_all([gateway("two", region="south"), gateway("three")])
    listed = await front.get(GATEWAYS)
    assert [item["metadata"]["name"] for item in listed["items"]] == ["three", "two"]


async def test_the_callers_document_is_not_touched(front: Front) -> None:
    document = gateway("one")
    front.api.put(document)
    assert document == gateway("one")


async def test_an_object_without_a_name_is_refused_by_name_of_the_field(front: Front) -> None:
    with pytest.raises(ValueError, match=r"metadata\.name"):
        front.api.put({"metadata": {}})


async def test_the_initial_state_comes_as_events_and_a_bookmark(front: Front) -> None:
    query = "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&resourceVersion="
    told = await asyncio.wait_for(_first(front.watch(f"{GATEWAYS}?{query}"), 3), 5)
    assert [kind for kind, _ in told] == ["ADDED", "ADDED", "BOOKMARK"]
    assert told[2][1]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


@pytest.mark.parametrize("method", METHODS)
async def test_every_method_reaches_a_subresource_that_takes_a_path(front: Front, method: str) -> None:
    for tail in ("", "/", "/api/v1/pods", "/a%20b/c;d", "/../../two/proxy/api"):
        answer, _ = await front.ask(method, f"{GATEWAYS}/one/proxy{tail}?watch=true&resourceVersion=7")
        assert answer.status == 418
        assert front.taken[-1][:3] == (method, "one", f"{GATEWAYS}/one/proxy{tail}")


async def test_bodies_are_passed_on_as_they_come(front: Front) -> None:
    body = b"x" * (5 * 1024 * 1024)
    answer, _ = await front.ask("POST", f"{GATEWAYS}/one/proxy/upload", body=body)
    assert answer.status == 418
    assert front.taken == [("POST", "one", f"{GATEWAYS}/one/proxy/upload", body)]


@pytest.mark.parametrize(
    "path",
    [
        f"{GATEWAYS}/o%6ee/proxy/api",
        f"{GATEWAYS}/one%2Fproxy/api",
        f"{ROOT}/clustergateway%73/one/proxy/api",
        f"{GATEWAYS}/one/pro%78y/api",
        f"{GATEWAYS}/one/proxy//api",
    ],
)
async def test_a_path_that_could_be_read_otherwise_is_refused(front: Front, path: str) -> None:
    answer, body = await front.ask("GET", path)
    assert answer.status == 400, body
    assert front.taken == []


async def test_other_subresources_take_no_path(front: Front) -> None:
    assert await front.get(f"{GATEWAYS}/one/health") == {"healthy": "one"}
    for path in ("/one/health/more", "/one/status", "/one/nothing/api"):
        assert (await front.ask("GET", GATEWAYS + path))[0].status == 404


async def test_a_subresource_may_take_the_connection_over_until_the_api_stops(front: Front) -> None:
    answer, body = await front.ask("GET", f"{GATEWAYS}/one/attach")
    assert (answer.status, orjson.loads(body)["message"]) == (400, "attach is an upgrade: send Connection: Upgrade")
    reader, writer = await asyncio.open_connection("127.0.0.1", front.http.port)
    writer.write(f"GET {GATEWAYS}/one/attach HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n".encode())
    async with asyncio.timeout(5):
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101 ")
        assert await reader.readexactly(3) == b"one"
        writer.write(b"hello")
        assert await reader.readexactly(5) == b"hello"
        await front.api.stop()
        with contextlib.suppress(ConnectionResetError):
            assert await reader.read() == b""
    writer.close()


async def test_aggregated_discovery_has_an_etag(front: Front) -> None:
    answer, body = await front.ask("GET", "/apis", ("Accept", AGGREGATED))
    assert answer.field("content-type") == "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    groups = {item["metadata"]["name"]: item["versions"] for item in orjson.loads(body)["items"]}
    assert list(groups) == [OAM, GROUP]
    assert [version["version"] for version in groups[GROUP]] == ["v1beta1", "v1alpha1"]
    row = groups[OAM][0]["resources"][0]
    assert (row["resource"], row["scope"], row["verbs"]) == ("clustergateways", "Cluster", ["get", "list", "watch"])
    assert row["responseKind"] == {"group": OAM, "version": "v1alpha1", "kind": "ClusterGateway"}
    assert [(sub["subresource"], sub["responseKind"]["kind"]) for sub in row["subresources"]] == [
        ("attach", "ClusterGateway"),
        ("health", "ClusterGateway"),
        ("proxy", "ClusterGatewayProxyOptions"),
    ]
    again, _ = await front.ask("GET", "/apis", ("Accept", AGGREGATED), ("If-None-Match", answer.field("etag") or ""))
    assert again.status == 304


async def test_legacy_discovery(front: Front) -> None:
    assert (await front.get(f"/apis/{GROUP}"))["preferredVersion"]["version"] == "v1beta1"
    names = [row["name"] for row in (await front.get(ROOT))["resources"]]
    assert names == ["clustergateways", *(f"clustergateways/{sub}" for sub in ("attach", "health", "proxy"))]
    assert (await front.get("/api"))["versions"] == []
    assert (await front.get("/version"))["major"] == "1"


async def test_openapi_is_of_these_groups_alone(front: Front) -> None:
    index = (await front.get("/openapi/v3"))["paths"]
    assert set(index) == {f"apis/{GROUP}/v1alpha1", f"apis/{GROUP}/v1beta1", f"apis/{OAM}/v1alpha1"}
    document = await front.get(index[f"apis/{GROUP}/v1alpha1"]["serverRelativeURL"])
    name = "io.open-cluster-management.proxy.v1alpha1.ClusterGateway"
    assert "access" in document["components"]["schemas"][name]["properties"]["spec"]["properties"]
    swagger = await front.get("/openapi/v2")
    assert name in swagger["definitions"]
    assert all(path.startswith(("/apis/" + GROUP, "/apis/" + OAM)) for path in swagger["paths"])
    assert all("post" not in item for path, item in swagger["paths"].items() if not path.endswith("/proxy"))


async def test_only_readiness_depends_on_the_owner(front: Front) -> None:
    front.problem = "clusters are not known yet"
    answers = {path: (await front.ask("GET", path))[0].status for path in ("/healthz", "/livez", "/readyz")}
    assert answers == {"/healthz": 200, "/livez": 200, "/readyz": 500}
    assert b"clusters are not known yet" in (await front.ask("GET", "/readyz"))[1]
    front.problem = None
    assert (await front.ask("GET", "/readyz"))[1] == b"ok"


@pytest.mark.parametrize("other", [3, 5])
async def test_revisions_of_another_replica_are_expired(other: int) -> None:
    """One whose revisions are smaller, and one whose are larger."""
    ours, theirs = Front(4), Front(other)
    for front in (ours, theirs):
        await front.start()
        for name in ("a", "b", "c"):
            front.api.put(gateway(name))
    page = await theirs.get(f"{GATEWAYS}?limit=1")
    version = page["metadata"]["resourceVersion"]
    for query in (
        f"resourceVersion={version}",
        f"resourceVersion={version}&resourceVersionMatch=Exact",
        f"watch=true&resourceVersion={version}",
        f"limit=1&continue={page['metadata']['continue']}",
    ):
        async with asyncio.timeout(2):
            answer, body = await ours.ask("GET", f"{GATEWAYS}?{query}")
        assert (answer.status, orjson.loads(body)["reason"]) == (410, "Expired")
    inconsistent = orjson.loads(body)["metadata"]["continue"]
    rest = await ours.get(f"{GATEWAYS}?limit=5&continue={inconsistent}")
    assert [item["metadata"]["name"] for item in rest["items"]] == ["b", "c"]
    assert (await ours.ask("GET", f"{GATEWAYS}/a?resourceVersion={version}"))[0].status == 410
    for fine in ("", "0", (await ours.get(GATEWAYS))["metadata"]["resourceVersion"]):
        assert len((await ours.get(f"{GATEWAYS}?resourceVersion={fine}"))["items"]) == 3
    await ours.stop()
    await theirs.stop()


@pytest.mark.parametrize(("first", "second"), [(3, 5), (5, 3)])
async def test_an_informer_goes_on_at_another_replica(first: int, second: int) -> None:
    """Through one address, as behind a Service: what changed meanwhile is seen, whichever replica counts higher."""
    fronts = [Front(first), Front(second)]
    for front in fronts:
        await front.start()
        front.api.replace_all([gateway("a"), gateway("gone")])
    behind = fronts[0]

    async def pass_on(request: Request) -> Answer:
        return await behind.api.serve(request, ALICE)

    service = HttpServer(pass_on, reads_bodies=True)
    await service.start("127.0.0.1", 0)
    client = HttpClient(ClientConfig(f"http://127.0.0.1:{service.port}"))
    informer: Informer[Snapshot] = Informer(client, GVR(f"{GROUP}/v1alpha1", "clustergateways", "ClusterGateway", namespaced=False))
    following = asyncio.create_task(informer.run())
    try:
        async with asyncio.timeout(10):
            await informer.synced()
        behind = fronts[1]
        behind.api.replace_all([gateway("a", "https://moved:6443"), gateway("new")])
        await fronts[0].api.stop()

        def names() -> set[str]:
            return {key.name for key in informer.cache.all_keys()}

        await eventually(lambda: names() == {"a", "new"}, "what the other replica has")
        behind.api.remove("new")
        await eventually(lambda: names() == {"a"}, "its changes")
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        await client.close()
        await service.stop(0.1)
        for front in fronts:
            await front.stop()


async def test_a_revision_that_is_still_to_come_is_expired_too_and_not_waited_for(front: Front) -> None:
    version = int((await front.get(GATEWAYS))["metadata"]["resourceVersion"])
    async with asyncio.timeout(2):
        answer, _ = await front.ask("GET", f"{GATEWAYS}?resourceVersion={version + 1}")
    assert answer.status == 410


async def test_nonsense_is_refused_in_the_usual_words(front: Front) -> None:
    for query in ("resourceVersion=x", "continue=x", "labelSelector=%21%21"):
        assert (await front.ask("GET", f"{GATEWAYS}?{query}"))[0].status == 400


def test_a_replica_has_a_number_that_fits() -> None:
    with pytest.raises(ValueError, match="replica"):
        VirtualApi(ClusterGateway, subresources={}, replica=1 << 40)


async def _first(events: AsyncIterator[tuple[str, Any]], count: int) -> list[tuple[str, Any]]:
    found = []
    async for event in events:
        found.append(event)
        if len(found) == count:
            break
    return found
