"""kubectl get, describe, explain, watch and wait, in each version, on whichever control plane the tests run."""

from __future__ import annotations

import json
import subprocess
import threading
import time

import pytest
import yaml

from tests.e2e.conftest import Kubectl
from tests.e2e.manifests import configmap, definition, deployment, gadget, text
from tests.support.kubectl import executable


def rows(table: str) -> list[list[str]]:
    return [line.split() for line in table.splitlines()]


def three_maps(kc: Kubectl) -> None:
    for name, tier in (("b", "front"), ("a", "back"), ("c", "back")):
        kc.client.post(kc.path("configmaps"), configmap(name, {"k": name * 2}, labels={"tier": tier})).expect(201)


def test_get_prints_tables(kc: Kubectl) -> None:
    three_maps(kc)
    table = rows(kc.out("get", "configmaps"))
    assert table[0] == ["NAME", "DATA", "AGE"]
    assert [row[0] for row in table[1:] if row[0] != "kube-root-ca.crt"] == ["a", "b", "c"]
    assert rows(kc.out("get", "cm", "a", "--no-headers"))[0][:2] == ["a", "1"]
    assert rows(kc.out("get", "cm", "-l", "tier=back", "-o", "wide"))[0] == ["NAME", "DATA", "AGE"]
    assert kc.out("get", "cm", "a", "--show-labels").endswith("tier=back")
    assert rows(kc.out("get", "cm", "a", "-L", "tier"))[1][-1] == "back"
    everywhere = rows(kc.out("get", "cm", "-A", "-l", "tier"))
    assert everywhere[0][:2] == ["NAMESPACE", "NAME"]
    assert [kc.namespace, "a"] in [row[:2] for row in everywhere]


def test_get_selects_and_sorts(kc: Kubectl) -> None:
    three_maps(kc)
    assert kc.out("get", "cm", "-l", "tier in (back)", "-o", "name").split() == ["configmap/a", "configmap/c"]
    assert kc.out("get", "cm", "-l", "tier,tier!=back", "-o", "name") == "configmap/b"
    assert kc.out("get", "cm", "--field-selector", "metadata.name=b", "-o", "name") == "configmap/b"
    names = kc.out("get", "cm", "-l", "tier", "--sort-by={.data.k}", "-o", "custom-columns=N:.metadata.name", "--no-headers")
    assert names.split() == ["a", "b", "c"]
    assert "No resources found" in kc("get", "cm", "-l", "tier=none").err
    assert "is not a known field selector" in kc.fails("get", "cm", "--field-selector", "data.k=x")


def test_get_prints_objects(kc: Kubectl) -> None:
    three_maps(kc)
    assert yaml.safe_load(kc.out("get", "cm", "a", "-o", "yaml"))["data"] == {"k": "aa"}
    as_json = json.loads(kc.out("get", "cm", "-l", "tier", "-o", "json"))
    assert as_json["kind"] == "List"
    assert [item["metadata"]["name"] for item in as_json["items"]] == ["a", "b", "c"]
    assert all("managedFields" not in item["metadata"] for item in as_json["items"])
    assert "managedFields" in kc.out("get", "cm", "a", "-o", "json", "--show-managed-fields")
    assert kc.out("get", "cm", "a", "-o", "jsonpath={.data.k}") == "aa"
    assert kc.out("get", "cm", "-l", "tier", "-o", "jsonpath={range .items[*]}{.metadata.name} {end}") == "a b c"
    assert kc.out("get", "cm", "a", "-o", "go-template={{.data.k}}") == "aa"
    assert kc.out("get", "cm", "a", "-o", "custom-columns=K:.data.k").split() == ["K", "aa"]


def test_get_of_what_is_not_there(kc: Kubectl) -> None:
    assert kc.fails("get", "cm", "none") == 'Error from server (NotFound): configmaps "none" not found'
    assert kc("get", "cm", "none", "--ignore-not-found").out == ""
    assert 'the server doesn\'t have a resource type "nothings"' in kc.fails("get", "nothings")
    assert kc("get", "deployments").err.startswith("No resources found in")


def test_get_raw_and_cluster_info(kc: Kubectl) -> None:
    assert kc.out("get", "--raw", "/readyz") == "ok"
    assert json.loads(kc.out("get", "--raw", kc.path("configmaps")))["kind"] == "ConfigMapList"
    assert "NotFound" in kc.fails("get", "--raw", "/nope")
    assert kc.plane.url in kc.out("cluster-info")
    version = json.loads(kc.out("version", "-o", "json"))
    assert version["serverVersion"]["minor"] == "35"


def test_get_all_and_several_kinds(kc: Kubectl) -> None:
    three_maps(kc)
    kc.client.post(kc.path("deployments", prefix="/apis/apps/v1"), deployment("web")).expect(201)
    assert kc.out("get", "cm/a", "deploy/web", "-o", "name").split() == ["configmap/a", "deployment.apps/web"]
    everything = kc.out("get", "all")
    assert "deployment.apps/web" in everything
    assert "0/1" in everything


def test_describe(kc: Kubectl) -> None:
    three_maps(kc)
    kc("create", "secret", "generic", "hush", "--from-literal=password=12345")
    kc("create", "role", "reader", "--verb=get,list", "--resource=pods,deployments.apps")
    kc("create", "service", "clusterip", "svc", "--tcp=80:8080")
    kc.client.post(kc.path("deployments", prefix="/apis/apps/v1"), deployment("web", 2)).expect(201)
    shown = kc.out("describe", "configmap", "a")
    assert "Name:         a" in shown
    assert "tier=back" in shown
    assert "BinaryData" in shown
    hidden = kc.out("describe", "secret", "hush")
    assert "password:  5 bytes" in hidden
    assert "12345" not in hidden
    assert "Image pull secrets" in kc.out("describe", "serviceaccount", "default")
    role = kc.out("describe", "role", "reader")
    assert "deployments.apps" in role
    assert "[get list]" in role
    service = kc.out("describe", "service", "svc")
    assert "ClusterIP" in service
    assert "8080/TCP" in service
    web = kc.out("describe", "deployment", "web")
    assert "2 desired" in web
    assert "example/main:1" in web
    assert "Status:       Active" in kc.out("describe", "namespace", kc.namespace)
    assert "not found" in kc.fails("describe", "cm", "none")


def test_describe_cluster_things(kc: Kubectl) -> None:
    node = kc.namespace
    body = {"metadata": {"name": node}, "status": {"capacity": {"cpu": "4"}}, "spec": {"podCIDR": "10.9.0.0/24"}}
    kc.client.post("/api/v1/nodes", body).expect(201)
    kc.remove_later(f"/api/v1/nodes/{node}")
    shown = kc.out("describe", "node", node)
    assert "10.9.0.0/24" in shown
    assert "Unschedulable:      false" in shown
    assert "cluster-admin" in kc.out("describe", "clusterrolebinding", "cluster-admin")
    group = f"{kc.namespace}.example.com"
    kc.remove_later(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/gadgets.{group}")
    kc("apply", "-f", "-", input=text(definition(group)))
    assert "Gadget" in kc.out("describe", "crd", f"gadgets.{group}")


def test_explain(kc: Kubectl) -> None:
    shown = kc.out("explain", "configmap")
    assert "KIND:       ConfigMap" in shown
    assert "VERSION:    v1" in shown
    assert "immutable" in shown
    field = kc.out("explain", "deployment.spec.strategy.rollingUpdate.maxSurge")
    assert "GROUP:      apps" in field
    assert "FIELD: maxSurge" in field
    assert "template" in kc.out("explain", "deployment.spec", "--recursive")
    assert "does not exist" in kc.fails("explain", "deployment.spec.nope")
    assert "nothings" in kc.fails("explain", "nothings")


def test_discovery_lists(kc: Kubectl) -> None:
    table = kc.out("api-resources", "--api-group=apps", "--no-headers")
    assert [row[0] for row in rows(table)][:3] == ["controllerrevisions", "daemonsets", "deployments"]
    assert "deploy" in table
    namespaced = kc.out("api-resources", "--namespaced=false", "-o", "name").split()
    assert "namespaces" in namespaced
    assert "pods" not in namespaced
    assert "create,delete" in kc.out("api-resources", "-o", "wide", "--api-group=batch")
    versions = kc.out("api-versions").split()
    assert {"v1", "apps/v1", "rbac.authorization.k8s.io/v1", "apiextensions.k8s.io/v1"} <= set(versions)


def test_a_definition_then_its_objects(kc: Kubectl) -> None:
    group = f"{kc.namespace}.example.com"
    kc.remove_later(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/gadgets.{group}")
    both = text(definition(group), gadget(group, "g", 3))
    kc("apply", "-f", "-", input=both, code=1)  # kubectl maps all kinds before it applies any.
    kc("wait", "--for=condition=Established", f"crd/gadgets.{group}", "--timeout=20s")
    kc("apply", "-f", "-", input=both)
    assert rows(kc.out("get", f"gadgets.{group}")) == [["NAME", "SIZE"], ["g", "3"]]
    assert kc.out("get", f"gadgets.{group}", "g", "-o", "jsonpath={.spec.size}") == "3"
    assert "spec.size: Invalid value: 0" in kc.fails("apply", "-f", "-", input=text(gadget(group, "g", 0)))
    assert "unknown field" in kc.fails("apply", "-f", "-", input=text({**gadget(group, "h", 1), "zap": 1}))
    assert "patched" in kc.out("patch", f"gadgets.{group}", "g", "--type=merge", "-p", '{"spec":{"size":4}}')
    assert "How large it is." in kc.out("explain", f"gadgets.{group}.spec.size")
    assert "deleted" in kc.out("delete", f"gadgets.{group}", "g")


def test_watching(kc: Kubectl) -> None:
    three_maps(kc)
    program = executable(kc.which)
    assert program is not None
    watching = subprocess.Popen(
        [program, "get", "cm", "-l", "tier", "-w", "--output-watch-events", "--no-headers", "-n", kc.namespace],
        env={"KUBECONFIG": str(kc.plane.kubeconfig), "HOME": str(kc.scratch), "PATH": ""},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert watching.stdout is not None
    try:
        first = sorted(tuple(watching.stdout.readline().split()[:2]) for _ in range(3))
        assert first == [("ADDED", "a"), ("ADDED", "b"), ("ADDED", "c")]
        kc.client.patch(kc.path("configmaps", "a"), {"data": {"more": "x"}}).expect(200)
        assert watching.stdout.readline().split()[:3] == ["MODIFIED", "a", "2"]
        kc.client.delete(kc.path("configmaps", "a")).expect(200)
        assert watching.stdout.readline().split()[:2] == ["DELETED", "a"]
    finally:
        watching.kill()
        watching.wait()


def test_waiting(kc: Kubectl) -> None:
    three_maps(kc)
    assert "condition met" in kc.out("wait", "--for=jsonpath={.data.k}=aa", "cm/a", "--timeout=5s")
    assert "condition met" in kc.out("wait", "--for=jsonpath={.status.phase}=Active", f"ns/{kc.namespace}", "--timeout=5s")
    assert "timed out waiting" in kc.fails("wait", "--for=jsonpath={.data.k}=zz", "cm/a", "--timeout=1s")

    def later() -> None:
        time.sleep(0.5)
        client = kc.plane.client()
        client.delete(kc.path("configmaps", "b"))
        client.close()

    thread = threading.Thread(target=later)
    thread.start()
    kc("wait", "--for=delete", "cm/b", "--timeout=20s")
    thread.join()
    assert kc("wait", "--for=delete", "cm/none", "--timeout=5s").code == 0


@pytest.mark.parametrize("command", [["top", "nodes"], ["top", "pods"]])
def test_top_without_metrics_says_so(kc: Kubectl, command: list[str]) -> None:
    assert "Metrics API not available" in kc.fails(*command)


def test_logs_and_exec_fail_cleanly(kc: Kubectl) -> None:
    pod = {"metadata": {"name": "p"}, "spec": {"nodeName": "nowhere", "containers": [{"name": "c", "image": "example/c:1"}]}}
    kc.client.post(kc.path("pods"), pod).expect(201)
    for command in (["logs", "p"], ["exec", "p", "--", "true"], ["port-forward", "p", "1:1"]):
        message = kc.fails(*command)
        assert "rror" in message, message
        assert len(message.splitlines()) < 4, message
        assert "panic" not in message
    assert 'pods "none" not found' in kc.fails("logs", "none")


def test_events(kc: Kubectl) -> None:
    assert "No events found" in kc("events").err
    event = {
        "metadata": {"name": "e"},
        "involvedObject": {"apiVersion": "v1", "kind": "ConfigMap", "namespace": kc.namespace, "name": "a"},
        "reason": "Tried",
        "message": "it worked",
        "type": "Normal",
        "lastTimestamp": "2026-11-15T10:00:00Z",
    }
    kc.client.post(kc.path("events"), event).expect(201)
    assert "it worked" in kc.out("events")
    assert "it worked" in kc.out("get", "events", "--field-selector", "reason=Tried")
    assert "Tried" in kc.out("events", "--for", "configmap/a")
