"""Who may write works on a hub: scenarios of admission, with `muster work-hub` as a process of its own account."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from muster.api.crds import HUB, definitions
from muster.cli.clusteradm import main as clusteradm
from tests.support.administrator import HUB_NAMESPACE, MANAGED_CLUSTERS, service_account_token
from tests.support.client import APPLY_PATCH, JSON, JSON_PATCH, MERGE_PATCH, Client, Reply
from tests.support.planes import USERS, ControlPlane, write_kubeconfig
from tests.support.processes import complaints
from tests.support.work_hub import ACCOUNT, CONFIGURATIONS, WORK_GROUP, WORK_VALIDATOR, WorkHub, works

Document = dict[str, Any]
PREFIX = f'admission webhook "{WORK_VALIDATOR}" denied the request: '
FINALIZER = "cluster.open-cluster-management.io/manifest-work-cleanup"
SETS = f"/apis/{WORK_GROUP}/v1alpha1/namespaces/apps/manifestworkreplicasets"
AUTHENTICATION = "authentication.open-cluster-management.io"
ADDON = "open-cluster-management-agent-addon"
NIL_ROLE = "open-cluster-management:cluster-manager-work-executor-admin:webhook"
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def hub(ground: ControlPlane) -> Iterator[WorkHub]:
    hub = WorkHub(ground.cluster, ground.directory / "work-hub")
    hub.install()
    for name in ("cluster1", "cluster2", "apps"):
        hub.namespace(name)
    for user in ("alice", "bob", "carol"):
        rules = writing(["get", "list", "create", "update", "patch", "delete"])
        hub.let(f"writes-works-{user}", {"kind": "User", "name": user}, rules)
    hub.start()
    hub.wait(lambda: hub.admin.post(works("cluster1"), work("x", manifests=[])).status == 400, "the webhook to be called")
    yield hub
    hub.stop()
    assert hub.process is not None
    assert complaints(hub.process.log) == []


@pytest.fixture
def name() -> str:
    return f"w{next(_numbers)}"


def writing(verbs: list[str]) -> list[Document]:
    return [{"apiGroups": [WORK_GROUP], "resources": ["manifestworks", "manifestworkreplicasets"], "verbs": verbs}]


def config_map(name: str = "cm1", **content: Any) -> Document:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "app"}, **content}


def executor(name: str) -> Document:
    return {"subject": {"type": "ServiceAccount", "serviceAccount": {"namespace": "sa-ns", "name": name}}}


def work(name: str, runs_as: str = "", *, manifests: list[Document] | None = None, **spec: Any) -> Document:
    named: Document = {"executor": executor(runs_as)} if runs_as else {}
    content = {"workload": {"manifests": [config_map()] if manifests is None else manifests}, **named, **spec}
    return {"apiVersion": f"{WORK_GROUP}/v1", "kind": "ManifestWork", "metadata": {"name": name}, "spec": content}


def let_execute(hub: WorkHub, user: str, account: str, namespace: str = "cluster1", kind: str = "User") -> None:
    names = [f"system:serviceaccount:sa-ns:{account}"]
    rule = {"apiGroups": [WORK_GROUP], "resources": ["manifestworks"], "verbs": ["execute-as"], "resourceNames": names}
    hub.let(f"executes-{user}-{account}-{namespace or 'all'}", {"kind": kind, "name": user}, [rule], namespace)


def refused(reply: Reply, user: str, account: str, namespace: str = "cluster1") -> None:
    assert (reply.status, reply.json["reason"]) == (400, "BadRequest"), reply.text
    who = f"user {user} cannot manipulate the Manifestwork with executor {account} in namespace {namespace}"
    assert reply.json["message"] == PREFIX + who


def patch(client: Client, name: str, change: Document, cluster: str = "cluster1") -> Reply:
    return client.patch(works(cluster, name), change)


def test_w1_whoever_may_execute_as_the_executor_creates_its_work(hub: WorkHub, name: str) -> None:
    alice = hub.cluster.client("alice")
    refused(alice.post(works("cluster1"), work(name, name)), "alice", f"sa-ns/{name}")
    let_execute(hub, "alice", name)
    hub.accepted(alice, works("cluster1"), work(name, name))


def test_w2_a_right_elsewhere_does_not_count_and_a_right_of_a_group_does(hub: WorkHub, name: str) -> None:
    bob = hub.cluster.client("bob")
    let_execute(hub, "bob", name, "cluster2")
    hub.accepted(bob, works("cluster2"), work(name, name))
    refused(bob.post(works("cluster1"), work(name, name)), "bob", f"sa-ns/{name}")
    let_execute(hub, "operators", name, "cluster1", kind="Group")
    hub.accepted(bob, works("cluster1"), work(name, name))


def test_an_agent_holds_works_by_its_own_finalizer_and_decides_nothing_else_of_their_life(hub: WorkHub, name: str) -> None:
    agents = "system:open-cluster-management:cluster1"
    hub.let("agents-of-cluster1", {"kind": "Group", "name": agents}, writing(["get", "update", "patch"]), "cluster1")
    hub.admin.post(works("cluster1"), work(name)).expect(201)
    headers = {"Impersonate-User": f"{agents}:agent", "Impersonate-Group": agents}

    def change(**metadata: Any) -> Reply:
        body = {"metadata": metadata}
        return hub.admin.request("PATCH", works("cluster1", name), body, headers=headers, content_type=MERGE_PATCH)

    hub.wait_reply(lambda: change(finalizers=[FINALIZER]), "agents to have their role", 200)
    owner = {"apiVersion": "v1", "kind": "Namespace", "name": "nowhere", "uid": "00000000-0000-4000-8000-000000000001"}
    for field, value in (("ownerReferences", [owner]), ("finalizers", [FINALIZER, "evil.example/forever"])):
        reply = change(**{field: value})
        assert reply.status == 403, reply.text
        assert f"agents of a cluster cannot change metadata.{field}" in reply.json["message"]
    hub.admin.patch(works("cluster1", name), {"metadata": {"ownerReferences": None, "annotations": {"a": "b"}}}).expect(200)
    change(finalizers=None).expect(200)


def test_w3_every_change_of_the_spec_needs_the_executor_and_no_other_change_does(hub: WorkHub, name: str) -> None:
    hub.admin.post(works("cluster1"), work(name, name)).expect(201)
    bob = hub.cluster.client("bob")
    changes: list[Document] = [
        {"workload": {"manifests": [config_map(data={"a": "b"})]}},
        {"manifestConfigs": [{"resourceIdentifier": {"resource": "configmaps", "name": "cm1"}}]},
        {"deleteOption": {"propagationPolicy": "Orphan"}},
    ]
    for change in changes:
        refused(patch(bob, name, {"spec": change}), "bob", f"sa-ns/{name}")
    for metadata in ({"labels": {"a": "b"}}, {"finalizers": [FINALIZER]}, {"finalizers": None}):
        patch(bob, name, {"metadata": metadata}).expect(200)


def test_w3_however_a_change_is_sent_it_needs_the_executor(hub: WorkHub, name: str) -> None:
    """By every kind of patch and by replacing it, for a trial as in earnest; and a status that brings a spec changes none."""
    made = hub.admin.post(works("cluster1"), work(name, name)).expect(201)
    bob, path = hub.cluster.client("bob"), works("cluster1", name)
    other = {**made["spec"], "deleteOption": {"propagationPolicy": "Orphan"}}
    orphaning = {"op": "add", "path": "/spec/deleteOption", "value": other["deleteOption"]}
    applied = {"apiVersion": made["apiVersion"], "kind": "ManifestWork", "metadata": {"name": name}, "spec": other}
    ways: list[tuple[str, Any, str, dict[str, str]]] = [
        ("PUT", {**made, "spec": other}, JSON, {}),
        ("PATCH", {"spec": {"deleteOption": other["deleteOption"]}}, MERGE_PATCH, {}),
        ("PATCH", [orphaning], JSON_PATCH, {}),
        ("PATCH", applied, APPLY_PATCH, {"fieldManager": "bob", "force": "true"}),
    ]
    for method, body, media, query in ways:
        for trial in ({}, {"dryRun": "All"}):
            reply = bob.request(method, path, body, content_type=media, query={**query, **trial})
            refused(reply, "bob", f"sa-ns/{name}")
    new = work(f"{name}-new", name)
    refused(bob.request("POST", works("cluster1"), new, query={"dryRun": "All"}), "bob", f"sa-ns/{name}")
    # An apply may also be a creation.
    fresh = {**applied, "metadata": {"name": f"{name}-new"}}
    reply = bob.request("PATCH", works("cluster1", f"{name}-new"), fresh, content_type=APPLY_PATCH, query={"fieldManager": "bob"})
    refused(reply, "bob", f"sa-ns/{name}")

    status = [{"apiGroups": [WORK_GROUP], "resources": ["manifestworks/status"], "verbs": ["patch", "update"]}]
    hub.let("writes-statuses", {"kind": "User", "name": "bob"}, status)
    told = {"spec": other, "status": {"conditions": []}}
    hub.wait(lambda: bob.patch(f"{path}/status", told).status == 200, "bob to be allowed to write statuses")
    now = hub.admin.get(path).expect(200)
    assert (now["spec"], now["metadata"]["generation"]) == (made["spec"], 1)


def test_w3_giving_a_work_to_a_replica_set_needs_the_executor(hub: WorkHub, name: str) -> None:
    hub.admin.post(works("cluster1"), work(name, name)).expect(201)
    bob, label = hub.cluster.client("bob"), f"{WORK_GROUP}/manifestworkreplicaset"
    refused(patch(bob, name, {"metadata": {"labels": {label: "apps.bobs"}}}), "bob", f"sa-ns/{name}")
    patch(bob, name, {"metadata": {"labels": {"other": "apps.bobs"}}}).expect(200)
    patch(hub.admin, name, {"metadata": {"labels": {label: "apps.somebodys"}}}).expect(200)
    for labels in ({label: None}, {label: "apps.bobs"}, None):
        refused(patch(bob, name, {"metadata": {"labels": labels}}), "bob", f"sa-ns/{name}")
    patch(bob, name, {"metadata": {"finalizers": [FINALIZER]}}).expect(200)
    patch(bob, name, {"metadata": {"finalizers": None}}).expect(200)


def test_w4_another_executor_or_none_needs_the_one_that_was(hub: WorkHub, name: str) -> None:
    hub.admin.post(works("cluster1"), work(name, f"{name}-a")).expect(201)
    carol = hub.cluster.client("carol")
    change = {"spec": {"executor": executor(f"{name}-b")}}
    refused(patch(carol, name, change), "carol", f"sa-ns/{name}-b")
    let_execute(hub, "carol", f"{name}-b")
    hub.wait(lambda: f"sa-ns/{name}-a " in patch(carol, name, change).text, "the other executor to be asked for")
    refused(patch(carol, name, change), "carol", f"sa-ns/{name}-a")
    refused(patch(carol, name, {"spec": {"executor": None}}), "carol", f"sa-ns/{name}-a")
    let_execute(hub, "carol", f"{name}-a")
    hub.wait(lambda: patch(carol, name, change).status == 200, "the change to be accepted")
    patch(carol, name, {"spec": {"executor": None}}).expect(200)


def test_w6_a_work_from_before_a_rule_can_still_be_held_and_let_go(hub: WorkHub, name: str) -> None:
    kept = hub.admin.get(f"{CONFIGURATIONS}/{WORK_VALIDATOR}").expect(200)
    hub.admin.delete(f"{CONFIGURATIONS}/{WORK_VALIDATOR}").expect(200)
    twice = work(name, manifests=[config_map(), config_map()])
    hub.accepted(hub.admin, works("cluster1"), twice)
    hub.admin.post(CONFIGURATIONS, {**kept, "metadata": {"name": WORK_VALIDATOR}}).expect(201)
    hub.wait(lambda: hub.admin.post(works("cluster1"), work("x", manifests=[])).status == 400, "the webhook to be called")
    bob = hub.cluster.client("bob")
    patch(bob, name, {"metadata": {"finalizers": [FINALIZER]}}).expect(200)
    patch(bob, name, {"spec": {"deleteOption": {"propagationPolicy": "Orphan"}}}).expect(200)
    third = patch(bob, name, {"spec": {"workload": {"manifests": [config_map(data={"x": str(one)}) for one in range(3)]}}})
    assert third.status == 400
    bob.delete(works("cluster1", name)).expect(200)
    patch(bob, name, {"metadata": {"finalizers": None}}).expect(200)
    assert bob.get(works("cluster1", name)).status == 404


def test_w7_sizes_names_and_shapes_are_judged_in_upstreams_words(hub: WorkHub, name: str) -> None:
    nameless = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "a-"}}
    cases: list[tuple[Document, str]] = [
        (work(name, manifests=[]), "manifests should not be empty"),
        (work(name, manifests=[nameless]), "name must be set in manifest"),
        (
            work(name, manifests=[{**nameless, "metadata": {"name": "a", "generateName": "a-"}}]),
            "generateName must not be set in manifest",
        ),
        (
            work(name, manifests=[config_map(), config_map(data={"a": "b"})]),
            "duplicate manifest for resource app/cm1 with resource type v1.ConfigMap",
        ),
        (work(name, manifests=[sized(512_001)]), "the size of manifests is 512001 bytes which exceeds the 512000 limit"),
        (work(name, executor={}), "the executor is malformed: spec.executor.subject is missing"),
        (work(name, executor={"subject": {"type": "ServiceAccount"}}), "executor service account can not be nil"),
    ]
    for document, text in cases:
        reply = hub.admin.post(works("cluster1"), document)
        assert (reply.status, reply.json["reason"]) == (400, "BadRequest"), reply.text
        assert reply.json["message"].startswith(PREFIX + text)
    for account in ("B_d", "x" * 254):
        assert hub.admin.post(works("cluster1"), work(name, account)).status == 422
    hub.admin.post(works("cluster1"), work(name, manifests=[sized(512_000)])).expect(201)
    patch(hub.admin, name, {"metadata": {"labels": {"large": "yes"}}}).expect(200)
    many = [config_map(f"cm{number}", data={str(key): "x" for key in range(10)}) for number in range(500)]
    hub.admin.post(works("cluster1"), work(f"{name}-many", manifests=many)).expect(201)
    patch(hub.admin, f"{name}-many", {"metadata": {"finalizers": [FINALIZER]}}).expect(200)
    patch(hub.admin, f"{name}-many", {"metadata": {"finalizers": None}}).expect(200)


def sized(total: int) -> Document:
    """A manifest that counts as so many bytes."""
    bare = len('{"apiVersion":"v1","data":{"x":""},"kind":"ConfigMap","metadata":{"name":"cm1","namespace":"app"}}')
    return config_map(data={"x": "a" * (total - 4 - bare)})


def test_w8_while_the_webhook_is_away_works_can_be_let_go_and_nothing_else(hub: WorkHub, name: str) -> None:
    hub.admin.post(works("cluster1"), {**work(name), "metadata": {"name": name, "finalizers": [FINALIZER]}}).expect(201)
    hub.stop()
    try:
        assert hub.admin.post(works("cluster1"), work(f"{name}-new")).status == 500
        assert patch(hub.admin, name, {"spec": {"deleteOption": {"propagationPolicy": "Orphan"}}}).status == 500
        hub.admin.patch(f"{works('cluster1', name)}/status", {"status": {"conditions": []}}).expect(200)
        hub.admin.delete(works("cluster1", name)).expect(200)
        patch(hub.admin, name, {"metadata": {"finalizers": None}}).expect(200)
        assert hub.admin.get(works("cluster1", name)).status == 404
    finally:
        hub.start()


def test_w9_a_replica_set_needs_its_executor_everywhere(hub: WorkHub, name: str) -> None:
    template = work(name, name)["spec"]
    spec = {"manifestWorkTemplate": template, "placementRefs": [{"name": "everywhere"}]}
    document = {"apiVersion": f"{WORK_GROUP}/v1alpha1", "kind": "ManifestWorkReplicaSet", "metadata": {"name": name}, "spec": spec}
    alice = hub.cluster.client("alice")
    let_execute(hub, "alice", name, "cluster1")
    hub.accepted(alice, works("cluster1"), work(name, name))
    reply = alice.post(SETS, document)
    assert reply.status == 400, reply.text
    text = f"user alice cannot manipulate the ManifestWorkReplicaSet with executor sa-ns/{name} in all namespaces"
    assert reply.json["message"].endswith(text)
    let_execute(hub, "alice", name, "")
    hub.accepted(alice, SETS, document)
    bob = hub.cluster.client("bob")
    assert bob.patch(f"{SETS}/{name}", {"spec": {"placementRefs": [{"name": "more"}]}}).status == 400
    changes: list[Document] = [
        {"workload": {"manifests": [config_map(data={"a": "b"})]}},
        {"executor": executor(f"{name}-other")},
        {"executor": None},
    ]
    for change in changes:
        reply = bob.patch(f"{SETS}/{name}", {"spec": {"manifestWorkTemplate": change}})
        assert (reply.status, "user bob cannot manipulate the ManifestWorkReplicaSet" in reply.text) == (400, True), reply.text
    at = "spec.manifestWorkTemplate"
    malformed: list[tuple[Document, str]] = [
        ({"executor": {}}, f"the executor is malformed: {at}.executor.subject is missing"),
        ({"executor": {"subject": {"type": "ServiceAccount"}}}, "executor service account can not be nil"),
        ({"workload": {"manifests": []}}, "Workload manifests should not be empty"),
        ({"workload": {"manifests": [config_map(), config_map()]}}, "duplicate manifest for resource app/cm1"),
    ]
    for content, text in malformed:
        spoilt = {
            **document,
            "metadata": {"name": f"{name}-bad"},
            "spec": {**spec, "manifestWorkTemplate": {**template, **content}},
        }
        reply = hub.admin.post(SETS, spoilt)
        assert (reply.status, text in reply.text) == (400, True), reply.text
    for account in ("B_d", "x" * 254):
        spoilt = {**document, "spec": {**spec, "manifestWorkTemplate": {**template, "executor": executor(account)}}}
        assert hub.admin.post(SETS, {**spoilt, "metadata": {"name": f"{name}-bad"}}).status == 422
    bob.patch(f"{SETS}/{name}", {"metadata": {"labels": {"a": "b"}}}).expect(200)


def test_the_hubs_own_controller_may_write_any_work(hub: WorkHub, name: str) -> None:
    token = service_account_token(hub.admin, HUB_NAMESPACE, ACCOUNT)
    controller = Client(hub.cluster.url, ca=hub.cluster.ca, token=token)
    controller.post(works("cluster1"), work(name, "whoever")).expect(201)


def test_w5_with_the_gate_no_executor_needs_the_agents_identity(hub: WorkHub, name: str) -> None:
    """Near the end of this file: the gate is on from here."""
    bob = hub.cluster.client("bob")
    bob.post(works("cluster1"), work(name)).expect(201)
    hub.stop()
    hub.start("--feature-gates=NilExecutorValidating=true")
    refused(bob.post(works("cluster1"), work(f"{name}-new")), "bob", "/klusterlet-work-sa")
    refused(patch(bob, name, {"spec": {"deleteOption": {"propagationPolicy": "Orphan"}}}), "bob", "/klusterlet-work-sa")
    hub.let(NIL_ROLE, {"kind": "User", "name": "bob"}, [], "cluster1")
    hub.accepted(bob, works("cluster1"), work(f"{name}-new"))
    patch(bob, name, {"spec": {"deleteOption": {"propagationPolicy": "Orphan"}}}).expect(200)


def test_where_bindings_count_a_bound_user_may_have_works_run_as_the_account(hub: WorkHub, name: str) -> None:
    """At the end of this file: bindings count from here."""
    heed = "--executor-authorization=either"
    hub.stop()
    hub.install(heed)
    hub.start(heed)
    account = {"apiVersion": f"{AUTHENTICATION}/v1beta1", "kind": "ManagedServiceAccount", "metadata": {"name": name}}
    accounts = f"/apis/{AUTHENTICATION}/v1beta1/namespaces/cluster1/managedserviceaccounts"
    hub.accepted(hub.admin, accounts, {**account, "spec": {"rotation": {}}})
    bindings = f"/apis/{AUTHENTICATION}/v1alpha1/managedserviceaccountbindings"
    kind = {"apiVersion": f"{AUTHENTICATION}/v1alpha1", "kind": "ManagedServiceAccountBinding", "metadata": {"name": name}}
    spec = {"ref": {"namespace": "cluster1", "name": name}, "subjects": [{"kind": "Group", "name": "developers"}]}
    writes = [{"apiGroups": [AUTHENTICATION], "resources": ["managedserviceaccountbindings"], "verbs": ["create", "patch"]}]
    hub.let("writes-bindings", {"kind": "User", "name": "bob"}, writes)
    bob, alice = hub.cluster.client("bob"), hub.cluster.client("alice")
    wanted = work(name, executor={"subject": {"type": "ServiceAccount", "serviceAccount": {"namespace": ADDON, "name": name}}})

    hub.wait(lambda: "cannot execute as" in bob.post(bindings, {**kind, "spec": spec}).text, "the binding to be judged")
    refused(alice.post(works("cluster1"), wanted), "alice", f"{ADDON}/{name}")
    hub.admin.post(bindings, {**kind, "spec": spec}).expect(201)
    hub.accepted(alice, works("cluster1"), wanted)
    refused(bob.post(works("cluster1"), {**wanted, "metadata": {"name": f"{name}-bob"}}), "bob", f"{ADDON}/{name}")

    def said() -> bool:
        conditions = (hub.admin.get(f"{bindings}/{name}").expect(200).get("status") or {}).get("conditions") or []
        return {(one["type"], one["status"]) for one in conditions} == {("RefFound", "True"), ("Accepted", "True")}

    hub.wait(said, "the binding to say that it counts")

    # Users and service accounts are bound like groups, each for this cluster and this account only.
    hub.namespace("pipelines")
    hub.admin.post("/api/v1/namespaces/pipelines/serviceaccounts", {"metadata": {"name": "shop"}}).expect(201)
    token = service_account_token(hub.admin, "pipelines", "shop")
    robot, carol = Client(hub.cluster.url, ca=hub.cluster.ca, token=token), hub.cluster.client("carol")
    robots = "system:serviceaccount:pipelines:shop"
    hub.let("robot-writes-works", {"kind": "User", "name": robots}, writing(["create", "get"]))
    bound = [{"kind": "User", "name": "carol"}, {"kind": "ServiceAccount", "namespace": "pipelines", "name": "shop"}]
    hub.admin.patch(f"{bindings}/{name}", {"spec": {"subjects": bound}}).expect(200)

    def wanting(who: str, namespace: str = ADDON, account: str = name) -> Document:
        accounted = {"namespace": namespace, "name": account}
        return work(f"{name}-{who}", executor={"subject": {"type": "ServiceAccount", "serviceAccount": accounted}})

    hub.accepted(carol, works("cluster1"), wanting("carol"))
    hub.accepted(robot, works("cluster1"), wanting("robot"))
    refused(alice.post(works("cluster1"), wanting("alice")), "alice", f"{ADDON}/{name}")
    for cluster, document in (
        ("cluster2", wanting("x")),
        ("cluster1", wanting("x", namespace="elsewhere")),
        ("cluster1", wanting("x", account=f"{name}-other")),
    ):
        account_of = document["spec"]["executor"]["subject"]["serviceAccount"]
        refused(carol.post(works(cluster), document), "carol", f"{account_of['namespace']}/{account_of['name']}", cluster)

    # Without the account a binding counts for nothing, nor does one that is gone.
    def is_refused() -> bool:
        return carol.post(works("cluster1"), wanting("trial"), query={"dryRun": "All"}).status == 400

    hub.admin.delete(f"{accounts}/{name}").expect(200)
    hub.wait(is_refused, "the binding not to count without its account")
    hub.admin.post(accounts, {**account, "spec": {"rotation": {}}}).expect(201)
    hub.accepted(carol, works("cluster1"), wanting("carol-again"))
    hub.admin.delete(f"{bindings}/{name}").expect(200)
    hub.wait(is_refused, "the binding to count no longer")


def test_who_asks_beforehand_is_told_what_the_webhook_would_say(hub: WorkHub, name: str, tmp_path: Path) -> None:
    for document in definitions([kind for kind in HUB if kind.name.startswith("managedclusters.")]):
        hub.admin.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", document).expect(201, 409)
    hub.wait(lambda: hub.admin.get(MANAGED_CLUSTERS).status == 200, "ManagedClusters, which make it a hub")
    kubeconfig, file = tmp_path / "alice", tmp_path / "manifests.json"
    write_kubeconfig(kubeconfig, hub.cluster.url, hub.cluster.ca, {"token": USERS["alice"].token})
    file.write_text(json.dumps(config_map()))
    line = ["--kubeconfig", str(kubeconfig), "work", "can-i", "cluster1", "-f", str(file), "--executor", f"sa-ns/{name}"]
    asked = CliRunner().invoke(clusteradm, line)
    assert asked.exit_code == 1, asked.output
    assert "you lack the permission to execute-as" in asked.output
    assert f"user alice cannot manipulate the Manifestwork with executor sa-ns/{name} in namespace cluster1" in asked.output
    let_execute(hub, "alice", name)
    hub.wait(lambda: CliRunner().invoke(clusteradm, line).exit_code == 0, "the answer to be yes")
    made = (hub.read(works("cluster1")) or {})["items"]
    assert not [one for one in made if one["metadata"]["name"].startswith("can-i")]
