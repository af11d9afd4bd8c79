"""`clusteradm doctor` on a hub with a gateway: all that can be wrong on the way to it has a line of its own, and a remedy."""

from __future__ import annotations

import base64
import json
from datetime import timedelta
from typing import Any

import pytest

from muster.administration.content.addons import ADDONS
from muster.administration.findings import Diagnosis, Finding
from muster.administration.gateway_diagnosis import gateway
from muster.api.cluster.v1 import ManagedCluster
from muster.api.proxy.v1alpha1 import GROUP
from muster.gateway.apiservice import API_VERSION_ANNOTATION, SERVING_SECRET, api_service
from muster.kube.certificates import SERVER_AUTH, CertificateAuthority
from muster.machinery.clock import SYSTEM
from muster.operator.names import CLUSTER_MANAGERS
from muster.registration.names import HUB_NAMESPACE
from muster.runtime.client.builtin import API_SERVICES, CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, CRDS, DEPLOYMENTS, SECRETS
from muster.runtime.client.delegating_client import DelegatingClient
from muster.runtime.install import binding, ensure_namespace
from tests.unit.cli.clusteradm.conftest import AVAILABLE, PLAIN, Fleet
from tests.unit.operator.test_cluster_gateway import definition

NAME = f"v1alpha1.{GROUP}"


async def doctor(fleet: Fleet) -> list[dict[str, str]]:
    found = json.loads((await fleet.run("doctor", "cluster1", "-o", "json")).stdout)["cluster1"]
    return [one for one in found if one["subject"].startswith("gateway")]


async def only(fleet: Fleet) -> dict[str, str]:
    (one,) = await doctor(fleet)
    return one


async def switched_on(fleet: Fleet) -> None:
    await fleet.cluster("cluster1", spec={"hubAcceptsClient": True}, status={"conditions": AVAILABLE})
    await fleet.ok("init", "--force", "--feature-gates=ClusterGateway=true")


async def deploy(fleet: Fleet) -> None:
    template = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "gateway", "image": "muster"}]}}
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": "x"}}, "template": template}
    metadata = {"name": "cluster-manager-cluster-gateway", "namespace": HUB_NAMESPACE}
    made = await fleet.admin().apply(DEPLOYMENTS, {"metadata": metadata, "spec": spec}, manager="test")
    counts = dict.fromkeys(("replicas", "updatedReplicas", "readyReplicas", "availableReplicas"), 1)
    status = {"observedGeneration": made["metadata"]["generation"], **counts}
    await fleet.admin().patch(DEPLOYMENTS, metadata["name"], {"status": status}, metadata["namespace"], subresource="status")


async def certify(fleet: Fleet, lifetime: timedelta = timedelta(days=1)) -> CertificateAuthority:
    authority = CertificateAuthority.create("gateway", SYSTEM.now() - timedelta(days=2))
    begin = SYSTEM.now() - timedelta(hours=1)
    pair = authority.issue("gateway", begin, lifetime, usages=(SERVER_AUTH,), hosts=["gateway"])
    data = {"tls.crt": base64.b64encode(pair.certificate).decode(), "tls.key": base64.b64encode(pair.key).decode()}
    document = {"metadata": {"name": SERVING_SECRET, "namespace": HUB_NAMESPACE}, "data": data}
    await fleet.admin().apply(SECRETS, document, manager="test")
    return authority


async def register(fleet: Fleet, ca: bytes, service: str = "cluster-gateway") -> None:
    document = api_service(GROUP, "v1alpha1", HUB_NAMESPACE, ca)
    document["spec"]["service"]["name"] = service
    await fleet.admin().apply(API_SERVICES, document, manager="test")


async def test_nothing_is_said_where_there_is_none(fleet: Fleet) -> None:
    await fleet.cluster("cluster1", spec={"hubAcceptsClient": True}, status={"conditions": AVAILABLE})
    assert await doctor(fleet) == []
    await fleet.ok("init", "--force")
    assert await doctor(fleet) == []


async def test_it_goes_along_the_way_to_the_gateway(fleet: Fleet) -> None:
    await switched_on(fleet)
    assert "it is not there yet" in (await only(fleet))["text"]
    await deploy(fleet)
    assert "the API server is not led to it" in (await only(fleet))["text"]
    await register(fleet, CertificateAuthority.create("another", SYSTEM.now()).pem)
    assert f"Secret {HUB_NAMESPACE}/{SERVING_SECRET}" in (await only(fleet))["text"]
    authority = await certify(fleet)
    assert "is of no authority in the caBundle" in (await only(fleet))["text"]
    await register(fleet, authority.pem)
    found = await only(fleet)
    assert "the API server does not reach it" in found["text"]
    assert "cluster-gateway" in found["remedy"]
    assert found["verdict"] == "problem"


async def test_a_certificate_that_is_over_is_told(fleet: Fleet) -> None:
    await switched_on(fleet)
    await deploy(fleet)
    authority = await certify(fleet, timedelta(minutes=1))
    await register(fleet, authority.pem)
    assert "its certificate is not good now" in (await only(fleet))["text"]


async def test_somebody_elses_api_is_told_with_the_way_out(fleet: Fleet) -> None:
    await switched_on(fleet)
    await deploy(fleet)
    await register(fleet, b"ca", service="other")
    found = await only(fleet)
    assert "other" in found["text"]
    assert "--api-version v1beta1" in found["remedy"]


async def test_custom_resources_in_the_way_are_told(fleet: Fleet) -> None:
    await switched_on(fleet)
    await deploy(fleet)
    await fleet.admin().create(CRDS, definition())

    async def there() -> bool:
        return await fleet.find(API_SERVICES, NAME) is not None

    await fleet.until(there)
    assert "custom resources" in (await only(fleet))["text"]


async def test_an_annotation_that_makes_no_sense_is_named(fleet: Fleet) -> None:
    await switched_on(fleet)
    patch = {"metadata": {"annotations": {API_VERSION_ANNOTATION: "v9"}}}
    await fleet.admin().patch(CLUSTER_MANAGERS, "cluster-manager", patch)
    assert API_VERSION_ANNOTATION in (await only(fleet))["text"]


async def test_what_is_left_of_a_gateway_is_told(fleet: Fleet) -> None:
    await fleet.cluster("cluster1", spec={"hubAcceptsClient": True}, status={"conditions": AVAILABLE})
    await fleet.ok("init", "--force")
    await register(fleet, CertificateAuthority.create("any", SYSTEM.now()).pem)
    found = await only(fleet)
    assert found["verdict"] == "problem"
    assert found["remedy"] == f"kubectl delete apiservice {NAME}"


# The cluster's end


class AnsweringHub(DelegatingClient):
    """A hub whose API server reaches the gateway, which says this of the cluster."""

    def __init__(self, fleet: Fleet, reason: str) -> None:
        super().__init__(fleet.admin())
        self.reason = reason

    async def get(self, resource: Any, name: str, namespace: str = "", **options: Any) -> Any:
        if str(resource) == f"clustergateways.{GROUP}":
            return {"metadata": {"name": name}, "status": {"healthy": not self.reason, "healthyReason": self.reason}}
        found = await super().get(resource, name, namespace, **options)
        if resource is API_SERVICES:
            found = {**found, "status": {"conditions": [{"type": "Available", "status": "True"}]}}
        return found


async def answering(fleet: Fleet, *addons: str) -> None:
    """All is well on the hub, and these are enabled on the cluster."""
    await switched_on(fleet)
    await ensure_namespace(fleet.admin(), "cluster1")
    await deploy(fleet)
    await register(fleet, (await certify(fleet)).pem)
    for name in addons:
        await fleet.admin().apply(ADDONS, {"metadata": {"name": name, "namespace": "cluster1"}, "spec": {}}, manager="test")


async def said(fleet: Fleet, reason: str = "", *, managed: bool = False) -> list[Finding]:
    hub = AnsweringHub(fleet, reason)
    cluster = await hub.get(ManagedCluster, "cluster1")
    diagnosis = Diagnosis("cluster1", hub, fleet.admin(PLAIN) if managed else None, cluster=cluster)
    return [one async for one in gateway(diagnosis)]


async def bind(fleet: Fleet, role: str) -> None:
    """As the addon's work does."""
    subject = {"kind": "ServiceAccount", "name": "cluster-gateway", "namespace": "default"}
    document = binding(f"open-cluster-management:cluster-gateway:{role}", "ClusterRole", role, subject)
    await fleet.admin(PLAIN).apply(CLUSTER_ROLE_BINDINGS, document, manager="test")


@pytest.mark.parametrize(
    ("reason", "remedy"),
    [
        ("EndpointMissing: no address", "externalServerURLs of its Klusterlet"),
        ("CredentialMissing: no credential", "addon enable --names cluster-gateway --clusters cluster1"),
        ("CredentialExpired: the gateway's credential expired", "does the agent of addon managed-serviceaccount renew it?"),
        ("CredentialRefused: 401", "does the agent of addon managed-serviceaccount renew it?"),
        ("TunnelMissing: no tunnel", "does the agent of addon cluster-gateway run on the cluster?"),
        ("ClusterUnreachable: refused", "is the way from the gateway's pods to this address open?"),
        ("ConnectionTimeout: nobody answers", "have the cluster's agent open a tunnel"),
    ],
)
async def test_each_reason_why_a_cluster_is_not_reached_has_a_remedy(fleet: Fleet, reason: str, remedy: str) -> None:
    await answering(fleet, "cluster-gateway")
    (found,) = await said(fleet, reason)
    assert found.verdict == "problem", "the addon is enabled, and the cluster is available"
    assert reason in found.text
    assert remedy in found.remedy


async def test_a_cluster_that_nobody_has_asked_the_gateway_for_is_no_problem(fleet: Fleet) -> None:
    await answering(fleet)
    (found,) = await said(fleet, "CredentialMissing: no credential")
    assert found.verdict == "note"


async def test_a_cluster_that_the_gateway_has_not_tried_yet_is_no_problem(fleet: Fleet) -> None:
    await answering(fleet, "cluster-gateway")
    (found,) = await said(fleet, "NotProbed: the gateway has not heard from the cluster yet")
    assert found.verdict == "note"


async def test_rights_that_the_gateway_lacks_on_the_cluster_are_named(fleet: Fleet) -> None:
    await answering(fleet, "cluster-gateway")
    well, unbound = await said(fleet, managed=True)
    assert well.verdict == "ok"
    assert "there is no ClusterRoleBinding" in unbound.text
    assert "get works --clusters cluster1" in unbound.remedy
    await bind(fleet, "viewers")
    _, roleless = await said(fleet, managed=True)
    assert "ClusterRole viewers, which is not there" in roleless.text
    assert "make that role on the cluster" in roleless.remedy
    await fleet.admin(PLAIN).apply(CLUSTER_ROLES, {"metadata": {"name": "viewers"}, "rules": []}, manager="test")
    assert len(await said(fleet, managed=True)) == 1
