"""A hub whose agents come over gRPC: its server is deployed, certified for every name it goes by, told of, and taken away."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncGenerator, Callable
from typing import Any

import pytest
from cryptography import x509

from muster.api.operator.v1 import ClusterManager
from muster.machinery.objects import Object
from muster.operator.cluster_manager import exposure
from muster.operator.cluster_manager.components import GRPC_SERVER
from muster.operator.cluster_manager.controller import ClusterManagerOperator
from muster.operator.cluster_manager.plan import ClusterManagerPlan
from muster.operator.names import CLUSTER_MANAGERS
from muster.operator.options import OperatorOptions
from muster.operator.spec import BadSpec
from muster.registration.names import HUB_NAMESPACE
from muster.runtime.client.builtin import (
    CLUSTER_ROLES,
    CONFIG_MAPS,
    DEPLOYMENTS,
    NAMESPACES,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
)
from muster.runtime.client.rest import Query
from tests.unit.operator.conftest import Cluster, CountingClient, running
from tests.unit.operator.hubs import CM, CONTROLLER, IMAGE, Hub
from tests.unit.operator.test_hosted_hub import CM as HOSTED_CM
from tests.unit.operator.test_hosted_hub import HOSTED, way
from tests.unit.operator.test_hosted_hub import hub as hosted_hub

__all__ = ["hosted_hub"]

SERVER = f"{CM}-grpc-server"
SIGNER, SERVING = "signer-secret", "grpc-server-serving-cert"
MARK = "operator.open-cluster-management.io/hash-of-grpc-server-config"
GRPC = {"registrationDrivers": [{"authType": "csr"}, {"authType": "grpc"}]}


def exposed(kind: str, host: str = "", **more: Any) -> dict[str, Any]:
    exposure = {"type": kind, **({kind: {"host": host}} if host else {})}
    return {"endpointsExposure": [{"protocol": "grpc", "grpc": exposure}], **more}


def decode(secret: Object | None, key: str = "tls.crt") -> bytes:
    return base64.b64decode(((secret or {}).get("data") or {}).get(key, ""))


async def certified(place: Cluster, namespace: str = HUB_NAMESPACE) -> set[str]:
    """The names that the server's certificate bears."""
    found = decode(await place.find(SECRETS, SERVING, namespace))
    if not found:
        return set()
    names = x509.load_pem_x509_certificate(found).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return {str(name.value) for name in names}


async def until_certified(place: Cluster, *names: str, but: str = "") -> None:
    async def so() -> bool:
        found = await certified(place)
        return set(names) <= found and but not in found

    await place.until(so, f"the certificate is for {names}, not for {but}")


async def up(hub: Hub, **server: Any) -> None:
    await hub.create(registrationConfiguration=GRPC, serverConfiguration=server or exposed("hostname", "hub.example.com:443"))
    await hub.says("Applied", "True", "ClusterManagerApplied")
    await hub.available(SERVER)
    await hub.says("GrpcServerDegraded", "False", "GrpcServerFunctional")


async def test_it_is_deployed_with_its_files_account_and_rights(hub: Hub) -> None:
    await up(hub, **exposed("hostname", "hub.example.com", imagePullSpec="example.com/server:1"))
    pod = (await hub.deployment(SERVER))["spec"]["template"]["spec"]
    container = pod["containers"][0]
    assert container["image"] == "example.com/server:1"
    assert container["args"][0] == "grpc-server"
    assert "--server-config=/var/run/secrets/hub/grpc/config/config.yaml" in container["args"]
    assert pod["serviceAccountName"] == "grpc-server-sa"
    mounted = {one["name"]: one["mountPath"] for one in container["volumeMounts"]}
    where = {
        (volume.get("secret") or {}).get("secretName") or (volume.get("configMap") or {}).get("name"): mounted[volume["name"]]
        for volume in pod["volumes"]
    }
    assert where[SERVING] == "/var/run/secrets/hub/grpc/serving-cert"
    assert where["ca-bundle-configmap"] == "/var/run/secrets/hub/grpc/ca"
    assert where["grpc-server-config"] == "/var/run/secrets/hub/grpc/config"
    assert SIGNER not in where, "what signs is not on the server that everybody can reach"
    role = await hub.place.until_found(CLUSTER_ROLES, f"open-cluster-management:{CM}-grpc-server")
    assert not any("secrets" in one.get("resources", ()) or "*" in one["verbs"] for one in role["rules"])
    service = await hub.place.until_found(SERVICES, SERVER, HUB_NAMESPACE)
    assert [(port["port"], port["targetPort"]) for port in service["spec"]["ports"]] == [(8090, 8090)]


async def test_the_controllers_sign_with_the_authority_that_vouches_for_the_server(hub: Hub) -> None:
    await up(hub)
    assert "--grpc-ca-file=/var/run/secrets/hub/grpc/certs/tls.crt" in (await hub.container())["args"]
    pod = (await hub.deployment(CONTROLLER))["spec"]["template"]["spec"]
    assert [one["secret"]["secretName"] for one in pod["volumes"] if "secret" in one] == [SIGNER]
    authority = x509.load_pem_x509_certificate(decode(await hub.place.find(SECRETS, SIGNER, HUB_NAMESPACE)))
    leaf = x509.load_pem_x509_certificate(decode(await hub.place.find(SECRETS, SERVING, HUB_NAMESPACE)))
    leaf.verify_directly_issued_by(authority)
    bundle = await hub.place.until_found(CONFIG_MAPS, "ca-bundle-configmap", HUB_NAMESPACE)
    assert authority in x509.load_pem_x509_certificates(bundle["data"]["ca-bundle.crt"].encode())


async def test_its_certificate_follows_the_host_that_is_configured(hub: Hub) -> None:
    await up(hub)
    await until_certified(hub.place, "hub.example.com", f"{SERVER}.{HUB_NAMESPACE}.svc")
    before = decode(await hub.place.find(SECRETS, SIGNER, HUB_NAMESPACE))
    await hub.change({"serverConfiguration": exposed("route", "other.example.com")})
    await until_certified(hub.place, "other.example.com", but="hub.example.com")
    assert decode(await hub.place.find(SECRETS, SIGNER, HUB_NAMESPACE)) == before, "agents go on trusting whom they know"


async def test_its_certificate_follows_the_load_balancers_addresses(hub: Hub) -> None:
    await hub.create(registrationConfiguration=GRPC, serverConfiguration=exposed("loadBalancer"))
    await hub.says("Applied", "True")
    await hub.available(SERVER)
    await hub.says("GrpcServerDegraded", "True", "LoadBalancerPending")
    service = await hub.place.until_found(SERVICES, SERVER, HUB_NAMESPACE)
    assert service["spec"]["type"] == "LoadBalancer"
    assert [(port["port"], port["targetPort"]) for port in service["spec"]["ports"]] == [(443, 8090)]
    status = {"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.7"}, {"hostname": "lb.example.com"}]}}}
    await hub.place.admin.patch(SERVICES, SERVER, status, HUB_NAMESPACE, subresource="status")
    await until_certified(hub.place, "192.0.2.7", "lb.example.com")
    await hub.says("GrpcServerDegraded", "False", "GrpcServerFunctional")


async def test_a_route_is_somebody_elses_and_the_condition_says_so(hub: Hub) -> None:
    await up(hub, **exposed("route", "grpc.apps.example.com"))
    await until_certified(hub.place, "grpc.apps.example.com")
    service = await hub.place.until_found(SERVICES, SERVER, HUB_NAMESPACE)
    assert service["spec"]["type"] == "ClusterIP"
    said = await hub.says("GrpcServerDegraded", "False", "GrpcServerFunctional")
    assert "a Route of grpc.apps.example.com that passes TLS through to port 8090 of Service" in said["message"]
    assert "an administrator has to make it" in said["message"]


async def configure(hub: Hub, text: str, namespace: str = HUB_NAMESPACE) -> None:
    """As an administrator does: the ConfigMap has no mark of the operator's."""
    document = {"metadata": {"name": "grpc-server-config", "namespace": namespace}, "data": {"config.yaml": text}}
    await hub.place.admin.apply(CONFIG_MAPS, document, manager="kubectl")


async def test_another_configuration_is_rolled_out(hub: Hub) -> None:
    await up(hub)

    async def mark() -> str:
        template = (await hub.deployment(SERVER))["spec"]["template"]
        return str((template["metadata"].get("annotations") or {}).get(MARK) or "")

    async def until_marked(but: str) -> str:
        async def so() -> bool:
            return await mark() != but

        await hub.place.until(so, f"the pods' mark is another than {but!r}")
        return await mark()

    assert await mark() == "", "a hub without a configuration is not rolled out for it"
    others = {name: (await hub.deployment(name))["metadata"]["generation"] for name in (CONTROLLER,)}
    await configure(hub, "max_connection_age: 1h")
    first = await until_marked("")
    await configure(hub, "max_connection_age: 2h")
    second = await until_marked(first)
    assert "" not in (first, second)
    await hub.place.admin.delete(CONFIG_MAPS, "grpc-server-config", HUB_NAMESPACE)
    assert await until_marked(second) == ""
    assert {name: (await hub.deployment(name))["metadata"]["generation"] for name in others} == others


class Late(CountingClient):
    """Hears late of the administrator's configuration."""

    def hold(self) -> None:
        self.__dict__.update(heard=asyncio.Event(), asked=asyncio.Event(), followed=set())

    async def lines(
        self, path: str, query: Query, timeout: float | None, opened: Callable[[], None] | None
    ) -> AsyncGenerator[bytes, None]:
        if "grpc-server-config" in query.get("fieldSelector", ""):
            self.__dict__["asked"].set()
            await self.__dict__["heard"].wait()
        async for line in super().lines(path, query, timeout, opened):
            self.__dict__["followed"].add(path.rpartition("/")[2])
            yield line


async def test_an_operator_that_starts_again_rolls_nothing_out(hub: Hub) -> None:
    """Before it knows of the configuration it does nothing: without its mark the pods would be replaced, and then again."""
    await configure_before(hub)
    before = (await hub.deployment(SERVER))["metadata"]["generation"]
    again = Late(hub.place.server.client(hub.place.server.clusters[hub.place.name]), hub.place.name)
    again.hold()

    async def followed() -> bool:
        return {"clustermanagers", "nodes", "deployments"} <= again.__dict__["followed"]

    async def passed() -> bool:
        return any(path.endswith(SERVING) for _, path in again.__dict__.get("requests", ()))

    async with running(ClusterManagerOperator(again, OperatorOptions(image=IMAGE)).manager.run()):
        await again.__dict__["asked"].wait()
        await hub.place.until(followed, "it knows everything else")
        for _ in range(500):
            await asyncio.sleep(0)
        assert not await passed()
        again.__dict__["heard"].set()
        await hub.place.until(passed, "it has begun a pass")
        await hub.says("GrpcServerDegraded", "False", "GrpcServerFunctional")
    assert (await hub.deployment(SERVER))["metadata"]["generation"] == before


async def configure_before(hub: Hub) -> None:
    await up(hub)
    await configure(hub, "max_connection_age: 1h")

    async def marked() -> bool:
        return MARK in ((await hub.deployment(SERVER))["spec"]["template"]["metadata"].get("annotations") or {})

    await hub.place.until(marked, "the pods have the mark")


async def test_a_configuration_that_the_server_would_refuse_is_told_by_its_key(hub: Hub) -> None:
    await up(hub)
    await configure(hub, "max_conection_age: 1h")
    said = await hub.says("GrpcServerDegraded", "True", "GrpcServerConfigInvalid")
    assert said["message"].startswith(f"ConfigMap {HUB_NAMESPACE}/grpc-server-config: config.yaml: max_conection_age: no such key")
    await configure(hub, "max_connection_age: 1h")
    await hub.place.set_available(SERVER, HUB_NAMESPACE)
    await hub.says("GrpcServerDegraded", "False", "GrpcServerFunctional")


async def test_gates_of_registration_reach_it_and_it_has_none_of_its_own(hub: Hub) -> None:
    gates = {"featureGates": [{"feature": "ManagedClusterAgentRestriction", "mode": "Enable"}]}
    server = {"featureGates": [{"feature": "Unheard", "mode": "Enable"}]}
    await hub.create(registrationConfiguration={**GRPC, **gates}, serverConfiguration=server)
    await hub.says("Applied", "True")
    assert "--feature-gates=ManagedClusterAgentRestriction=true" in (await hub.container(SERVER))["args"]
    said = await hub.says("ValidFeatureGates", "False")
    assert "server: [Unheard]" in said["message"]


async def test_a_host_that_is_none_is_told_in_the_condition(hub: Hub) -> None:
    await hub.create(registrationConfiguration=GRPC, serverConfiguration=exposed("hostname", "not a host"))
    said = await hub.says("Applied", "False")
    assert said["message"].startswith("spec.serverConfiguration.endpointsExposure[0].grpc.hostname.host: ")


async def test_secrets_that_vanish_are_made_again(hub: Hub) -> None:
    await up(hub)
    await hub.place.admin.delete(SECRETS, SERVING, HUB_NAMESPACE)
    await until_certified(hub.place, "hub.example.com")


async def test_the_condition_tells_of_pods_that_are_not_there(hub: Hub) -> None:
    await up(hub)
    await hub.place.set_available(SERVER, HUB_NAMESPACE, available=False)
    await hub.says("GrpcServerDegraded", "True", "UnavailableGrpcServerPod")


async def test_without_the_driver_there_is_nothing_of_it_but_the_authority(hub: Hub) -> None:
    await hub.up()
    assert await hub.place.find(DEPLOYMENTS, SERVER, HUB_NAMESPACE) is None
    assert await hub.place.find(SECRETS, SERVING, HUB_NAMESPACE) is None
    assert await hub.place.find(SECRETS, SIGNER, HUB_NAMESPACE), "as with OCM"
    assert await hub.place.condition(CLUSTER_MANAGERS, CM, "GrpcServerDegraded") == {}


async def test_when_the_driver_goes_so_does_the_server_but_not_the_authority(hub: Hub) -> None:
    await up(hub)
    await hub.change({"registrationConfiguration": {"registrationDrivers": [{"authType": "csr"}]}})
    for resource, name in ((DEPLOYMENTS, SERVER), (SERVICES, SERVER), (SECRETS, SERVING), (SERVICE_ACCOUNTS, "grpc-server-sa")):
        await hub.place.until_gone(resource, name, HUB_NAMESPACE)
    await hub.says("GrpcServerDegraded", "False", "GrpcServerNotWanted")
    assert await hub.place.find(SECRETS, SIGNER, HUB_NAMESPACE) is not None


async def test_deleted_it_leaves_nothing_behind(hub: Hub) -> None:
    await up(hub)
    await hub.place.admin.delete(CLUSTER_MANAGERS, CM)
    await hub.until_gone()
    assert await hub.remains() == []


async def test_a_hub_at_rest_costs_no_writes(hub: Hub) -> None:
    await up(hub)
    await hub.says("Progressing", "False")
    hub.client.taken()
    await hub.place.admin.patch(CLUSTER_MANAGERS, CM, {"metadata": {"labels": {"a": "b"}}})

    async def looked() -> bool:
        return any(path.endswith(f"/secrets/{SERVING}") for _, path in hub.client.__dict__.get("requests", ()))

    await hub.place.until(looked, "it has looked at the certificate")
    assert {verb for verb, _ in hub.client.taken()} == {"GET"}


async def test_a_hosted_hub_has_its_server_where_its_components_are(hosted_hub: Hub, far: Cluster) -> None:
    hub = hosted_hub
    server = f"{HOSTED_CM}-grpc-server"
    configured = exposed("hostname", "hub.example.com")
    await hub.create(HOSTED_CM, **HOSTED, registrationConfiguration=GRPC, serverConfiguration=configured)
    await hub.place.until_found(NAMESPACES, HOSTED_CM)
    await hub.place.admin.create(SECRETS, way())
    await hub.says("Applied", "True", name=HOSTED_CM)
    pod = (await hub.place.until_found(DEPLOYMENTS, server, HOSTED_CM))["spec"]["template"]["spec"]
    assert "--kubeconfig=/hub-kubeconfig/kubeconfig" in pod["containers"][0]["args"]
    assert {f"{server}.{HOSTED_CM}.svc", "hub.example.com"} <= await certified(hub.place, HOSTED_CM)
    assert await far.find(SERVICE_ACCOUNTS, "grpc-server-sa", HUB_NAMESPACE)
    assert await hub.place.find(SECRETS, "grpc-server-sa-kubeconfig", HOSTED_CM)
    assert await far.find(SECRETS, SIGNER, HUB_NAMESPACE) is None, "the key is where it is used"
    await hub.place.admin.delete(CLUSTER_MANAGERS, HOSTED_CM)
    await hub.until_gone(HOSTED_CM)
    assert await Hub(far, hub.client).remains() == []
    assert await hub.place.find(NAMESPACES, HOSTED_CM) is None


def plan(server: Object) -> ClusterManagerPlan:
    spec = {"registrationConfiguration": GRPC, "serverConfiguration": server}
    return ClusterManagerPlan(ClusterManager.decode({"metadata": {"name": CM}, "spec": spec}), "muster:1")


@pytest.mark.parametrize(
    ("given", "host"),
    [
        ("hub.example.com", "hub.example.com"),
        ("hub.example.com:8443", "hub.example.com"),
        ("https://hub.example.com:8443", "hub.example.com"),
        ("192.0.2.1:443", "192.0.2.1"),
        ("2001:db8::1", "2001:db8::1"),
        ("[2001:db8::1]:443", "2001:db8::1"),
    ],
)
def test_a_host_is_certified_without_the_port(given: str, host: str) -> None:
    assert exposure.hosts(plan(exposed("hostname", given)), None)[-1] == host


@pytest.mark.parametrize("host", ["", "not a host", "-a", "*.example.com", "a..b"])
def test_a_host_that_is_none_is_refused_by_its_field(host: str) -> None:
    with pytest.raises(BadSpec, match=r"spec.serverConfiguration.endpointsExposure\[0\].grpc.hostname.host: "):
        exposure.hosts(plan(exposed("hostname", host)), None)


def test_several_exposures_share_the_service() -> None:
    both = exposed("hostname", "hub.example.com")["endpointsExposure"] + exposed("loadBalancer")["endpointsExposure"]
    found = exposure.service(plan({"endpointsExposure": both}))
    assert [port["port"] for port in found["spec"]["ports"]] == [8090, 443]


@pytest.mark.parametrize(("names", "wanted"), [((), False), (("csr",), False), (("unheard",), False), (("csr", "grpc"), True)])
def test_the_server_runs_only_where_a_driver_wants_it(names: tuple[str, ...], wanted: bool) -> None:
    drivers = {"registrationDrivers": [{"authType": name} for name in names]}
    manager = ClusterManager.decode({"metadata": {"name": CM}, "spec": {"registrationConfiguration": drivers}})
    assert GRPC_SERVER.wanted(ClusterManagerPlan(manager, "muster:1")) is wanted
