"""Servers of one's own behind the API: webhooks and extension API servers named by Service, on either control plane.

A Service of type ExternalName leads to this machine; the servers prove the Service's name, as in a real cluster.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.client import Client
from tests.support.eventually import until
from tests.support.https_server import Answer, HttpsServer, Received
from tests.support.kubectl import kubectl
from tests.support.planes import ControlPlane

NAMESPACE = "extension-points"
MAPS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
POLICIES = "/apis/admissionregistration.k8s.io/v1"
API_SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
WIDGETS = {"name": "widgets", "singularName": "widget", "namespaced": True, "kind": "Widget", "verbs": ["get", "list"]}


@pytest.fixture
def client(plane: ControlPlane) -> Iterator[Client]:
    opened = plane.client()
    opened.post("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    yield opened
    for path in (
        f"{POLICIES}/validatingwebhookconfigurations/{NAMESPACE}",
        f"{POLICIES}/validatingadmissionpolicybindings/{NAMESPACE}",
        f"{POLICIES}/validatingadmissionpolicies/{NAMESPACE}",
        f"{API_SERVICES}/v1.{NAMESPACE}.io",
        f"/api/v1/namespaces/{NAMESPACE}/services/own",
    ):
        opened.delete(path)
    opened.close()


def lead_here(client: Client) -> None:
    spec = {"type": "ExternalName", "externalName": "localhost"}
    client.post(f"/api/v1/namespaces/{NAMESPACE}/services", {"metadata": {"name": "own"}, "spec": spec}).expect(201)


def behind(server: HttpsServer) -> dict[str, Any]:
    return {"namespace": NAMESPACE, "name": "own", "port": server.port}


def deny_forbidden(received: Received) -> Answer:
    review = received.json
    allowed = review["request"].get("name") != "forbidden"
    response = {"uid": review["request"]["uid"], "allowed": allowed, "status": {"message": "not this one"}}
    return Answer({"apiVersion": review["apiVersion"], "kind": "AdmissionReview", "response": response})


def is_refused(client: Client) -> bool:
    reply = client.post(MAPS, {"metadata": {"name": "forbidden"}}, query={"dryRun": "All"})
    return reply.status == 400 and "not this one" in reply.json["message"]


def test_a_webhook_behind_a_service_outlives_a_restart_of_the_server(plane: ControlPlane, client: Client) -> None:
    with HttpsServer(deny_forbidden, hosts=(f"own.{NAMESPACE}.svc",)) as server:
        lead_here(client)
        hook = {
            "name": "hook.example.com",
            "clientConfig": {"service": {**behind(server), "path": "/review"}, "caBundle": server.ca_bundle},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE"]}],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": NAMESPACE}},
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }
        configuration = {"metadata": {"name": NAMESPACE}, "webhooks": [hook]}
        client.post(f"{POLICIES}/validatingwebhookconfigurations", configuration).expect(201)
        until(lambda: is_refused(client))
        plane.restart(kill=True)
        until(lambda: is_refused(client))


def test_a_policy_outlives_a_restart_of_the_server(plane: ControlPlane, client: Client) -> None:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE"]}
    spec = {
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": "object.metadata.name != 'forbidden'", "message": "not this one"}],
    }
    client.post(f"{POLICIES}/validatingadmissionpolicies", {"metadata": {"name": NAMESPACE}, "spec": spec}).expect(201)
    binding = {"metadata": {"name": NAMESPACE}, "spec": {"policyName": NAMESPACE, "validationActions": ["Deny"]}}
    client.post(f"{POLICIES}/validatingadmissionpolicybindings", binding).expect(201)

    def is_denied() -> bool:
        return client.post(MAPS, {"metadata": {"name": "forbidden"}}, query={"dryRun": "All"}).status == 422

    until(is_denied)
    plane.restart(kill=True)
    until(is_denied)


def widgets(received: Received) -> Answer:
    """An extension server with one widget."""
    path = received.path.partition("?")[0]
    version = f"{NAMESPACE}.io/v1"
    if path == f"/apis/{version}":
        return Answer({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": [WIDGETS]})
    if path.endswith("/widgets"):
        one = {"apiVersion": version, "kind": "Widget", "metadata": {"name": "one", "namespace": NAMESPACE}}
        return Answer({"apiVersion": version, "kind": "WidgetList", "metadata": {}, "items": [one]})
    return Answer("404 page not found", 404)


def test_kubectl_finds_what_an_extension_server_serves(plane: ControlPlane, client: Client) -> None:
    with HttpsServer(widgets, hosts=(f"own.{NAMESPACE}.svc",)) as server:
        lead_here(client)
        spec = {
            "group": f"{NAMESPACE}.io",
            "version": "v1",
            "groupPriorityMinimum": 1000,
            "versionPriority": 15,
            "caBundle": server.ca_bundle,
            "service": behind(server),
        }
        client.post(API_SERVICES, {"metadata": {"name": f"v1.{NAMESPACE}.io"}, "spec": spec}).expect(201)
        until(
            lambda: (
                kubectl(plane.cluster, "get", "widgets", "-n", NAMESPACE, "-o", "name").out.strip() == f"widget.{NAMESPACE}.io/one"
            )
        )
