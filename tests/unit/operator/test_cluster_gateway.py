"""A hub with a gateway: deployed and certified, led to once it answers and where nothing is in the way, and taken away in order."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import pytest
from cryptography import x509

from muster.api.operator.v1 import ClusterManager
from muster.api.proxy.v1alpha1 import GROUP
from muster.gateway.apiservice import (
    ADDRESS_ANNOTATION,
    API_VERSION_ANNOTATION,
    LOOPBACK_ANNOTATION,
    OAM_ANNOTATION,
    SERVICE,
    SERVING_SECRET,
    other_owner,
)
from muster.gateway.names import CLUSTER_PROXY_ANNOTATION, CREDENTIALS_NAMESPACE, OAM_GROUP
from muster.gateway.permissions import ACCOUNT
from muster.machinery.objects import Object
from muster.operator.bundle import CLUSTER_MANAGER_OPERATOR, bundle
from muster.operator.cluster_manager import manifests, status
from muster.operator.cluster_manager.components import GATEWAY
from muster.operator.cluster_manager.plan import ClusterManagerPlan
from muster.operator.deployments import Rollout
from muster.operator.names import CLUSTER_MANAGERS
from muster.operator.spec import BadSpec
from muster.registration.names import HUB_NAMESPACE
from muster.runtime.client import Forbidden
from muster.runtime.client.builtin import (
    API_SERVICES,
    CLUSTER_ROLES,
    CONFIG_MAPS,
    CRDS,
    DEPLOYMENTS,
    NAMESPACES,
    ROLES,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
)
from tests.support.eventually import eventually
from tests.unit.operator.conftest import Cluster
from tests.unit.operator.hubs import CM, IMAGE, Hub
from tests.unit.operator.test_hosted_hub import CM as HOSTED_CM
from tests.unit.operator.test_hosted_hub import HOSTED, way
from tests.unit.operator.test_hosted_hub import hub as hosted_hub

__all__ = ["hosted_hub"]

NAME, ADDONS = f"{CM}-cluster-gateway", f"{CM}-hub-addons-controller"
ON = {"featureGates": [{"feature": "ClusterGateway", "mode": "Enable"}]}
OFF = {"featureGates": [{"feature": "ClusterGateway", "mode": "Disable"}]}
DEGRADED = "ClusterGatewayDegraded"
API_SERVICE, ANOTHER, OAM = f"v1alpha1.{GROUP}", f"v1beta1.{GROUP}", f"v1alpha1.{OAM_GROUP}"


async def annotate(hub: Hub, key: str, value: str | None) -> None:
    await hub.place.admin.patch(CLUSTER_MANAGERS, CM, {"metadata": {"annotations": {key: value}}})


async def begun(hub: Hub) -> None:
    await hub.create(addOnManagerConfiguration=ON)
    await hub.says("Applied", "True", "ClusterManagerApplied")


async def led_to(hub: Hub) -> None:
    await begun(hub)
    await hub.available(NAME, ADDONS)
    await hub.says(DEGRADED, "True", "APIServiceUnavailable")
    await hub.place.until_found(API_SERVICES, API_SERVICE)


def plan(annotations: dict[str, str] | None = None, **spec: Any) -> ClusterManagerPlan:
    document = {"metadata": {"name": CM, "annotations": annotations or {}}, "spec": {"addOnManagerConfiguration": ON, **spec}}
    return ClusterManagerPlan(ClusterManager.decode(document), IMAGE)


def definition(version: str = "v1alpha1") -> Object:
    schema = {"openAPIV3Schema": {"type": "object"}}
    names = {"plural": "managedproxyconfigurations", "kind": "ManagedProxyConfiguration"}
    return {
        "apiVersion": CRDS.api_version,
        "kind": CRDS.kind,
        "metadata": {"name": f"managedproxyconfigurations.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Cluster",
            "names": names,
            "versions": [{"name": version, "served": True, "storage": True, "schema": schema}],
        },
    }


async def test_a_hub_has_none_by_default_and_says_nothing_of_it(hub: Hub) -> None:
    await hub.up()
    assert await hub.place.find(DEPLOYMENTS, NAME, HUB_NAMESPACE) is None
    assert await hub.place.find(SERVICES, SERVICE, HUB_NAMESPACE) is None
    assert await hub.place.find(SECRETS, SERVING_SECRET, HUB_NAMESPACE) is None
    found = await hub.place.admin.get(CLUSTER_MANAGERS, CM)
    assert DEGRADED not in {one["type"] for one in found["status"]["conditions"]}
    assert "--feature-gates" not in str((await hub.container(f"{CM}-addon-manager-controller"))["args"])


async def test_it_is_deployed_as_its_own_account_with_its_certificate(hub: Hub) -> None:
    await begun(hub)
    pod = (await hub.deployment(NAME))["spec"]["template"]["spec"]
    container = pod["containers"][0]
    assert container["args"][:2] == ["gateway", "--no-install"]
    assert {"--secure-port=8443", "--bind-address=$(POD_IP)", "--api-version=v1alpha1"} <= set(container["args"])
    assert "--allow-loopback-endpoints" not in container["args"]
    assert pod["serviceAccountName"] == ACCOUNT
    assert container["readinessProbe"]["httpGet"]["port"] == "health"
    assert {"name": "https", "containerPort": 8443, "protocol": "TCP"} in container["ports"]
    secret = await hub.place.until_found(SECRETS, SERVING_SECRET, HUB_NAMESPACE)
    leaf = x509.load_pem_x509_certificate(base64.b64decode(secret["data"]["tls.crt"]))
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value.get_values_for_type(x509.DNSName)
    assert f"{SERVICE}.{HUB_NAMESPACE}.svc" in names
    service = await hub.place.until_found(SERVICES, SERVICE, HUB_NAMESPACE)
    assert (service["spec"]["ports"][0]["port"], service["spec"]["ports"][0]["targetPort"]) == (443, 8443)


async def test_it_is_told_of_cluster_proxy_whose_secrets_may_come_later(hub: Hub) -> None:
    await begun(hub)
    before = (await hub.deployment(NAME))["spec"]["template"]["spec"]
    assert not any("--proxy" in argument for argument in before["containers"][0]["args"])
    assert "proxy-client" not in {volume["name"] for volume in before["volumes"]}
    await annotate(hub, CLUSTER_PROXY_ANNOTATION, "proxy-entrypoint.ocm-addon.svc")

    async def told() -> Object | None:
        pod: Object = (await hub.deployment(NAME))["spec"]["template"]["spec"]
        return pod if any("--proxy" in argument for argument in pod["containers"][0]["args"]) else None

    pod = await eventually(told, "the flags of cluster-proxy")
    files = "/var/run/secrets/hub/gateway"
    assert pod["containers"][0]["args"][-5:] == [
        "--proxy-host=proxy-entrypoint.ocm-addon.svc",
        "--proxy-port=8090",
        f"--proxy-ca-cert={files}/proxy-server-ca/ca.crt",
        f"--proxy-cert={files}/proxy-client/tls.crt",
        f"--proxy-key={files}/proxy-client/tls.key",
    ]
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    mounts = {mount["name"]: mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"]}
    for name in ("proxy-server-ca", "proxy-client"):
        assert (volumes[name]["secret"]["secretName"], volumes[name]["secret"]["optional"]) == (name, True)
        assert mounts[name] == f"{files}/{name}"


def test_cluster_proxy_may_have_another_port() -> None:
    assert plan({CLUSTER_PROXY_ANNOTATION: "proxy.example:8443"}).gateway_cluster_proxy == ("proxy.example", 8443)


async def test_it_may_read_the_secrets_it_needs_and_no_others(hub: Hub) -> None:
    await begun(hub)
    await hub.place.until_found(SERVICE_ACCOUNTS, ACCOUNT, HUB_NAMESPACE)
    gateway = hub.place.account(HUB_NAMESPACE, ACCOUNT)
    await gateway.list(SECRETS, CREDENTIALS_NAMESPACE)
    await gateway.list(SECRETS, field_selector="metadata.name=cluster-gateway")
    await gateway.get(CONFIG_MAPS, "extension-apiserver-authentication", "kube-system")
    with pytest.raises(Forbidden):
        await gateway.list(SECRETS)
    with pytest.raises(Forbidden):
        await gateway.list(SECRETS, HUB_NAMESPACE)
    with pytest.raises(Forbidden):
        await gateway.delete(SECRETS, "c1", CREDENTIALS_NAMESPACE)


async def test_the_operator_cannot_read_clusters_credentials(hub: Hub) -> None:
    await begun(hub)
    with pytest.raises(Forbidden):
        await hub.client.list(SECRETS, CREDENTIALS_NAMESPACE)


async def test_the_api_server_is_led_to_it_only_when_it_is_available(hub: Hub) -> None:
    await begun(hub)
    await hub.available()
    await hub.says(DEGRADED, "True", "UnavailableClusterGatewayPod")
    assert await hub.place.find(API_SERVICES, API_SERVICE) is None
    await hub.place.set_available(NAME, HUB_NAMESPACE)
    found = await hub.place.until_found(API_SERVICES, API_SERVICE)
    assert found["spec"]["service"] == {"name": SERVICE, "namespace": HUB_NAMESPACE, "port": 443}
    secret = await hub.place.until_found(SECRETS, SERVING_SECRET, HUB_NAMESPACE)
    assert found["spec"]["caBundle"] == secret["data"]["ca.crt"]
    await hub.says(DEGRADED, "True", "APIServiceUnavailable")


async def test_one_that_is_led_to_stays_so_though_it_does_not_answer(hub: Hub) -> None:
    await led_to(hub)
    await hub.place.set_available(NAME, HUB_NAMESPACE, available=False)
    await hub.says(DEGRADED, "True", "UnavailableClusterGatewayPod")
    assert await hub.place.find(API_SERVICES, API_SERVICE)


async def test_a_certificate_that_is_lost_is_made_anew_and_trusted(hub: Hub) -> None:
    await led_to(hub)
    before = await hub.place.until_found(SECRETS, SERVING_SECRET, HUB_NAMESPACE)
    await hub.place.admin.delete(SECRETS, SERVING_SECRET, HUB_NAMESPACE)

    async def trusted() -> bool:
        secret = await hub.place.find(SECRETS, SERVING_SECRET, HUB_NAMESPACE)
        found = await hub.place.until_found(API_SERVICES, API_SERVICE)
        anew = secret is not None and secret["data"]["tls.crt"] != before["data"]["tls.crt"]
        return anew and secret is not None and found["spec"]["caBundle"] == secret["data"]["ca.crt"]

    await hub.place.until(trusted, "the new certificate is trusted")


async def test_custom_resources_in_the_version_are_told_of_and_not_hidden(hub: Hub) -> None:
    await hub.place.admin.create(CRDS, definition())
    await begun(hub)
    await hub.available(NAME, ADDONS)
    said = await hub.says(DEGRADED, "True", "GroupVersionTaken")
    assert f"managedproxyconfigurations.{GROUP}" in said["message"]
    assert "--api-version v1beta1" in said["message"]
    kept = await hub.place.until_found(API_SERVICES, API_SERVICE)
    assert "service" not in kept["spec"]
    await annotate(hub, API_VERSION_ANNOTATION, "v1beta1")
    await hub.place.until_found(API_SERVICES, ANOTHER)
    assert "--api-version=v1beta1" in (await hub.container(NAME))["args"]


async def test_another_version_replaces_the_one_before(hub: Hub) -> None:
    await led_to(hub)
    await annotate(hub, API_VERSION_ANNOTATION, "v1beta1")
    await hub.place.until_found(DEPLOYMENTS, NAME, HUB_NAMESPACE)

    async def told() -> bool:
        return "--api-version=v1beta1" in (await hub.container(NAME))["args"]

    await hub.place.until(told, "the gateway is told")
    await hub.place.set_available(NAME, HUB_NAMESPACE)
    await hub.place.until_found(API_SERVICES, ANOTHER)
    await hub.place.until_gone(API_SERVICES, API_SERVICE)


async def test_upstreams_group_is_served_by_option(hub: Hub) -> None:
    await led_to(hub)
    assert await hub.place.find(API_SERVICES, OAM) is None
    await annotate(hub, OAM_ANNOTATION, "true")

    async def told() -> bool:
        return "--oam-api" in (await hub.container(NAME))["args"]

    await hub.place.until(told, "the gateway is told")
    await hub.place.set_available(NAME, HUB_NAMESPACE)
    assert (await hub.place.until_found(API_SERVICES, OAM))["spec"]["group"] == OAM_GROUP
    await annotate(hub, OAM_ANNOTATION, None)
    await hub.place.until_gone(API_SERVICES, OAM)


async def test_switched_off_it_goes_and_its_api_service_first(hub: Hub) -> None:
    await led_to(hub)
    hub.client.taken()
    await hub.change({"addOnManagerConfiguration": OFF})
    await hub.place.until_gone(DEPLOYMENTS, NAME, HUB_NAMESPACE)
    await hub.place.until_gone(SECRETS, SERVING_SECRET, HUB_NAMESPACE)
    await hub.says(DEGRADED, "False", "ClusterGatewayNotWanted")
    assert await hub.place.find(API_SERVICES, API_SERVICE) is None
    assert await hub.place.find(SERVICES, SERVICE, HUB_NAMESPACE) is None
    assert await hub.place.find(SERVICE_ACCOUNTS, ACCOUNT, HUB_NAMESPACE) is None
    assert await hub.place.find(CLUSTER_ROLES, f"open-cluster-management:{CM}-cluster-gateway") is None
    assert await hub.place.find(ROLES, "open-cluster-management:cluster-gateway", "kube-system") is None
    deleted = [path for verb, path in hub.client.taken() if verb == "DELETE"]
    assert deleted[0].endswith(API_SERVICE)
    # Users' credentials stay.
    assert await hub.place.find(NAMESPACES, CREDENTIALS_NAMESPACE)


async def test_with_the_hub_its_api_service_goes_before_all_else(hub: Hub) -> None:
    await led_to(hub)
    hub.client.taken()
    await hub.place.admin.delete(CLUSTER_MANAGERS, CM)
    await hub.until_gone()
    deleted = [path for verb, path in hub.client.taken() if verb == "DELETE"]
    assert deleted[0].endswith(API_SERVICE)
    assert await hub.remains() == []
    assert await hub.place.find(ROLES, "open-cluster-management:cluster-gateway", "kube-system") is None


async def test_somebody_elses_api_service_is_left_alone(hub: Hub) -> None:
    foreign = manifests.gateway_api_services(plan(), b"ca")[0][1]
    spec = {**foreign["spec"], "service": {"name": "other", "namespace": "other", "port": 443}}
    await hub.place.admin.create(
        API_SERVICES, {"apiVersion": API_SERVICES.api_version, "kind": API_SERVICES.kind, **foreign, "spec": spec}
    )
    await begun(hub)
    await hub.available(NAME, ADDONS)
    said = await hub.says(DEGRADED, "True", "GroupVersionTaken")
    assert "other/other" in said["message"]
    await hub.place.admin.delete(CLUSTER_MANAGERS, CM)
    await hub.until_gone()
    assert (await hub.place.until_found(API_SERVICES, API_SERVICE))["spec"]["service"]["name"] == "other"


async def test_at_rest_nothing_is_asked(hub: Hub) -> None:
    await led_to(hub)
    await hub.says("Progressing", "False", "ClusterManagerUpToDate")
    settled = 0
    while settled < 3:
        await asyncio.sleep(0.05)
        settled = settled + 1 if not hub.client.taken() else 0


async def test_with_it_come_the_addons_that_let_it_into_clusters(hub: Hub) -> None:
    await led_to(hub)
    arguments = (await hub.container(ADDONS))["args"]
    assert arguments[:2] == ["hub-addons", "--no-install"]
    assert {"--names=managed-serviceaccount,cluster-gateway", f"--agent-image={IMAGE}"} <= set(arguments)
    for addon in ("managed-serviceaccount", "cluster-gateway"):
        await hub.place.until_found(manifests.CLUSTER_ADDONS, addon)
    await hub.place.until_found(CRDS, "managedserviceaccounts.authentication.open-cluster-management.io")
    assert await hub.place.find(CRDS, "managedserviceaccountbindings.authentication.open-cluster-management.io") is None


async def test_accounts_can_be_had_without_it(hub: Hub) -> None:
    await hub.create(addOnManagerConfiguration={"featureGates": [{"feature": "ManagedServiceAccount", "mode": "Enable"}]})
    await hub.says("Applied", "True", "ClusterManagerApplied")
    await hub.available(ADDONS)
    await hub.place.until_found(manifests.CLUSTER_ADDONS, "managed-serviceaccount")
    assert "--names=managed-serviceaccount" in (await hub.container(ADDONS))["args"]
    assert await hub.place.find(DEPLOYMENTS, NAME, HUB_NAMESPACE) is None
    assert await hub.place.find(manifests.CLUSTER_ADDONS, "cluster-gateway") is None


async def test_a_hosted_hub_is_led_elsewhere_by_a_service_that_is_a_name(hosted_hub: Hub, far: Cluster) -> None:
    hub, name = hosted_hub, f"{HOSTED_CM}-cluster-gateway"
    document = {
        "apiVersion": CLUSTER_MANAGERS.api_version,
        "kind": "ClusterManager",
        "metadata": {"name": HOSTED_CM, "annotations": {ADDRESS_ANNOTATION: "gateway.example.com:8443"}},
        "spec": {**HOSTED, "addOnManagerConfiguration": ON},
    }
    await hub.place.admin.create(CLUSTER_MANAGERS, document)
    await hub.place.until_found(NAMESPACES, HOSTED_CM)
    await hub.place.admin.create(SECRETS, way())
    await hub.says("Applied", "True", name=HOSTED_CM)
    await hub.place.set_available(name, HOSTED_CM)
    found = await far.until_found(API_SERVICES, API_SERVICE)
    assert found["spec"]["service"] == {"name": SERVICE, "namespace": HUB_NAMESPACE, "port": 8443}
    service = await far.until_found(SERVICES, SERVICE, HUB_NAMESPACE)
    assert (service["spec"]["type"], service["spec"]["externalName"]) == ("ExternalName", "gateway.example.com")
    gateway = far.account(HUB_NAMESPACE, ACCOUNT)
    await gateway.list(SECRETS, CREDENTIALS_NAMESPACE)
    secret = await hub.place.until_found(SECRETS, SERVING_SECRET, HOSTED_CM)
    assert secret["data"]["ca.crt"] == found["spec"]["caBundle"]
    assert await hub.place.find(API_SERVICES, API_SERVICE) is None


@pytest.mark.parametrize(
    "annotations",
    [
        {API_VERSION_ANNOTATION: "v7"},
        {OAM_ANNOTATION: "perhaps"},
        {LOOPBACK_ANNOTATION: "1"},
        {CLUSTER_PROXY_ANNOTATION: "https://proxy"},
        {CLUSTER_PROXY_ANNOTATION: "proxy:port"},
        {CLUSTER_PROXY_ANNOTATION: "user@proxy"},
        {CLUSTER_PROXY_ANNOTATION: "no such host"},
    ],
)
def test_what_cannot_be_is_refused_by_name(annotations: dict[str, str]) -> None:
    with pytest.raises(BadSpec) as refused:
        manifests.components(plan(annotations))
    assert f"metadata.annotations[{next(iter(annotations))}]" in str(refused.value)


@pytest.mark.parametrize("address", ["", "no such host", "https://gateway", "gateway:port", "gateway/path"])
def test_a_hosted_hub_must_be_told_an_address(address: str) -> None:
    with pytest.raises(BadSpec, match="gateway-address"):
        manifests.gateway_on_hosted_hub(plan({ADDRESS_ANNOTATION: address}, **HOSTED))


def test_an_address_without_a_port_is_at_the_usual_one() -> None:
    assert plan({ADDRESS_ANNOTATION: "gateway.example.com"}, **HOSTED).gateway_address == ("gateway.example.com", 443)


def test_it_is_well_when_every_api_service_is_available() -> None:
    one = plan()
    fine = {GATEWAY.deployment(one): Rollout(1, 1, True)}
    available = {"status": {"conditions": [{"type": "Available", "status": "True"}]}}
    (said,) = status.gateway(one, fine, {API_SERVICE: available}, "")
    assert (said.status, said.reason) == ("False", "ClusterGatewayFunctional")
    failing = {"status": {"conditions": [{"type": "Available", "status": "False", "reason": "FailedDiscoveryCheck"}]}}
    (said,) = status.gateway(one, fine, {API_SERVICE: available, OAM: failing}, "")
    assert (said.status, said.reason) == ("True", "APIServiceUnavailable")
    assert OAM in said.message
    assert "FailedDiscoveryCheck" in said.message


def test_the_bundle_has_the_namespace_of_credentials_and_who_reads_it() -> None:
    found = {(resource.kind, document["metadata"]["name"]): document for resource, document in bundle(CLUSTER_MANAGER_OPERATOR)}
    assert ("Namespace", CREDENTIALS_NAMESPACE) in found
    bound = found["RoleBinding", "open-cluster-management:cluster-gateway"]
    assert bound["subjects"] == [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": HUB_NAMESPACE}]


def test_an_api_service_of_the_api_server_itself_is_not_the_gateways() -> None:
    metadata = {"name": API_SERVICE}
    assert "own" in other_owner({"metadata": metadata, "spec": {}}, HUB_NAMESPACE)
    labels = {"kube-aggregator.kubernetes.io/automanaged": "true"}
    assert "custom resources" in other_owner({"metadata": {**metadata, "labels": labels}, "spec": {}}, HUB_NAMESPACE)
