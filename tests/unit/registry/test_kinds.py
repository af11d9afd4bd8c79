"""Behaviour of single kinds that verdicts on created objects do not show: identities, subresources, conversions."""

from __future__ import annotations

import base64
import copy
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from muster.apiserver.builtin.kinds import certificates, versions
from muster.apiserver.builtin.kinds.jobs import schedule_problem
from muster.apiserver.builtin.kinds.pods import quality_of_service
from muster.machinery.authentication import UserInfo
from tests.unit.registry.judge import NAMESPACE, Request, created, named, row


@pytest.fixture(scope="module")
def request_pem() -> str:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "someone")])
    signed = x509.CertificateSigningRequestBuilder().subject_name(name).sign(key, hashes.SHA256())
    return base64.b64encode(signed.public_bytes(serialization.Encoding.PEM)).decode()


def signing_request(pem: str, **spec: Any) -> dict[str, Any]:
    fields = {"request": pem, "signerName": "example.com/signer", "usages": ["client auth"], **spec}
    return named("certificates.k8s.io/v1", "CertificateSigningRequest", {"spec": fields}, "csr")


CSR = row("certificates.k8s.io/v1", "CertificateSigningRequest")


def test_who_asks_for_a_certificate_is_the_servers_word(request_pem: str) -> None:
    caller = Request(user=UserInfo("alice", "u1", ("devs",), {"k": ("v",)}))
    obj, verdict = created(CSR, signing_request(request_pem, username="root", groups=["system:masters"]), caller)
    assert obj is not None, verdict
    spec = obj["spec"]
    assert (spec["username"], spec["uid"], spec["groups"], spec["extra"]) == ("alice", "u1", ["devs"], {"k": ["v"]})
    assert obj["status"] == {}


def _csr_with(pem: str, *conditions: dict[str, Any]) -> dict[str, Any]:
    obj, verdict = created(CSR, signing_request(pem))
    assert obj is not None, verdict
    return {**obj, "status": {"conditions": list(conditions)} if conditions else {}}


APPROVED = {
    "type": "Approved",
    "status": "True",
    "lastUpdateTime": "2025-01-01T00:00:00Z",
    "lastTransitionTime": "2025-01-01T00:00:00Z",
}


def _write(old: dict[str, Any], status: dict[str, Any], subresource: str) -> tuple[dict[str, Any], list[str]]:
    new = {**copy.deepcopy(old), "status": copy.deepcopy(status), "spec": {"request": "tampered"}}
    ctx = Request(verb="update", subresource=subresource)
    certificates.prepare(ctx, new, old)
    return new, [str(error) for error in certificates.validate(ctx, new, old)]


def test_approval_adds_a_verdict_with_times_and_nothing_else(request_pem: str) -> None:
    old = _csr_with(request_pem)
    status = {"certificate": "eA==", "conditions": [{"type": "Approved", "status": "True"}]}
    new, errors = _write(old, status, "approval")
    now = Request().now()
    assert errors == []
    assert new["spec"] == old["spec"]
    assert new["status"] == {"conditions": [{**APPROVED, "lastUpdateTime": now, "lastTransitionTime": now}]}


def test_a_verdict_cannot_be_taken_back_or_contradicted(request_pem: str) -> None:
    old = _csr_with(request_pem, APPROVED)
    _, removed = _write(old, {}, "approval")
    assert removed == ['status.conditions: Forbidden: updates may not remove a condition of type "Approved"']
    _, both = _write(old, {"conditions": [APPROVED, {"type": "Denied", "status": "True"}]}, "approval")
    assert both == ['status.conditions: Invalid value: "Denied": Approved and Denied conditions are mutually exclusive']
    _, untrue = _write(_csr_with(request_pem), {"conditions": [{"type": "Approved", "status": "False"}]}, "approval")
    assert untrue == ['status.conditions[0].status: Unsupported value: "False": supported values: "True"']


def test_the_main_endpoint_changes_neither_request_nor_status(request_pem: str) -> None:
    old = _csr_with(request_pem, APPROVED)
    new, errors = _write(old, {}, "")
    assert errors == []
    assert (new["spec"], new["status"]) == (old["spec"], old["status"])


def test_status_sets_the_certificate_once_and_no_verdict(request_pem: str) -> None:
    old = _csr_with(request_pem, APPROVED)
    _, garbage = _write(old, {"certificate": "eA==", "conditions": [APPROVED]}, "status")
    assert garbage[0].startswith("status.certificate: Invalid value")
    _, verdict = _write(_csr_with(request_pem), {"conditions": [APPROVED]}, "status")
    assert verdict == ['status.conditions: Forbidden: updates may not add a condition of type "Approved"']
    held = {**old, "status": {**old["status"], "certificate": "eA=="}}
    _, changed = _write(held, {"certificate": "eQ==", "conditions": [APPROVED]}, "status")
    assert "status.certificate: Forbidden: updates may not modify existing certificate content" in changed


def test_a_namespace_keeps_its_finalizer_until_finalize_takes_it() -> None:
    namespaces = row("v1", "Namespace")
    old, _ = created(namespaces, named("v1", "Namespace", {}, "n"))
    assert old is not None
    assert old["spec"]["finalizers"] == ["kubernetes"]
    emptied = {**copy.deepcopy(old), "spec": {}}
    namespaces.strategy.prepare(Request(verb="update"), emptied, old)
    assert emptied["spec"]["finalizers"] == ["kubernetes"]
    emptied = {**copy.deepcopy(old), "spec": {}, "status": {"phase": "Tampered"}}
    namespaces.strategy.prepare(Request(verb="update", subresource="finalize"), emptied, old)
    assert (emptied["spec"], emptied["status"]) == ({}, {"phase": "Active"})


POD = row("v1", "Pod")


class Cluster(Request):
    """A request in a cluster that has some objects."""

    objects: dict[tuple[str, str], dict[str, Any]]

    def read(self, resource: str, key: str) -> dict[str, Any] | None:
        return self.objects.get((resource, key)) or super().read(resource, key)


def pod_in(objects: dict[tuple[str, str], dict[str, Any]], **spec: Any) -> dict[str, Any]:
    ctx = Cluster()
    ctx.objects = objects
    body = {"spec": {"containers": [{"name": "c", "image": "i"}], **spec}}
    obj, verdict = created(POD, named("v1", "Pod", body, "p"), ctx)
    assert obj is not None, verdict
    spec_made: dict[str, Any] = obj["spec"]
    return spec_made


def test_a_new_pod_gets_its_service_accounts_token_tolerations_and_priority() -> None:
    spec = pod_in({})
    assert (spec["serviceAccountName"], spec["serviceAccount"]) == ("default", "default")
    (volume,) = spec["volumes"]
    assert volume["name"].startswith("kube-api-access-")
    assert [next(iter(source)) for source in volume["projected"]["sources"]] == ["serviceAccountToken", "configMap", "downwardAPI"]
    (mount,) = spec["containers"][0]["volumeMounts"]
    path = "/var/run/secrets/kubernetes.io/serviceaccount"
    assert mount == {"name": volume["name"], "readOnly": True, "mountPath": path}
    assert [t["key"] for t in spec["tolerations"]] == ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"]
    assert (spec["priority"], spec["preemptionPolicy"]) == (0, "PreemptLowerPriority")


def test_a_service_account_may_decline_its_token_and_bring_pull_secrets() -> None:
    account = {"automountServiceAccountToken": False, "imagePullSecrets": [{"name": "s"}]}
    spec = pod_in({("/serviceaccounts", f"{NAMESPACE}/robot"): account}, serviceAccountName="robot")
    assert "volumes" not in spec
    assert spec["imagePullSecrets"] == [{"name": "s"}]


def test_a_pod_may_decline_or_insist_on_the_token() -> None:
    declining = {("/serviceaccounts", f"{NAMESPACE}/default"): {"automountServiceAccountToken": False}}
    assert "volumes" not in pod_in({}, automountServiceAccountToken=False)
    assert pod_in(declining, automountServiceAccountToken=True)["volumes"]


def test_a_pods_priority_is_its_classes_value() -> None:
    objects = {("scheduling.k8s.io/priorityclasses", "high"): {"value": 7, "preemptionPolicy": "Never"}}
    spec = pod_in(objects, priorityClassName="high")
    assert (spec["priority"], spec["preemptionPolicy"]) == (7, "Never")


def test_own_tolerations_are_kept() -> None:
    own = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}
    tolerations = pod_in({}, tolerations=[own])["tolerations"]
    assert tolerations[0] == own
    assert [t["key"] for t in tolerations] == ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"]


@pytest.mark.parametrize(
    ("containers", "class_"),
    [
        ([{}], "BestEffort"),
        ([{"resources": {"requests": {"cpu": "1"}}}], "Burstable"),
        ([{"resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}], "Guaranteed"),
        ([{"resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1000m", "memory": "1Gi"}}}], "Guaranteed"),
        ([{"resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}}}], "Burstable"),
        ([{"resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}, {}], "Burstable"),
    ],
)
def test_a_pods_quality_of_service_follows_its_resources(containers: list[dict[str, Any]], class_: str) -> None:
    assert quality_of_service({"containers": containers}) == class_


@pytest.mark.parametrize("schedule", ["* * * * *", "*/5 0-6 1,15 * mon-fri", "@daily", "@every 1h", "0 0 1 jan ?"])
def test_good_schedules_pass(schedule: str) -> None:
    assert schedule_problem(schedule) == ""


@pytest.mark.parametrize("schedule", ["", "* * * *", "60 * * * *", "5-1 * * * *", "x * * * *", "*/x * * * *", "@never"])
def test_bad_schedules_are_explained(schedule: str) -> None:
    assert schedule_problem(schedule) != ""


def test_an_event_survives_the_way_to_storage_and_back() -> None:
    event = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "e"},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "regarding": {"kind": "Pod", "name": "p"},
        "note": "text",
        "reportingController": "a.b/c",
        "reportingInstance": "i",
        "deprecatedSource": {},
        "deprecatedFirstTimestamp": None,
        "deprecatedLastTimestamp": None,
    }
    stored = versions.event_to_storage(event)
    assert (stored["apiVersion"], stored["message"], stored["involvedObject"]["name"]) == ("v1", "text", "p")
    assert stored["reportingComponent"] == "a.b/c"
    assert versions.event_from_storage(stored) == event


def autoscaler(**spec: Any) -> dict[str, Any]:
    fields = {"scaleTargetRef": {"kind": "Deployment", "name": "d"}, "maxReplicas": 3, **spec}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "h"},
        "spec": fields,
        "status": {},
    }


def metric(kind: str, source: dict[str, Any], target: str, amount: str) -> dict[str, Any]:
    key = kind[0].lower() + kind[1:]
    value = {"type": target, target[0].lower() + target[1:]: amount}
    return {"type": kind, key: {**source, "target": value}}


OTHER_METRICS = [
    metric("Resource", {"name": "memory"}, "AverageValue", "1Gi"),
    metric("Pods", {"metric": {"name": "m", "selector": {"matchLabels": {"a": "b"}}}}, "AverageValue", "5"),
    metric("External", {"metric": {"name": "q"}}, "Value", "7"),
    metric("Object", {"metric": {"name": "o"}, "describedObject": {"kind": "Ingress", "name": "i"}}, "Value", "9"),
]
CPU = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}


def test_an_old_client_sees_the_cpu_target_and_keeps_the_rest() -> None:
    behavior = {"scaleDown": {"stabilizationWindowSeconds": 10, "policies": [{"type": "Pods", "value": 1, "periodSeconds": 2}]}}
    stored = autoscaler(metrics=[*OTHER_METRICS, CPU], behavior=behavior)
    old = versions.autoscaler_from_storage(stored)
    assert old["spec"]["targetCPUUtilizationPercentage"] == 50
    assert "metrics" not in old["spec"]
    back = versions.autoscaler_to_storage(old)
    assert back["spec"] == stored["spec"]
    assert back["metadata"] == stored["metadata"]


def test_an_old_autoscaler_without_target_gets_eighty_percent() -> None:
    obj = {**autoscaler(), "apiVersion": "autoscaling/v1"}
    assert versions.autoscaler_to_storage(obj)["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"] == 80


CONTAINER = {"name": "c", "image": "nginx"}
FISHY = {
    **CONTAINER,
    "env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}],
    "resources": {"requests": {"memory": "100m"}},
}
FISHY["ports"] = [{"containerPort": 80}, {"containerPort": 80}]
TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [FISHY], "nodeSelector": {"beta.kubernetes.io/os": "x"}}}
DOTS = "which can result in surprising behavior; a DNS label is recommended: [must not contain dots]"


@pytest.mark.parametrize(
    ("api_version", "kind", "body", "warnings"),
    [
        ("v1", "ConfigMap", {"data": {"a": "b"}}, []),
        (
            "v1",
            "Pod",
            {"metadata": {"name": "a.b"}, "spec": {"containers": [CONTAINER]}},
            [f"metadata.name: this is used in the Pod's hostname, {DOTS}"],
        ),
        (
            "apps/v1",
            "Deployment",
            {"metadata": {"name": "a.b"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}},
            [
                f"metadata.name: this is used in Pod names and hostnames, {DOTS}",
                'spec.template.spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use "kubernetes.io/os" instead',
                'spec.template.spec.containers[0].resources.requests[memory]: fractional byte value "100m" is invalid, '
                "must be an integer",
                'spec.template.spec.containers[0].env[1]: hides previous definition of "A", which may be dropped when using apply',
                "spec.template.spec.containers[0].ports[1]: duplicate port definition with "
                "spec.template.spec.containers[0].ports[0]",
            ],
        ),
        (
            "v1",
            "Secret",
            {"type": "kubernetes.io/tls", "data": {"tls.crt": "", "tls.key": ""}},
            ["tls: failed to find any PEM data in certificate input"],
        ),
        (
            "v1",
            "Service",
            {"spec": {"ports": [{"port": 80}], "externalIPs": ["1.2.3.4"], "sessionAffinity": "ClientIP", "clusterIP": "None"}},
            ["spec.externalIPs is ignored for headless services", "spec.SessionAffinity is ignored for headless services"],
        ),
    ],
)
def test_what_is_accepted_with_a_warning(api_version: str, kind: str, body: dict[str, Any], warnings: list[str]) -> None:
    request = Request()
    obj, verdict = created(row(api_version, kind), named(api_version, kind, body, "x"), request)
    assert obj is not None, verdict
    assert request.warnings == warnings


def test_a_refused_object_brings_no_warnings() -> None:
    request = Request()
    obj, _ = created(POD, named("v1", "Pod", {"metadata": {"name": "a.b"}, "spec": {}}, "x"), request)
    assert obj is None
    assert request.warnings == []


def test_requests_for_endpoints_are_told_about_slices() -> None:
    assert row("v1", "Endpoints").deprecation == "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"
