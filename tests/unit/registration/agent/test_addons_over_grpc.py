"""Addons of a cluster whose agent reaches its hub over gRPC alone: all goes over the same connection, and moves with it."""

import base64
from datetime import timedelta

import pytest
from cryptography import x509

from muster.kube import yaml
from muster.machinery.golang.timestamps import format_time
from muster.machinery.objects import Object
from muster.registration.names import AGENT_NAMESPACE
from muster.runtime.client.builtin import SECRETS
from muster.runtime.client.errors import NotFound
from muster.transport.contract.rows import ADDONS_ALPHA, SIGNING_REQUEST_ROW, TOKENS
from tests.unit.registration.agent.addon_fleet import NAMESPACE, custom, kube_client
from tests.unit.registration.agent.conftest import Fleet, until
from tests.unit.registration.agent.test_over_grpc import URL, GrpcFleet

API = "https://api.hub.example:6443"


@pytest.fixture
async def wired(fleet: Fleet) -> GrpcFleet:
    made = GrpcFleet(fleet)
    await made.introduce()
    return made


async def give_kubeconfig(wired: GrpcFleet) -> None:
    """As `join --bootstrap-kubeconfig` does."""
    kubeconfig = wired.hub.kubeconfig().replace(wired.hub.url, API)
    config = f"url: {URL}"
    secret = {"metadata": {"name": "bootstrap-hub-kubeconfig", "namespace": AGENT_NAMESPACE}}
    secret["stringData"] = {"kubeconfig": kubeconfig, "config.yaml": config}
    await wired.admin.apply(SECRETS, secret, manager="administrator")


def enable(wired: GrpcFleet, addon: str, *registrations: Object, **status: object) -> None:
    metadata = {"name": addon, "namespace": "c1"}
    wired.grpc.put(ADDONS_ALPHA, {"metadata": metadata, "spec": {}, "status": {"registrations": list(registrations), **status}})


def said(wired: GrpcFleet, addon: str, kind: str) -> Object:
    conditions = (wired.there(ADDONS_ALPHA, addon, "c1").get("status") or {}).get("conditions") or ()
    return next((one for one in conditions if one["type"] == kind), {})


async def secret_of(wired: GrpcFleet, name: str) -> dict[str, bytes]:
    try:
        found = await wired.admin.get(SECRETS, name, NAMESPACE)
    except NotFound:
        return {}
    return {key: base64.b64decode(value) for key, value in found["data"].items()}


async def test_an_addon_gets_its_certificate_over_grpc_and_goes_to_the_api_server_itself(wired: GrpcFleet) -> None:
    await give_kubeconfig(wired)
    async with wired.running():
        await wired.join_over_grpc()
        enable(wired, "work", kube_client("work"))
        await until(wired.unsigned, "a request")
        assert await secret_of(wired, "work-hub-kubeconfig") == {}
        wired.sign()
        data = await until(lambda: secret_of(wired, "work-hub-kubeconfig"), "the Secret")
        assert set(data) == {"kubeconfig", "tls.crt", "tls.key", "cluster-name"}
        assert yaml.load(data["kubeconfig"])["clusters"][0]["cluster"]["server"] == API
        assert x509.load_pem_x509_certificate(data["tls.crt"])
        await until(lambda: said(wired, "work", "ClusterCertificateRotated").get("status") == "True", "the condition")
        assert wired.there(ADDONS_ALPHA, "work", "c1")["status"]["kubeClientDriver"] == "csr"
    assert set(await wired.stored()) == {"cluster-name", "agent-name", "config.yaml", "tls.crt", "tls.key"}


async def test_without_a_way_to_the_api_server_the_condition_names_the_flag_and_custom_signers_work(wired: GrpcFleet) -> None:
    async with wired.running():
        await wired.join_over_grpc()
        enable(wired, "work", kube_client("work"), custom())
        told = await until(lambda: said(wired, "work", "ClusterCertificateRotated"), "the condition")
        assert told["status"] == "False"
        assert "--bootstrap-kubeconfig" in told["message"]
        await until(wired.unsigned, "the custom signer's request")
        wired.sign()
        data = await until(lambda: secret_of(wired, "work-example.com-custom-client-cert"), "the Secret")
        assert set(data) == {"tls.crt", "tls.key", "cluster-name"}
        assert await secret_of(wired, "work-hub-kubeconfig") == {}
        assert len(wired.grpc.objects[SIGNING_REQUEST_ROW]) == 2
        await give_kubeconfig(wired)
        await until(wired.unsigned, "the request that was not possible before")
        wired.sign()
        await until(lambda: secret_of(wired, "work-hub-kubeconfig"), "the Secret")
        await until(lambda: said(wired, "work", "ClusterCertificateRotated").get("status") == "True", "the condition being true")


async def test_health_goes_over_grpc(wired: GrpcFleet) -> None:
    async with wired.running():
        await wired.join_over_grpc()
        enable(wired, "work")
        await until(lambda: said(wired, "work", "Available").get("status") == "Unknown", "the addon being told of")


async def test_addons_move_to_a_new_certificate_with_everything_else(wired: GrpcFleet) -> None:
    async with wired.running() as agent:
        await wired.join_over_grpc(timedelta(hours=1))
        enable(wired, "work")
        await until(lambda: said(wired, "work", "Available"), "the addon being told of")
        old = {stream.channel for stream in wired.grpc.streams()}
        while not wired.unsigned():
            await wired.advance(60, step=20)
            assert wired.clock.monotonic() < 3600
        wired.sign(timedelta(hours=1))

        async def moved() -> bool:
            await wired.advance(1)
            return all(channel.closed for channel in old)

        await until(moved, "the connection being made with it")
        enable(wired, "late")
        await until(lambda: said(wired, "late", "Available"), "a later addon being told of")
        assert agent.ready


async def test_a_token_comes_over_grpc(wired: GrpcFleet) -> None:
    await give_kubeconfig(wired)
    wired.options = wired.options.__class__(**{**wired.options.__dict__, "addon_driver": "token", "addon_token_seconds": 3600})
    async with wired.running():
        await wired.join_over_grpc()
        message = "ServiceAccount c1/work-agent (UID: u-1) is ready"
        ready = {"type": "TokenInfrastructureReady", "status": "True", "reason": "TokenInfrastructureReady", "message": message}
        enable(wired, "work", kube_client("work"), conditions=[{**ready, "lastTransitionTime": format_time(wired.clock.now())}])

        async def asked() -> bool:
            await wired.advance(1)
            return any(event.event_type.data_type == TOKENS.data_type for event in wired.grpc.published)

        await until(asked, "a token being asked for")
