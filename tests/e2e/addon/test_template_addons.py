"""Template addons from nothing to Available and back, on a hub and a managed cluster (A1, A4, A5)."""

from __future__ import annotations

import orjson

from tests.e2e.addon.conftest import CONFIGS, INSTALL_NAMESPACE, TEMPLATES, Site, config_map, deployment
from tests.support.administrator import CSRS, RBAC, Document

KUBE_CLIENT = {"type": "KubeClient", "kubeClient": {"hubPermissions": []}}
FEATURE = "feature.open-cluster-management.io/addon-"


def with_role(role: str) -> list[Document]:
    permission = {"type": "CurrentCluster", "currentCluster": {"clusterRoleName": role}}
    return [{"type": "KubeClient", "kubeClient": {"hubPermissions": [permission]}}]


def allow(site: Site, role: str, *rules: Document) -> str:
    """A role on the hub that the addon manager may hand out, because an administrator says so."""
    handed_out = {"open-cluster-management.io/aggregate-to-addon-manager": "true"}
    body = {"metadata": {"name": role, "labels": handed_out}, "rules": list(rules)}
    site.admin.post(f"{RBAC}/clusterroles", body).expect(201)
    return role


def labels(site: Site) -> Document:
    """Of the managed cluster."""
    return dict((site.hub.find(site.cluster) or {})["metadata"].get("labels") or {})


def environment(site: Site, name: str, namespace: str = INSTALL_NAMESPACE) -> dict[str, str]:
    found = site.wait_on_cluster(f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}")
    (container,) = found["spec"]["template"]["spec"]["containers"]
    return {one["name"]: one.get("value", "") for one in container.get("env", ())}


def test_an_addon_is_enabled_becomes_available_and_leaves_nothing_behind(site: Site) -> None:
    addon = site.name()
    reads_maps = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]}
    role = allow(site, f"{addon}-agent-role", reads_maps)
    site.offer(addon, site.template(addon, deployment(addon), registration=with_role(role)))
    made = site.enable(addon)

    secret = site.wait_secret(f"{addon}-hub-kubeconfig")
    assert secret["cluster-name"].decode() == site.cluster
    site.run_pods(addon)
    site.wait(addon, "Available")
    for kind in ("RegistrationApplied", "ManifestApplied", "Configured", "ClusterCertificateRotated"):
        site.wait(addon, kind)
    site.wait(addon, "Progressing", "False", "Completed")
    site.hub.wait(lambda: labels(site).get(FEATURE + addon) == "available", "its label")

    owner = (site.find(addon) or {})["metadata"]["ownerReferences"][0]
    assert (owner["kind"], owner["name"]) == ("ClusterManagementAddOn", addon)
    known = environment(site, addon)
    assert known["HUB_KUBECONFIG"] == "/managed/hub-kubeconfig/kubeconfig"
    assert known["CLUSTER_NAME"] == site.cluster

    # Its agent has just the rights that its template says, in its cluster's namespace and nowhere else.
    agent = site.addon_client(secret)
    assert agent.get(f"/api/v1/namespaces/{site.cluster}/configmaps").status == 200
    assert agent.get("/api/v1/namespaces/default/configmaps").status == 403
    assert agent.get(f"/api/v1/namespaces/{site.cluster}/secrets").status == 403

    site.disable(addon)
    site.hub.wait(lambda: site.find(addon) is None, "the addon to be gone", 60)
    site.hub.wait(lambda: site.works(addon) == [], "its works to be gone", 60)
    site.hub.wait(lambda: site.on_cluster(deployment_path(addon)) is None, "its Deployment to be gone", 60)
    site.hub.wait(lambda: not site.secret(f"{addon}-hub-kubeconfig"), "its Secret to be gone", 60)
    site.hub.wait(lambda: agent.get(f"/api/v1/namespaces/{site.cluster}/configmaps").status in (401, 403), "its rights to be gone")
    site.hub.wait(lambda: FEATURE + addon not in labels(site), "its label to be gone")
    assert made["metadata"]["uid"]


def deployment_path(name: str, namespace: str = INSTALL_NAMESPACE) -> str:
    return f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}"


def test_configurations_override_each_other_and_an_edit_reaches_the_cluster(site: Site) -> None:
    addon = site.name()
    config = site.config(f"{addon}-config", customizedVariables=[{"name": "LEVEL", "value": 'a"b'}])
    manifest = config_map(addon, data={"level": "{{LEVEL}}", "spaced": "{{ LEVEL }}", "unknown": "[{{NOBODY}}]", "open": "{{LEVEL"})
    site.offer(addon, site.template(addon, manifest))
    site.enable(addon, configs=[config])
    place = f"/api/v1/namespaces/{INSTALL_NAMESPACE}/configmaps/{addon}"
    data = site.wait_on_cluster(place)["data"]
    assert data == {"level": 'a"b', "spaced": 'a"b', "unknown": "[]", "open": "{{LEVEL"}
    site.hub.wait(lambda: applied(site, addon, CONFIGS["resource"]) != "", "the configuration to be applied", 60)
    first = applied(site, addon, CONFIGS["resource"])
    assert applied(site, addon, TEMPLATES["resource"])

    edited = {"spec": {"customizedVariables": [{"name": "LEVEL", "value": "debug"}]}}
    path = f"/apis/addon.open-cluster-management.io/v1alpha1/namespaces/default/addondeploymentconfigs/{addon}-config"
    site.admin.patch(path, edited).expect(200)
    site.hub.wait(lambda: site.wait_on_cluster(place)["data"]["level"] == "debug", "the edit on the cluster", 60)
    site.hub.wait(lambda: applied(site, addon, CONFIGS["resource"]) not in ("", first), "the edit to be said applied", 60)
    (work,) = site.works(addon)
    hashes = orjson.loads(work["metadata"]["annotations"]["open-cluster-management.io/config-spec-hash"])
    assert set(hashes.values()) == {applied(site, addon, kind["resource"]) for kind in (CONFIGS, TEMPLATES)}
    site.disable(addon)


def applied(site: Site, addon: str, resource: str) -> str:
    """The hash of the configuration of this kind that is said to be on the cluster."""
    references = site.status(addon).get("configReferences") or []
    found: Document = next((one for one in references if one["resource"] == resource), {})
    return str((found.get("lastAppliedConfig") or {}).get("specHash", ""))


def test_a_kind_that_the_addon_does_not_support_is_named(site: Site) -> None:
    addon = site.name()
    site.offer(addon, site.template(addon, config_map(addon)))
    site.enable(addon, configs=[{"group": "example.com", "resource": "colours", "name": "red"}])
    found = site.wait(addon, "Progressing", "False", "ConfigurationUnsupported")
    assert "example.com/colours" in found["message"]
    site.disable(addon)


def test_a_configuration_that_is_missing_is_waited_for(site: Site) -> None:
    addon = site.name()
    site.offer(addon, site.template(addon, config_map(addon, data={"v": "{{V}}"})))
    site.enable(addon, configs=[{**CONFIGS, "namespace": "default", "name": f"{addon}-late"}])
    site.wait(addon, "Progressing", "False", "WaitingForManifestApplied")
    assert site.works(addon) == []
    site.config(f"{addon}-late", customizedVariables=[{"name": "V", "value": "here"}])
    found = site.wait_on_cluster(f"/api/v1/namespaces/{INSTALL_NAMESPACE}/configmaps/{addon}")
    assert found["data"] == {"v": "here"}
    site.disable(addon)


def test_images_nodes_proxies_and_resources_follow_the_configuration(site: Site) -> None:
    addon, namespace = site.name(), "elsewhere-" + site.name("ns")
    config = site.config(
        f"{addon}-config",
        agentInstallNamespace=namespace,
        nodePlacement={"tolerations": [{"key": "infra", "operator": "Exists"}]},
        registries=[{"source": "quay.io/example", "mirror": "mirror.example/ours"}, {"source": "quay.io/exam", "mirror": "wrong"}],
        proxyConfig={"httpsProxy": "http://proxy.example:3128", "noProxy": "10.0.0.0/8", "caBundle": "Q0E="},
        resourceRequirements=[
            {"containerID": "deployments:*:agent", "resources": {"limits": {"memory": "64Mi"}}},
        ],
    )
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "replaced"}}
    site.offer(addon, site.template(addon, space, deployment(addon, "replaced"), registration=[KUBE_CLIENT]))
    site.enable(addon, configs=[config])
    found = site.wait_on_cluster(deployment_path(addon, namespace))
    site.let_agent_in(namespace)
    pod = found["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["image"] == "mirror.example/ours/agent:v1"
    assert container["resources"] == {"limits": {"memory": "64Mi"}}
    assert {"key": "infra", "operator": "Exists"} in pod["tolerations"]
    known = environment(site, addon, namespace)
    assert known["HTTPS_PROXY"] == known["https_proxy"] == "http://proxy.example:3128"
    assert known["CA_BUNDLE_FILE_PATH"]
    assert known["INSTALL_NAMESPACE"] == namespace
    assert site.status(addon)["namespace"] == namespace
    # The credential is where the agent runs: the manager marks the namespaces that it ships.
    assert site.wait_secret(f"{addon}-hub-kubeconfig", namespace)["kubeconfig"]
    bundle = site.wait_on_cluster(f"/api/v1/namespaces/{namespace}/configmaps/{addon}-proxy-ca")
    assert bundle["data"]["ca-bundle.crt"] == "CA"
    site.disable(addon)


def hook(addon: str) -> Document:
    """A Job that has to be done before the addon is removed."""
    container = {"name": "hook", "image": "quay.io/example/agent:v1"}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": f"{addon}-hook",
            "namespace": INSTALL_NAMESPACE,
            "annotations": {"addon.open-cluster-management.io/addon-pre-delete": ""},
        },
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}},
    }


def hook_path(addon: str) -> str:
    return f"/apis/batch/v1/namespaces/{INSTALL_NAMESPACE}/jobs/{addon}-hook"


def finish_hook(site: Site, addon: str) -> None:
    """As the controller of Jobs would report."""
    site.wait_on_cluster(hook_path(addon))
    now = "2026-11-18T00:00:00Z"
    done = [{"type": kind, "status": "True", "lastTransitionTime": now} for kind in ("SuccessCriteriaMet", "Complete")]
    status = {"conditions": done, "startTime": now, "completionTime": now, "succeeded": 1}
    site.spoke.admin.patch(f"{hook_path(addon)}/status", {"status": status}).expect(200)


def test_a_hook_runs_before_the_agent_is_removed_and_orphans_stay(site: Site) -> None:
    addon = site.name()
    kept = config_map(f"{addon}-kept", annotations={"addon.open-cluster-management.io/deletion-orphan": ""})
    site.offer(addon, site.template(addon, config_map(addon), hook(addon), kept))
    site.enable(addon)
    maps = f"/api/v1/namespaces/{INSTALL_NAMESPACE}/configmaps"
    site.wait_on_cluster(f"{maps}/{addon}")
    site.wait_on_cluster(f"{maps}/{addon}-kept")
    site.wait(addon, "ManifestApplied")
    job = hook_path(addon)
    assert site.on_cluster(job) is None

    site.disable(addon)
    site.wait_on_cluster(job)
    site.wait(addon, "HookManifestCompleted", "False", "HookManifestIsNotCompleted")
    assert site.on_cluster(f"{maps}/{addon}"), "the agent is there while its hook runs"
    finish_hook(site, addon)
    site.hub.wait(lambda: site.find(addon) is None, "the addon to be gone", 60)
    site.hub.wait(lambda: site.on_cluster(f"{maps}/{addon}") is None, "its ConfigMap to be gone", 60)
    assert site.on_cluster(f"{maps}/{addon}-kept"), "what is orphaned stays"
    site.spoke.admin.delete(f"{maps}/{addon}-kept")


def test_requests_of_addons_are_not_left_over(site: Site) -> None:
    addon = site.name()
    site.offer(addon, site.template(addon, config_map(addon), registration=[KUBE_CLIENT]))
    site.enable(addon)
    site.wait_secret(f"{addon}-hub-kubeconfig")
    selector = f"labelSelector=open-cluster-management.io/addon-name={addon}"
    (request,) = site.admin.get(f"{CSRS}?{selector}").expect(200)["items"]
    assert request["metadata"]["name"].startswith(f"addon-{site.cluster}-{addon}-")
    assert request["spec"]["usages"] == ["digital signature", "key encipherment", "client auth"]
    site.disable(addon)
