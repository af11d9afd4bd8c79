"""OpenAPI of remote API servers among our own: what is shown of it, what is asked of them, and what nonsense cannot harm."""

import base64
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.apiserver.aggregation import Aggregator
from muster.apiserver.aggregation.openapi import document_address, is_document, merge_swagger, swagger_part
from muster.apiserver.auth.access import Access
from muster.apiserver.client import DirectClient, object_path
from muster.apiserver.errors import ApiError
from muster.apiserver.server import ApiServer
from muster.http import HttpServer, Request, Response, server_context
from tests.support.in_process import serving
from tests.support.pki import Authority
from tests.unit.apiserver.conftest import eventually

META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
WIDGET = "io.x.v1.Widget"
KIND = [{"group": "x.io", "version": "v1", "kind": "Widget"}]
WIDGETS = {"name": "widgets", "singularName": "widget", "namespaced": True, "kind": "Widget", "verbs": ["get", "list"]}
GADGET = {"type": "object", "description": "a gadget"}


def swagger(**definitions: Any) -> dict[str, Any]:
    answer = {"description": "OK", "schema": {"$ref": f"#/definitions/{WIDGET}"}}
    operation = {"parameters": [{"$ref": "#/parameters/pretty"}], "responses": {"200": answer}}
    schema = {
        "type": "object",
        "properties": {"metadata": {"$ref": f"#/definitions/{META}"}},
        "x-kubernetes-group-version-kind": KIND,
    }
    return {
        "swagger": "2.0",
        "paths": {"/apis/x.io/v1/widgets": {"get": operation}, "/apis/y.io/v1/gadgets": {"get": operation}, "/api/v1/pods": {}},
        "parameters": {"pretty": {"name": "pretty", "in": "query", "type": "string"}},
        "definitions": {WIDGET: schema, META: {"type": "object", "title": "theirs"}, "Gadget": GADGET, **definitions},
    }


def document(text: str) -> dict[str, Any]:
    schema = {"type": "object", "description": text, "x-kubernetes-group-version-kind": KIND}
    return {"openapi": "3.0.0", "info": {}, "paths": {}, "components": {"schemas": {WIDGET: schema}}}


class Extension:
    """Serves x.io/v1, with documents that a test gives it."""

    def __init__(self, directory: Path, proxy_ca: bytes) -> None:
        authority = Authority(directory, "extension")
        pair = authority.issue("server", hosts=("ext.default.svc",))
        self.ca = base64.b64encode(authority.pair.cert.read_bytes()).decode()
        self.http = HttpServer(self.handle, tls=server_context(pair.cert.read_bytes(), pair.key.read_bytes(), proxy_ca))
        self.index: Any = {"paths": {"apis/x.io/v1": {"serverRelativeURL": "/openapi/v3/apis/x.io/v1?hash=1"}}}
        self.document: Any = document("one")
        self.swagger: Any = swagger()
        self.asked: list[tuple[str, str | None]] = []

    async def handle(self, request: Request) -> Response:
        if request.raw_path == "/apis/x.io/v1":
            body = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "x.io/v1", "resources": [WIDGETS]}
            return _json(body)
        found = {"/openapi/v3": self.index, "/openapi/v3/apis/x.io/v1": self.document, "/openapi/v2": self.swagger}
        if request.raw_path not in found:
            return Response(404)
        self.asked.append((request.target, request.headers.get("x-remote-user")))
        answer = found[request.raw_path]
        return Response(200, answer, (), "application/json") if isinstance(answer, bytes) else _json(answer)

    def count(self, target: str) -> int:
        return sum(asked == target for asked, _ in self.asked)


def _json(body: Any) -> Response:
    return Response(200, orjson.dumps(body), (), "application/json")


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    async with serving("default") as running:
        yield running


@pytest.fixture
async def extension(server: ApiServer, client: DirectClient, tmp_path: Path) -> AsyncIterator[Extension]:
    keys = server.clusters["default"].part(Access).key_store.existing()
    assert keys is not None
    made = Extension(tmp_path, keys.proxy_ca_pem)
    await made.http.start("127.0.0.1", 0)
    yield made
    await made.http.stop(0.1)


async def join(client: DirectClient, extension: Extension) -> None:
    service = {"metadata": {"name": "ext"}, "spec": {"type": "ExternalName", "externalName": "127.0.0.1"}}
    await client.create(object_path("v1", "services", "default"), service)
    spec = {
        "group": "x.io",
        "version": "v1",
        "groupPriorityMinimum": 1000,
        "versionPriority": 15,
        "caBundle": extension.ca,
        "service": {"namespace": "default", "name": "ext", "port": extension.http.port},
    }
    await client.create(object_path("apiregistration.k8s.io/v1", "apiservices"), {"metadata": {"name": "v1.x.io"}, "spec": spec})


async def looked_again(client: DirectClient, extension: Extension) -> None:
    """Touching the Service has the server look again; two more looks at v2, the last thing asked, end one whole look."""
    for _ in range(2):
        before = extension.count("/openapi/v2")
        name = object_path("v1", "services", "default", "ext")
        await client.merge(name, {"metadata": {"labels": {"touched": str(before)}}})
        await eventually(partial(_is_more, extension, before), "it was asked again")


def _is_more(extension: Extension, before: int) -> bool:
    return extension.count("/openapi/v2") > before


async def described(server: ApiServer) -> None:
    aggregator = server.clusters["default"].part(Aggregator)
    await eventually(lambda: aggregator.openapi() and aggregator.openapi()[0].swagger, "the extension is described")


async def shown(client: DirectClient) -> str | None:
    index = (await client.get("/openapi/v3"))["paths"]
    if "apis/x.io/v1" not in index:
        return None
    path = index["apis/x.io/v1"]["serverRelativeURL"].removeprefix("/clusters/default")
    text: str = (await client.get(path))["components"]["schemas"][WIDGET]["description"]
    return text


async def test_a_remote_document_is_listed_and_served_as_ours(
    server: ApiServer, client: DirectClient, extension: Extension
) -> None:
    await join(client, extension)
    await described(server)
    index = (await client.get("/openapi/v3"))["paths"]
    assert index["apis/x.io/v1"]["serverRelativeURL"].startswith("/clusters/default/openapi/v3/apis/x.io/v1?hash=")
    assert "api/v1" in index
    assert await shown(client) == "one"
    assert {user for _, user in extension.asked} == {"system:aggregator"}


async def test_a_document_is_fetched_again_when_its_hash_is_a_new_one(
    server: ApiServer, client: DirectClient, extension: Extension
) -> None:
    await join(client, extension)
    await described(server)
    await looked_again(client, extension)
    assert extension.count("/openapi/v3/apis/x.io/v1?hash=1") == 1
    extension.document = document("two")
    extension.index = {"paths": {"apis/x.io/v1": {"serverRelativeURL": "/openapi/v3/apis/x.io/v1?hash=2"}}}
    await looked_again(client, extension)
    assert await shown(client) == "two"


async def test_the_v2_document_has_the_remotes_paths_and_clashing_names_apart(
    server: ApiServer, client: DirectClient, extension: Extension
) -> None:
    before = await client.get("/openapi/v2")
    await join(client, extension)
    await described(server)
    merged = await client.get("/openapi/v2")
    parameter = {"name": "pretty", "in": "query", "type": "string"}
    assert merged["paths"]["/apis/x.io/v1/widgets"]["get"]["parameters"] == [parameter]
    assert "/apis/y.io/v1/gadgets" not in merged["paths"]
    assert "Gadget" not in merged["definitions"]
    assert merged["definitions"][META] == before["definitions"][META]
    assert merged["definitions"][f"{META}_v2"] == {"type": "object", "title": "theirs"}
    assert merged["definitions"][WIDGET]["properties"]["metadata"] == {"$ref": f"#/definitions/{META}_v2"}
    await client.delete(object_path("apiregistration.k8s.io/v1", "apiservices", "", "v1.x.io"))
    assert await client.get("/openapi/v2") == before
    assert await shown(client) is None


def test_definitions_that_clash_are_told_apart_and_shared_where_they_are_equal() -> None:
    whole: dict[str, Any] = {"paths": {}, "definitions": {META: {"title": "ours"}}}
    for _ in range(2):
        part = swagger_part(orjson.dumps(swagger()), "x.io", "v1")
        assert part is not None
        merge_swagger(whole, part)
    theirs = {"type": "object", "title": "theirs"}
    assert {name: schema for name, schema in whole["definitions"].items() if name.startswith(META)} == {
        META: {"title": "ours"},
        f"{META}_v2": theirs,
    }


async def test_a_remote_that_answers_nonsense_keeps_what_it_said_before_and_harms_nothing(
    server: ApiServer, client: DirectClient, extension: Extension
) -> None:
    await join(client, extension)
    await described(server)
    before = await client.get("/openapi/v2"), await shown(client)
    extension.swagger = b" " * (17 * 1024 * 1024)
    await looked_again(client, extension)
    extension.index = extension.document = extension.swagger = b'{"paths":{'
    await looked_again(client, extension)
    assert (await client.get("/openapi/v2"), await shown(client)) == before
    remote = server.clusters["default"].part(Aggregator).named("v1.x.io")
    assert remote is not None
    assert remote.available


NONSENSE: list[Any] = [
    b"",
    b"{",
    b"[]",
    b"null",
    {"paths": []},
    {"paths": {"apis/x.io/v1": {"serverRelativeURL": "/openapi/v3/apis/x.io/v1\r\nX: y?hash=3"}}},
    {"paths": {"apis/x.io/v1": {"serverRelativeURL": "https://elsewhere/openapi/v3/apis/x.io/v1"}}},
    {"paths": {"/apis/x.io/v1/widgets": 1}, "definitions": {WIDGET: 1}},
    swagger(Bad={"x-kubernetes-group-version-kind": KIND, "type": 7}),
    swagger(Bad={"x-kubernetes-group-version-kind": KIND, "maxLength": -1}),
    swagger(Bad={"x-kubernetes-group-version-kind": KIND, "description": "x" * (5 * 1024 * 1024)}),
    b"[" * 5000,
    b'{"paths":' + b'{"a":' * 900 + b"1" + b"}" * 901,
    b'{"paths":{},"definitions":{"A":{"x-kubernetes-group-version-kind":[{"group":"x.io","version":"v1"}],"x-deep":%s}}}'
    % (b"[" * 600 + b"]" * 600),
]


@pytest.mark.parametrize("nonsense", NONSENSE, ids=range(len(NONSENSE)))
def test_nonsense_is_no_document(nonsense: Any) -> None:
    body = nonsense if isinstance(nonsense, bytes) else orjson.dumps(nonsense)
    assert document_address(body, "apis/x.io/v1") == ""
    assert not is_document(body)
    assert swagger_part(body, "x.io", "v1") is None


async def test_a_remote_without_documents_is_served_all_the_same(
    server: ApiServer, client: DirectClient, extension: Extension
) -> None:
    extension.index = extension.document = extension.swagger = b"nothing"
    await join(client, extension)
    await eventually(lambda: extension.count("/openapi/v2"), "it was asked")
    assert await shown(client) is None
    with pytest.raises(ApiError) as missing:
        await client.get("/openapi/v3/apis/x.io/v1")
    assert missing.value.code == 404


NAMES = (
    *("paths", "definitions", "$ref", "properties", "components", "schemas", "openapi", "serverRelativeURL"),
    *("x-kubernetes-group-version-kind", "apis/x.io/v1", "/apis/x.io/v1/widgets"),
)
ANSWERS: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(NAMES), inner),
)


@given(ANSWERS)
def test_any_answer_is_read_or_refused(answer: Any) -> None:
    body = orjson.dumps(answer)
    assert isinstance(document_address(body, "apis/x.io/v1"), str)
    assert is_document(body) in (True, False)
    part = swagger_part(body, "x.io", "v1")
    if part is not None:
        merge_swagger({"paths": {}, "definitions": {}}, part)
