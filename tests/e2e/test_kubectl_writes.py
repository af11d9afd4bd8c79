"""kubectl create, apply, edit, patch, replace, delete and the small changing commands, in each version, on either control plane."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.e2e.conftest import Kubectl
from tests.e2e.manifests import configmap, deployment, text

FILE = ("-f", "-")


def data(kc: Kubectl, name: str) -> Any:
    return kc.client.get(kc.path("configmaps", name)).expect(200).get("data")


def replicas(kc: Kubectl, name: str) -> int:
    found: int = kc.client.get(kc.path("deployments", name, "/apis/apps/v1")).expect(200)["spec"]["replicas"]
    return found


def managers(kc: Kubectl, name: str) -> dict[str, str]:
    entries = kc.client.get(kc.path("configmaps", name)).expect(200)["metadata"]["managedFields"]
    return {entry["manager"]: entry["operation"] for entry in entries}


@pytest.mark.parametrize(
    ("arguments", "made"),
    [
        (["configmap", "x", "--from-literal=a=b"], "configmap/x"),
        (["secret", "generic", "x", "--from-literal=a=b"], "secret/x"),
        (["serviceaccount", "x"], "serviceaccount/x"),
        (["role", "x", "--verb=get", "--resource=pods"], "role.rbac.authorization.k8s.io/x"),
        (["rolebinding", "x", "--clusterrole=view", "--user=alice"], "rolebinding.rbac.authorization.k8s.io/x"),
        (["deployment", "x", "--image=example/x:1", "--replicas=0"], "deployment.apps/x"),
        (["job", "x", "--image=example/x:1"], "job.batch/x"),
        (["cronjob", "x", "--image=example/x:1", "--schedule=*/5 * * * *"], "cronjob.batch/x"),
        (["ingress", "x", "--rule=example.com/*=svc:80"], "ingress.networking.k8s.io/x"),
        (["quota", "x", "--hard=pods=3"], "resourcequota/x"),
        (["poddisruptionbudget", "x", "--selector=a=b", "--min-available=1"], "poddisruptionbudget.policy/x"),
        (["service", "nodeport", "x", "--tcp=80:80"], "service/x"),
        (["service", "externalname", "x", "--external-name=example.com"], "service/x"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_create_in_a_namespace(kc: Kubectl, arguments: list[str], made: str) -> None:
    assert kc.out("create", *arguments) == f"{made} created"
    again = kc.fails("create", *arguments)
    assert "AlreadyExists" in again or "already exists" in again
    kind, _, name = made.partition("/")
    assert kc.out("get", kind, name, "-o", "name") == made


def test_create_in_the_cluster(kc: Kubectl) -> None:
    name = kc.namespace + "-x"
    for arguments, path in (
        (["namespace", name], f"/api/v1/namespaces/{name}"),
        (["clusterrole", name, "--verb=get", "--resource=nodes"], f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{name}"),
        (
            ["clusterrolebinding", name, f"--clusterrole={name}", "--group=g"],
            f"/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/{name}",
        ),
        (["priorityclass", name, "--value=5"], f"/apis/scheduling.k8s.io/v1/priorityclasses/{name}"),
    ):
        kc.remove_later(path)
        assert kc.out("create", *arguments).endswith("created")
        kc.client.get(path).expect(200)


def test_create_refuses_what_is_wrong(kc: Kubectl) -> None:
    assert 'unknown field "frob"' in kc.fails("create", *FILE, input=text({**configmap("a", {}), "frob": 1}))
    assert "is invalid: metadata.name: Invalid value" in kc.fails("create", "configmap", "Bad_Name")
    assert "no matches for kind" in kc.fails("create", *FILE, input="apiVersion: v9\nkind: Nothing\nmetadata: {name: a}\n")


def test_apply_by_the_client(kc: Kubectl) -> None:
    assert kc.out("apply", *FILE, input=text(configmap("a", {"k": "1", "old": "x"}))) == "configmap/a created"
    assert kc.out("apply", *FILE, input=text(configmap("a", {"k": "1", "old": "x"}))) == "configmap/a unchanged"
    assert kc.out("apply", *FILE, input=text(configmap("a", {"k": "2"}))) == "configmap/a configured"
    assert data(kc, "a") == {"k": "2"}
    assert kc.out("apply", *FILE, input=text(deployment("w", 1))) == "deployment.apps/w created"
    kc("apply", *FILE, input=text(deployment("w", 3, "example/main:2")))
    assert replicas(kc, "w") == 3
    assert "k:" in kc.out("apply", "view-last-applied", "configmap/a")


def test_apply_by_the_server(kc: Kubectl) -> None:
    assert kc.out("apply", "--server-side", *FILE, input=text(configmap("a", {"k": "1"}))) == "configmap/a serverside-applied"
    kc("apply", "--server-side", *FILE, input=text(configmap("a", {"k": "2"})))
    assert data(kc, "a") == {"k": "2"}
    assert managers(kc, "a") == {"kubectl": "Apply"}
    kc.client.patch(kc.path("configmaps", "a"), {"data": {"k": "other"}}, query={"fieldManager": "rival"}).expect(200)
    conflict = kc.fails("apply", "--server-side", *FILE, input=text(configmap("a", {"k": "3"})))
    assert 'Apply failed with 1 conflict: conflict with "rival"' in conflict
    kc("apply", "--server-side", "--force-conflicts", *FILE, input=text(configmap("a", {"k": "3"})))
    assert data(kc, "a") == {"k": "3"}
    kc("apply", "--server-side", "--field-manager=second", *FILE, input=text(configmap("a", {"more": "x"})))
    assert data(kc, "a") == {"k": "3", "more": "x"}


def test_client_side_apply_then_server_side(kc: Kubectl) -> None:
    kc("apply", *FILE, input=text(configmap("a", {"k": "1", "gone": "x"})))
    kc("apply", "--server-side", *FILE, input=text(configmap("a", {"k": "2"})))
    assert data(kc, "a") == {"k": "2"}
    owners = managers(kc, "a")
    assert owners["kubectl"] == "Apply"
    assert "kubectl-client-side-apply" not in owners


def test_server_side_apply_then_client_side(kc: Kubectl) -> None:
    kc("apply", "--server-side", *FILE, input=text(configmap("a", {"k": "1"})))
    outcome = kc("apply", *FILE, input=text(configmap("a", {"k": "2"})))
    assert "configured" in outcome.out
    assert data(kc, "a") == {"k": "2"}


def test_apply_prunes_by_label(kc: Kubectl) -> None:
    first, second = configmap("a", {}, labels={"set": "x"}), configmap("b", {}, labels={"set": "x"})
    kc("apply", *FILE, input=text(first, second))
    outcome = kc("apply", "--prune", "-l", "set=x", "--prune-allowlist=core/v1/ConfigMap", *FILE, input=text(first))
    assert "configmap/b pruned" in outcome.out
    kc.client.get(kc.path("configmaps", "b")).expect(404)


def test_dry_runs_and_diff_change_nothing(kc: Kubectl) -> None:
    assert "created (server dry run)" in kc.out("apply", "--dry-run=server", *FILE, input=text(configmap("a", {"k": "1"})))
    assert "created (server dry run)" in kc.out("create", "configmap", "a", "--dry-run=server")
    kc.client.get(kc.path("configmaps", "a")).expect(404)
    kc("apply", *FILE, input=text(configmap("a", {"k": "1"})))
    shown = kc("diff", *FILE, input=text(configmap("a", {"k": "2"})), code=1).out
    assert "-  k: " in shown
    assert "+  k: " in shown
    assert "+  k: " in kc("diff", "--server-side", "--force-conflicts", *FILE, input=text(configmap("a", {"k": "3"})), code=1).out
    assert kc("diff", *FILE, input=text(configmap("a", {"k": "1"}))).out == ""
    kc("delete", "cm", "a", "--dry-run=server")
    assert data(kc, "a") == {"k": "1"}


def test_edit(kc: Kubectl) -> None:
    kc.client.post(kc.path("configmaps"), configmap("a", {"k": "before"})).expect(201)
    editor = kc.scratch / "editor"
    editor.write_text('#!/bin/sh\nsed -i "s/before/after/" "$1"\n')
    editor.chmod(0o755)
    assert kc.out("edit", "cm", "a", environment={"EDITOR": str(editor)}) == "configmap/a edited"
    assert data(kc, "a") == {"k": "after"}
    assert "Edit cancelled" in kc("edit", "cm", "a", environment={"EDITOR": str(editor)}).err
    assert managers(kc, "a")["kubectl-edit"] == "Update"


def test_patch_in_three_ways(kc: Kubectl) -> None:
    kc.client.post(kc.path("deployments", prefix="/apis/apps/v1"), deployment("w")).expect(201)
    second = '{"spec":{"template":{"spec":{"containers":[{"name":"side","image":"example/side:1"}]}}}}'
    assert kc.out("patch", "deployment", "w", "-p", second) == "deployment.apps/w patched"
    assert kc.out("get", "deploy", "w", "-o", "jsonpath={.spec.template.spec.containers[*].name}") == "side main"
    kc("patch", "deploy/w", "--type=merge", "-p", '{"spec":{"replicas":5}}')
    assert replicas(kc, "w") == 5
    kc("patch", "deploy/w", "--type=json", "-p", '[{"op":"replace","path":"/spec/replicas","value":6}]')
    assert replicas(kc, "w") == 6
    assert "(no change)" in kc.out("patch", "deploy/w", "--type=merge", "-p", '{"spec":{"replicas":6}}')
    kc("patch", "deploy/w", "--subresource=scale", "--type=merge", "-p", '{"spec":{"replicas":7}}')
    assert replicas(kc, "w") == 7
    kc("patch", "deploy/w", "--subresource=status", "--type=merge", "-p", '{"status":{"replicas":2}}')
    assert kc.out("get", "deploy", "w", "-o", "jsonpath={.status.replicas}") == "2"
    kc.fails("patch", "deploy/w", "--type=json", "-p", '[{"op":"remove","path":"/spec/nope"}]')
    assert "not found" in kc.fails("patch", "deploy/none", "-p", "{}")


def test_replace(kc: Kubectl) -> None:
    kc.client.post(kc.path("configmaps"), configmap("a", {"k": "1"})).expect(201)
    assert kc.out("replace", *FILE, input=text(configmap("a", {"k": "2"}))) == "configmap/a replaced"
    assert data(kc, "a") == {"k": "2"}
    stale = configmap("a", {"k": "3"}, resourceVersion="1")
    assert "the object has been modified" in kc.fails("replace", *FILE, input=text(stale))
    assert "NotFound" in kc.fails("replace", *FILE, input=text(configmap("none", {})))
    before = kc.client.get(kc.path("configmaps", "a")).expect(200)["metadata"]["uid"]
    kc("replace", "--force", *FILE, input=text(configmap("a", {"k": "4"})))
    assert kc.client.get(kc.path("configmaps", "a")).expect(200)["metadata"]["uid"] != before


def test_delete(kc: Kubectl) -> None:
    for name in "abcdef":
        kc.client.post(kc.path("configmaps"), configmap(name, {}, labels={"half": "1" if name < "d" else "2"})).expect(201)
    assert 'configmap "a" deleted' in kc.out("delete", "cm", "a")
    assert "NotFound" in kc.fails("delete", "cm", "a")
    assert kc("delete", "cm", "a", "--ignore-not-found").out.strip() == ""
    assert len(kc.out("delete", "cm", "-l", "half=1").splitlines()) == 2
    assert "No resources found" in kc("delete", "cm", "-l", "half=1").out
    kc("delete", *FILE, input=text(configmap("d", {})))
    kc("delete", "cm", "--all", "--wait=true")
    assert {obj["metadata"]["name"] for obj in kc.client.get(kc.path("configmaps")).expect(200)["items"]} <= {"kube-root-ca.crt"}


def test_delete_waits_for_finalizers(kc: Kubectl) -> None:
    kc.client.post(kc.path("configmaps"), configmap("f", {}, finalizers=["example.com/hold"])).expect(201)
    kc("delete", "cm", "f", "--wait=false")
    assert "timed out" in kc.fails("delete", "cm", "f", "--timeout=1s")
    kc("patch", "cm", "f", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    kc("wait", "--for=delete", "cm/f", "--timeout=10s")
    kc.client.get(kc.path("configmaps", "f")).expect(404)


@pytest.mark.parametrize("cascade", ["background", "foreground", "orphan"])
def test_delete_with_dependents(kc: Kubectl, cascade: str) -> None:
    owner = kc.client.post(kc.path("configmaps"), configmap("owner", {})).expect(201)
    reference = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "owner",
        "uid": owner["metadata"]["uid"],
        "blockOwnerDeletion": True,
    }
    kc.client.post(kc.path("configmaps"), configmap("child", {}, ownerReferences=[reference])).expect(201)
    kc("delete", "cm", "owner", f"--cascade={cascade}", "--timeout=30s")
    kc.client.get(kc.path("configmaps", "owner")).expect(404)
    if cascade == "orphan":
        assert "ownerReferences" not in kc.client.get(kc.path("configmaps", "child")).expect(200)["metadata"]
    else:
        kc("wait", "--for=delete", "cm/child", "--timeout=30s")


def test_deleting_a_namespace_takes_what_is_in_it(kc: Kubectl) -> None:
    name = kc.namespace + "-gone"
    kc("create", "namespace", name)
    kc.client.post(f"/api/v1/namespaces/{name}/configmaps", configmap("a", {})).expect(201)
    kc("delete", "namespace", name, "--timeout=40s")
    kc.client.get(f"/api/v1/namespaces/{name}").expect(404)


def test_labels_annotations_and_taints(kc: Kubectl) -> None:
    kc.client.post(kc.path("configmaps"), configmap("a", {})).expect(201)
    assert kc.out("label", "cm", "a", "x=1") == "configmap/a labeled"
    assert "already has a value" in kc.fails("label", "cm", "a", "x=2")
    kc("label", "cm", "a", "x=2", "--overwrite")
    assert kc.out("get", "cm", "a", "-o", "jsonpath={.metadata.labels.x}") == "2"
    assert kc.out("label", "cm", "a", "x-") == "configmap/a unlabeled"
    assert kc.out("annotate", "cm", "a", "note=hello") == "configmap/a annotated"
    assert kc.out("label", "cm", "a", "--list") == ""
    node = kc.namespace
    kc.client.post("/api/v1/nodes", {"metadata": {"name": node}}).expect(201)
    kc.remove_later(f"/api/v1/nodes/{node}")
    assert kc.out("taint", "node", node, "key=value:NoSchedule") == f"node/{node} tainted"
    assert kc.out("taint", "node", node, "key-") == f"node/{node} untainted"
    assert kc.out("cordon", node) == f"node/{node} cordoned"


def test_scaling_and_rollouts(kc: Kubectl) -> None:
    kc.client.post(kc.path("deployments", prefix="/apis/apps/v1"), deployment("w")).expect(201)
    assert kc.out("scale", "deployment", "w", "--replicas=4") == "deployment.apps/w scaled"
    assert replicas(kc, "w") == 4
    assert "xpected replicas" in kc.fails("scale", "deployment", "w", "--replicas=5", "--current-replicas=9")
    assert "autoscaled" in kc.out("autoscale", "deployment", "w", "--max=3", "--min=1")
    assert kc.out("get", "hpa", "w", "-o", "jsonpath={.spec.maxReplicas}") == "3"
    assert "image updated" in kc.out("set", "image", "deployment/w", "main=example/main:9")
    assert "env updated" in kc.out("set", "env", "deployment/w", "A=1")
    assert "restarted" in kc.out("rollout", "restart", "deployment/w")
    assert "paused" in kc.out("rollout", "pause", "deployment/w")
    assert "resumed" in kc.out("rollout", "resume", "deployment/w")
    assert kc.out("rollout", "history", "deployment/w").startswith("deployment.apps/w")
    waiting = kc("rollout", "status", "deployment/w", "--timeout=1s", code=1)
    assert "Waiting for deployment" in waiting.out
    generation = kc.client.get(kc.path("deployments", "w", "/apis/apps/v1")).expect(200)["metadata"]["generation"]
    status = {
        "status": {
            "observedGeneration": generation,
            "replicas": 4,
            "updatedReplicas": 4,
            "availableReplicas": 4,
            "readyReplicas": 4,
        }
    }
    kc.client.patch(kc.path("deployments", "w", "/apis/apps/v1") + "/status", status).expect(200)
    assert "successfully rolled out" in kc.out("rollout", "status", "deployment/w", "--timeout=5s")


def test_expose(kc: Kubectl) -> None:
    kc.client.post(kc.path("deployments", prefix="/apis/apps/v1"), deployment("w")).expect(201)
    assert kc.out("expose", "deployment", "w", "--port=80", "--target-port=8080") == "service/w exposed"
    service = json.loads(kc.out("get", "service", "w", "-o", "json"))
    assert service["spec"]["selector"] == {"app": "w"}
    assert service["spec"]["clusterIP"]
    assert service["spec"]["ports"][0]["targetPort"] == 8080
