"""Webhooks as the API server calls them, on certificates that renew themselves."""

import asyncio
import base64
import contextlib
import ssl
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest
from cryptography import x509

from muster.fleet.in_process import InProcessClient
from muster.http import UpstreamUntrusted, server_context
from muster.machinery.metrics import Metrics
from muster.machinery.objects import GVR, Object
from muster.runtime.client.builtin import API_SERVICES, CONFIG_MAPS, CRDS, MUTATING_WEBHOOKS, SECRETS, VALIDATING_WEBHOOKS
from muster.runtime.client.errors import Forbidden, KubeError
from muster.runtime.webhook.certificates import ServingCertificate, ServingPair, follow_files, inject_ca_bundle, make_pair
from muster.runtime.webhook.server import AdmissionRequest, AdmissionResponse, Denied, WebhookServer, allow, mutate
from tests.support.fake_clock import FakeClock, settle
from tests.support.fetching import fetch
from tests.support.pki import Authority
from tests.unit.runtime.conftest import config_map

HOSTS = ("webhook.muster.svc", "127.0.0.1")


async def judge(request: AdmissionRequest) -> AdmissionResponse:
    data = (request.object or {}).get("data") or {}
    if data.get("bad"):
        raise Denied("bad is bad", 422, "Invalid")
    if data.get("away"):
        raise Denied("the server cannot be asked", 503, "ServiceUnavailable")
    if data.get("crash"):
        raise ValueError("boom")
    return allow("looks odd") if data.get("odd") else allow()


async def fill(request: AdmissionRequest) -> AdmissionResponse:
    assert request.object is not None
    metadata = {**request.object["metadata"], "labels": {"muster.io/filled": "yes"}}
    data = {**request.object.get("data", {}), "by": request.user.name}
    return mutate(request, {**request.object, "metadata": metadata, "data": data})


async def upgrade(obj: Object, version: str) -> Object:
    if obj["metadata"]["name"] == "bad":
        raise Denied("cannot be converted")
    return {**obj, "apiVersion": version}


@pytest.fixture
async def pair(client: InProcessClient) -> ServingPair:
    return await ServingCertificate(client, "serving", "default", HOSTS).ensure()


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


@pytest.fixture
async def webhooks(pair: ServingPair, metrics: Metrics) -> AsyncIterator[WebhookServer]:
    server = WebhookServer(server_context(pair.cert, pair.key), metrics=metrics)
    server.admission("/judge", judge)
    server.admission("/fill", fill)
    server.conversion("/convert", upgrade)
    await server.start("127.0.0.1", 0)
    yield server
    await server.stop(0.1)


def webhook(server: WebhookServer, path: str, name: str = "test") -> Object:
    return {
        "metadata": {"name": name},
        "webhooks": [
            {
                "name": "configmaps.muster.io",
                "clientConfig": {"url": f"https://127.0.0.1:{server.port}{path}"},
                "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}],
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}},
            }
        ],
    }


async def test_the_api_server_asks_and_obeys(client: InProcessClient, webhooks: WebhookServer, pair: ServingPair) -> None:
    for resource, path in ((VALIDATING_WEBHOOKS, "/judge"), (MUTATING_WEBHOOKS, "/fill")):
        await client.create(resource, webhook(webhooks, path))
        assert await inject_ca_bundle(client, resource, "test", pair.ca)
        assert not await inject_ca_bundle(client, resource, "test", pair.ca)
    created = await client.create(CONFIG_MAPS, config_map("good", k="1"))
    assert created["data"] == {"k": "1", "by": "system:apiserver"}
    assert created["metadata"]["labels"] == {"muster.io/filled": "yes"}
    with pytest.raises(KubeError, match="bad is bad") as refused:
        await client.create(CONFIG_MAPS, config_map("bad", bad="y"))
    assert getattr(refused.value, "code", 0) == 422
    with pytest.raises(KubeError, match="failed calling webhook"):
        await client.create(CONFIG_MAPS, config_map("crash", crash="y"))
    assert not isinstance(refused.value, Forbidden)


async def post(server: WebhookServer, ca: bytes, path: str, body: bytes, method: str = "POST") -> tuple[int, Any]:
    trust = ssl.create_default_context(cadata=ca.decode())
    status, raw = await fetch(f"https://127.0.0.1:{server.port}{path}", method, body, trust)
    return status, orjson.loads(raw) if raw.startswith(b"{") else raw.decode()


async def test_warnings_reach_the_caller_and_reviews_keep_their_uid(webhooks: WebhookServer, pair: ServingPair) -> None:
    request = {"uid": "u1", "operation": "CREATE", "object": config_map("a", odd="y")}
    review = orjson.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})
    code, answer = await post(webhooks, pair.ca, "/judge", review)
    assert code == 200
    assert answer["response"] == {"uid": "u1", "allowed": True, "warnings": ["looks odd"]}


async def test_requests_are_counted_by_webhook_and_code(webhooks: WebhookServer, pair: ServingPair, metrics: Metrics) -> None:
    def review(**data: str) -> bytes:
        request = {"uid": "u1", "operation": "CREATE", "object": {**config_map("a"), "data": data}}
        return orjson.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})

    def counted(prefix: str) -> list[str]:
        return [line for line in metrics.render().decode().splitlines() if line.startswith(prefix)]

    undecided = 'muster_webhook_undecided_reviews_total{webhook="%s"} %s'
    assert counted("muster_webhook") == [undecided % ("/fill", 0), undecided % ("/judge", 0)]
    bodies = (review(), review(bad="y"), review(away="y"), review(crash="y"))
    for path, body in (*(("/judge", body) for body in bodies), ("/nowhere", b"{}")):
        await post(webhooks, pair.ca, path, body)
    assert counted("controller_runtime_webhook") == [
        'controller_runtime_webhook_requests_total{webhook="/judge",code="200"} 3',
        'controller_runtime_webhook_requests_total{webhook="/judge",code="500"} 1',
    ]
    assert counted("muster_webhook") == [undecided % ("/fill", 0), undecided % ("/judge", 1)]


@pytest.mark.parametrize(
    ("method", "path", "body", "code"),
    [
        ("POST", "/judge", b"{", 400),
        ("POST", "/judge", b"{}", 400),
        ("POST", "/judge", b'{"apiVersion":"v1","request":[]}', 400),
        ("GET", "/judge", b"", 405),
        ("POST", "/nowhere", b"{}", 404),
        ("GET", "/healthz", b"", 200),
    ],
)
async def test_what_is_no_review_is_told_so(
    webhooks: WebhookServer, pair: ServingPair, method: str, path: str, body: bytes, code: int
) -> None:
    assert (await post(webhooks, pair.ca, path, body, method))[0] == code


async def test_a_conversion_is_all_or_nothing(webhooks: WebhookServer, pair: ServingPair) -> None:
    def review(*names: str) -> bytes:
        objects = [{"apiVersion": "x/v1", "metadata": {"name": name}} for name in names]
        request = {"uid": "u1", "desiredAPIVersion": "x/v2", "objects": objects}
        return orjson.dumps({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": request})

    _, good = await post(webhooks, pair.ca, "/convert", review("a", "b"))
    assert [obj["apiVersion"] for obj in good["response"]["convertedObjects"]] == ["x/v2", "x/v2"]
    _, bad = await post(webhooks, pair.ca, "/convert", review("a", "bad"))
    assert bad["response"]["result"] == {"status": "Failure", "message": "cannot be converted"}
    assert bad["response"]["convertedObjects"] == []


async def test_a_certificate_is_kept_until_two_thirds_of_its_life_and_both_are_trusted(
    client: InProcessClient, clock: FakeClock
) -> None:
    serving = ServingCertificate(client, "serving", "default", HOSTS, lifetime=timedelta(days=90), clock=clock)
    first = await serving.ensure()
    await clock.advance(59 * 86400)
    assert await serving.ensure() == first
    await clock.advance(2 * 86400)
    second = await serving.ensure()
    assert second.cert != first.cert
    assert first.ca in second.ca
    await clock.advance(61 * 86400)
    third = await serving.ensure()
    assert len(x509.load_pem_x509_certificates(third.ca)) == 2, "an authority past its time is dropped"


@pytest.mark.parametrize("damage", [{"tls.key": None}, {"tls.crt": "bm90IGEgY2VydA=="}, {"ca.crt": "other"}])
async def test_a_damaged_secret_is_made_anew(client: InProcessClient, clock: FakeClock, damage: dict[str, Any]) -> None:
    serving = ServingCertificate(client, "serving", "default", HOSTS, clock=clock)
    first = await serving.ensure()
    other = make_pair(["elsewhere"], clock.now(), timedelta(days=1))
    patch = {name: base64.b64encode(other.ca).decode() if value == "other" else value for name, value in damage.items()}
    with contextlib.suppress(KubeError):
        await client.delete(SECRETS, "serving", "default")
    data = {"tls.crt": first.cert, "tls.key": first.key, "ca.crt": first.ca}
    stored = {name: base64.b64encode(value).decode() for name, value in data.items()} | patch
    metadata = {"name": "serving", "namespace": "default"}
    await client.create(SECRETS, {"metadata": metadata, "data": {name: value for name, value in stored.items() if value}})
    second = await serving.ensure()
    assert second.cert != first.cert
    assert await serving.ensure() == second


async def test_new_hosts_need_a_new_certificate(client: InProcessClient, clock: FakeClock) -> None:
    first = await ServingCertificate(client, "serving", "default", HOSTS, clock=clock).ensure()
    wider = ServingCertificate(client, "serving", "default", (*HOSTS, "more.svc"), clock=clock)
    second = await wider.ensure()
    names = x509.load_pem_x509_certificate(second.cert).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert first.cert != second.cert
    assert names.get_values_for_type(x509.DNSName) == ["webhook.muster.svc", "more.svc"]


async def test_replicas_that_start_together_agree_on_one_certificate(client: InProcessClient, clock: FakeClock) -> None:
    replicas = [ServingCertificate(client, "serving", "default", HOSTS, clock=clock) for _ in range(5)]
    pairs = await asyncio.gather(*(replica.ensure() for replica in replicas))
    assert len({pair.cert for pair in pairs}) == 1


async def test_a_renewed_certificate_is_served_without_a_restart(
    client: InProcessClient, webhooks: WebhookServer, clock: FakeClock
) -> None:
    serving = ServingCertificate(client, "renewing", "default", HOSTS, clock=clock, lifetime=timedelta(days=3650))
    served: list[ServingPair] = []

    async def change(pair: ServingPair) -> None:
        webhooks.replace_tls(server_context(pair.cert, pair.key))
        served.append(pair)

    task = asyncio.create_task(serving.run(change))
    await settle()
    assert (await post(webhooks, served[0].ca, "/healthz", b"", "GET"))[0] == 200
    await client.delete(SECRETS, "renewing", "default")
    await clock.advance(601)
    assert len(served) == 2
    assert (await post(webhooks, served[1].ca, "/healthz", b"", "GET"))[0] == 200
    with pytest.raises(UpstreamUntrusted):
        await post(webhooks, served[0].ca, "/healthz", b"", "GET")
    task.cancel()


async def test_files_that_somebody_else_renews_are_followed(tmp_path: Path, clock: FakeClock) -> None:
    authority = Authority(tmp_path, "ca")
    pair = authority.issue("one", file="tls", hosts=("localhost",))
    seen: list[bytes] = []

    async def change(cert: bytes, key: bytes) -> None:
        server_context(cert, key)
        seen.append(cert)

    task = asyncio.create_task(follow_files(pair.cert, pair.key, change, clock=clock))
    await settle()
    authority.issue("two", file="tls", hosts=("localhost",))
    await clock.advance(10)
    assert len(seen) == 2
    pair.cert.write_text("half written")
    await clock.advance(10)
    assert len(seen) == 2
    authority.issue("three", file="tls", hosts=("localhost",))
    await clock.advance(10)
    assert len(seen) == 3
    task.cancel()


async def test_bundles_go_into_definitions_and_api_services(client: InProcessClient, pair: ServingPair) -> None:
    service = {"namespace": "default", "name": "webhook"}
    webhook = {"clientConfig": {"service": service}, "conversionReviewVersions": ["v1"]}
    spec: Object = {
        "group": "muster.io",
        "names": {"plural": "things", "kind": "Thing"},
        "scope": "Namespaced",
        "versions": [
            {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}},
        ],
        "conversion": {"strategy": "Webhook", "webhook": webhook},
    }
    await client.create(CRDS, {"metadata": {"name": "things.muster.io"}, "spec": spec})
    api = {"group": "virtual.io", "version": "v1", "groupPriorityMinimum": 10, "versionPriority": 10, "service": service}
    await client.create(API_SERVICES, {"metadata": {"name": "v1.virtual.io"}, "spec": api})

    async def bundle(resource: GVR, name: str) -> Any:
        assert await inject_ca_bundle(client, resource, name, pair.ca)
        return (await client.get(resource, name))["spec"]

    expected = base64.b64encode(pair.ca).decode()
    definition = await bundle(CRDS, "things.muster.io")
    assert definition["conversion"]["webhook"]["clientConfig"]["caBundle"] == expected
    assert (await bundle(API_SERVICES, "v1.virtual.io"))["caBundle"] == expected
