"""Our definitions of OCM's kinds on a running server: it takes them as they are, and takes and shows their objects."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from muster.api import ObjectMeta, TypedObject, merge_patch
from muster.api.addon.conversion import INSTALL_NAMESPACE_ANNOTATION, answer_review
from muster.api.addon.v1alpha1 import ManagedClusterAddOn, ManagedClusterAddOnSpec
from muster.api.authentication.v1alpha1 import ManagedServiceAccountBinding
from muster.api.cluster.v1 import ManagedCluster, ManagedClusterSpec, Taint
from muster.api.crds import ALL, ConversionWebhook, Definition, definitions
from muster.api.structural import object_schema
from muster.api.work.v1 import ManifestWork
from muster.apiserver.crd.rules import rule_tree
from muster.kube.structural_schema.validation import SchemaValidator
from tests.support.client import Client
from tests.support.https_server import Answer, HttpsServer
from tests.support.planes import chosen
from tests.unit.api.objects import Maker

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
NAMESPACE = "ocm-crds"
STRICT_DRY_RUN = {"dryRun": "All", "fieldValidation": "Strict"}
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
each_definition = pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.name)


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A client of a cluster that has all definitions and is nobody else's: others would miss them, or bring their own."""
    plane = chosen(tmp_path_factory.mktemp("definitions"))
    plane.start()
    client = plane.client()
    client.post("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}}).expect(201)
    for document in definitions():
        client.post(CRDS, document).expect(201)
    for kind in ALL:
        wait_until_established(client, kind.name)
    yield client
    client.close()
    plane.stop(kill=True)


def wait_until_established(client: Client, name: str) -> None:
    deadline = time.monotonic() + 30
    while True:
        conditions = (client.get(f"{CRDS}/{name}").expect(200).get("status") or {}).get("conditions") or []
        if any(condition["type"] == "Established" and condition["status"] == "True" for condition in conditions):
            return
        assert time.monotonic() < deadline, f"{name} is not established: {conditions}"
        time.sleep(0.05)


def some_object(version: type[TypedObject], seed: int) -> dict[str, Any]:
    """An object that schema and rules take; others are drawn until there is one."""
    schema, resource = object_schema(version), version.resource
    validator, rules = SchemaValidator(schema), rule_tree(schema)
    maker = Maker(seed, empty=False)
    while True:
        document = maker.object(schema, resource.api_version, resource.kind)
        document["metadata"] = {"name": f"x-{seed}"}
        if not validator.errors(document) and (rules is None or not rules.validate(document)[0]):
            return document


def collection(version: type[TypedObject]) -> str:
    return version.resource.path(namespace=NAMESPACE if version.resource.scope == "Namespaced" else "")


@each_definition
def test_the_server_stores_the_definition_as_it_is(hub: Client, kind: Definition) -> None:
    [document] = definitions([kind])
    reply = hub.apply(f"{CRDS}/{kind.name}", document, "crds", force=True, query=STRICT_DRY_RUN)
    stored = reply.expect(200)
    assert [header for header in reply.header_values("Warning") if "unrecognized" in header] == []
    assert [version["schema"] for version in stored["spec"]["versions"]] == [
        version["schema"] for version in document["spec"]["versions"]
    ]


@each_definition
def test_the_server_takes_objects_that_our_types_can_read(hub: Client, kind: Definition) -> None:
    for version in kind.versions:
        for seed in range(3):
            document = some_object(version, seed)
            answer = hub.post(collection(version), document, query=STRICT_DRY_RUN).expect(201)
            read = version.decode(answer)
            assert read.metadata.name == document["metadata"]["name"]
            assert read.metadata.uid
            if "spec" in document and not kind.converted:
                assert without_defaults(answer["spec"], document["spec"]) == document["spec"]


def without_defaults(answer: Any, asked: Any) -> Any:
    """The answer without the fields that were not asked for."""
    if isinstance(answer, dict) and isinstance(asked, dict):
        return {name: without_defaults(answer[name], value) for name, value in asked.items() if name in answer}
    if isinstance(answer, list) and isinstance(asked, list) and len(answer) == len(asked):
        return [without_defaults(one, other) for one, other in zip(answer, asked, strict=True)]
    return answer


def test_clusters_are_shown_with_ocms_columns_and_defaults(hub: Client) -> None:
    path = collection(ManagedCluster)
    cluster = ManagedCluster(metadata=ObjectMeta(name="crds-c1"), spec=ManagedClusterSpec(hub_accepts_client=True))
    made = hub.post(path, cluster.document()).expect(201)
    assert made["spec"]["leaseDurationSeconds"] == 60
    table = hub.get(path, headers={"Accept": TABLE}).expect(200)
    assert [column["name"] for column in table["columnDefinitions"]] == [
        *("Name", "Hub Accepted", "Managed Cluster URLs", "Joined", "Available", "Age")
    ]
    hub.delete(f"{path}/crds-c1").expect(200)


def test_a_change_is_patched_and_unknown_metadata_survives(hub: Client) -> None:
    path = f"{collection(ManagedCluster)}/crds-c2"
    made = ManagedCluster(metadata=ObjectMeta(name="crds-c2", labels={"a": "b"}), spec=ManagedClusterSpec(hub_accepts_client=True))
    before = ManagedCluster.decode(hub.post(collection(ManagedCluster), made.document()).expect(201))
    after = msgspec.structs.replace(before, spec=ManagedClusterSpec(taints=(Taint(key="k", effect="NoSelect"),)))
    answer = ManagedCluster.decode(hub.patch(path, merge_patch(before, after)).expect(200))
    assert answer.spec == after.spec
    assert answer.metadata.labels == {"a": "b"}
    assert answer.document()["metadata"]["managedFields"]
    hub.delete(path).expect(200)


@pytest.mark.parametrize(
    ("executor", "status"),
    [
        ({}, 201),
        ({"subject": {"type": "ServiceAccount"}}, 201),
        ({"subject": {"type": "ServiceAccount", "serviceAccount": {"namespace": "ns", "name": "sa"}}}, 201),
        ({"subject": {"type": "User"}}, 422),
        ({"subject": {"type": "ServiceAccount", "serviceAccount": {"namespace": "ns", "name": "Not-A-Name"}}}, 422),
    ],
)
def test_executors_are_judged_as_upstream_judges_them(hub: Client, executor: dict[str, Any], status: int) -> None:
    work = {**ManifestWork(metadata=ObjectMeta(name="w")).document(), "spec": {"executor": executor}}
    hub.post(collection(ManifestWork), work, query=STRICT_DRY_RUN).expect(status)


@pytest.mark.parametrize(
    ("subject", "status"),
    [
        ({"kind": "User", "name": "dave"}, 201),
        ({"kind": "ServiceAccount", "name": "sa", "namespace": "ns"}, 201),
        ({"kind": "ServiceAccount", "name": "sa"}, 422),
        ({"kind": "Group", "name": "g", "namespace": "ns"}, 422),
    ],
)
def test_only_service_accounts_in_bindings_have_a_namespace(hub: Client, subject: dict[str, Any], status: int) -> None:
    binding = some_object(ManagedServiceAccountBinding, 1)
    binding["spec"]["subjects"] = [subject]
    hub.post(collection(ManagedServiceAccountBinding), binding, query=STRICT_DRY_RUN).expect(status)


def test_addons_are_read_and_written_in_both_versions_through_the_conversion_webhook(hub: Client) -> None:
    kind = next(kind for kind in ALL if kind.resource.plural == "managedclusteraddons")
    alpha, beta = kind.versions
    with HttpsServer(lambda received: Answer(answer_review(received.json))) as server:
        webhook = ConversionWebhook(ca_bundle=server.ca_bundle, url=f"{server.url}/convert")
        [document] = definitions([kind], webhook)
        hub.patch(f"{CRDS}/{kind.name}", {"spec": {"conversion": document["spec"]["conversion"]}}).expect(200)
        made = ManagedClusterAddOn(metadata=ObjectMeta(name="addon"), spec=ManagedClusterAddOnSpec(install_namespace="here"))
        hub.post(collection(alpha), made.document()).expect(201)
        path = alpha.resource.path("addon", NAMESPACE)

        wait_for_webhook(hub, server, beta)
        as_beta = hub.get(beta.resource.path("addon", NAMESPACE)).expect(200)
        assert as_beta["metadata"]["annotations"] == {INSTALL_NAMESPACE_ANNOTATION: "here"}
        config = {"group": "", "resource": "configmaps", "name": "c"}
        hub.patch(beta.resource.path("addon", NAMESPACE), {"spec": {"configs": [config]}}).expect(200)

        assert hub.get(path).expect(200)["spec"] == {"installNamespace": "here", "configs": [config]}
        hub.delete(path).expect(200)
        hub.patch(f"{CRDS}/{kind.name}", {"spec": {"conversion": {"strategy": "None", "webhook": None}}}).expect(200)


def wait_for_webhook(client: Client, server: HttpsServer, version: type[TypedObject]) -> None:
    """The server takes a moment to serve the changed definition."""
    deadline = time.monotonic() + 30
    while not server.received:
        client.get(version.resource.path("addon", NAMESPACE))
        assert time.monotonic() < deadline, "the webhook is never asked"
        time.sleep(0.05)
