"""The addon for hub templates from disabled to enabled and back, on a cluster that has joined its hub; only kubelets are played."""

from __future__ import annotations

import base64

import yaml

from muster.policy.names import STANDALONE_DISABLED
from tests.e2e.addon.conftest import ADDONS, CLUSTERS, INSTALL_NAMESPACE, Site
from tests.e2e.policy_addon.conftest import CONTROLLER, STANDALONE, Pod
from tests.support import peers
from tests.support.administrator import CSRS, MANAGED_CLUSTERS, RBAC, Document
from tests.support.hub_components import PolicyAddonHub
from tests.support.policies import config_map, path, template
from tests.support.sites import beside_kube

FLAG = "--standalone-hub-templates-kubeconfig-path=/var/run/standalone-hub-templating/kubeconfig"


def bring(site: Site, name: str, text: str) -> Document:
    kind = {"apiVersion": "policy.open-cluster-management.io/v1", "kind": "ConfigurationPolicy"}
    spec = {"remediationAction": "enforce", "object-templates": [template(config_map(name, "default", {"value": text}))]}
    document = {**kind, "metadata": {"name": name, "namespace": "open-cluster-management-policies"}, "spec": spec}
    place = path("ConfigurationPolicy", "open-cluster-management-policies", name)
    site.wait_on_cluster("/api/v1/namespaces/open-cluster-management-policies")
    site.hub.wait(lambda: site.spoke.admin.get(place).status == 404, "the kind to be served")
    site.hub.wait(lambda: site.spoke.admin.apply(place, document, "argocd").status in (200, 201), "the policy to be taken")
    return dict(site.spoke.admin.get(place).expect(200))


def wait_message(site: Site, policy: Document, says: str) -> None:
    place = path("ConfigurationPolicy", policy["metadata"]["namespace"], policy["metadata"]["name"])

    def look() -> bool:
        history = ((site.on_cluster(place) or {}).get("status") or {}).get("history") or [{"message": ""}]
        return says in history[0]["message"]

    site.hub.wait(look, f"the policy to say {says!r}", 60)


def grant(site: Site, group: str) -> None:
    """The ConfigMap `settings` of the hub's namespace `shop`, and to whom it may be known."""
    site.admin.post("/api/v1/namespaces", {"metadata": {"name": "shop"}}).expect(201, 409)
    site.admin.post(path("ConfigMap", "shop"), config_map("settings", "shop", {"color": "red"})).expect(201)
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "shop"}
    subjects = [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": group}]
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list", "watch"]}]
    site.admin.post(path("Role", "shop"), {"metadata": {"name": "shop"}, "rules": rules}).expect(201)
    bound = {"metadata": {"name": "shop"}, "roleRef": reference, "subjects": subjects}
    site.admin.post(path("RoleBinding", "shop"), bound).expect(201)


def traces(site: Site) -> list[str]:
    """What there is of the addon's user: requests, rights, and Secrets on the cluster."""
    found = []
    for place in (CSRS, f"{RBAC}/clusterroles", f"{RBAC}/clusterrolebindings"):
        for one in site.admin.get(place).expect(200)["items"]:
            metadata = one["metadata"]
            if STANDALONE in str(metadata) and site.cluster in metadata["name"]:
                found.append(f"{place}/{metadata['name']}")
    secrets = site.spoke.admin.get(f"/api/v1/namespaces/{INSTALL_NAMESPACE}/secrets").json.get("items") or []
    return found + [one["metadata"]["name"] for one in secrets if STANDALONE in one["metadata"]["name"]]


def place_of(document: Document) -> str:
    kinds = {
        "Namespace": "/api/v1/namespaces",
        "ManagedClusterSetBinding": f"{CLUSTERS}/v1beta2/namespaces/policy-addons/managedclustersetbindings",
        "Placement": f"{CLUSTERS}/v1beta1/namespaces/policy-addons/placements",
        "ClusterManagementAddOn": f"{ADDONS}/clustermanagementaddons",
    }
    return f"{kinds[document['kind']]}/{document['metadata']['name']}"


def wait_presence(site: Site, cluster: str, *, present: bool) -> None:
    site.hub.wait(lambda: (site.find(STANDALONE, cluster) is not None) is present, f"addon on {cluster}: {present}", 60)


def test_the_addon_is_on_every_cluster_by_a_global_placement(site: Site, policy_addon: PolicyAddonHub) -> None:
    """A22, for the addon of hub templates alone: also on clusters that do not answer, and on those that come later."""
    documents = list(yaml.safe_load_all((peers.ROOT / "examples/policy/enable-everywhere.yaml").read_text()))
    first = site.known_cluster(site.name("unreachable"))
    for document in documents:
        if document["metadata"]["name"] != CONTROLLER:
            site.admin.apply(place_of(document), document, "kubectl", force=True).expect(200, 201)
    later = site.known_cluster(site.name("later"))
    for cluster in (site.cluster, first, later):
        wait_presence(site, cluster, present=True)
    site.wait_secret(f"{STANDALONE}-hub-kubeconfig")

    nobody = [{"requiredClusterSelector": {"labelSelector": {"matchLabels": {"nobody": "has-this"}}}}]
    placement = next(one for one in documents if one["kind"] == "Placement")
    site.admin.patch(place_of(placement), {"spec": {"predicates": nobody}}).expect(200)
    wait_presence(site, site.cluster, present=False)
    for cluster in (first, later):
        site.let_works_go(STANDALONE, cluster)
        wait_presence(site, cluster, present=False)
    manual = {"spec": {"installStrategy": {"type": "Manual", "placements": None}}}
    site.admin.patch(f"{ADDONS}/clustermanagementaddons/{STANDALONE}", manual).expect(200)
    site.hub.wait(lambda: [one for one in traces(site) if CSRS not in one] == [], "every trace of the user to go", 60)


@beside_kube
def test_enabling_and_disabling_fifty_times_leaves_nothing(site: Site, policy_addon: PolicyAddonHub) -> None:
    """No Secret, binding or role, and no open request."""
    for _ in range(50):
        site.enable(STANDALONE)
        site.wait_secret(f"{STANDALONE}-hub-kubeconfig")
        site.disable(STANDALONE)
        site.hub.wait(lambda: site.find(STANDALONE) is None, "the addon to go", 60)
        site.hub.wait(lambda: [one for one in traces(site) if CSRS not in one] == [], "every trace of the user to go", 60)
    requests = [one for one in site.admin.get(CSRS).expect(200)["items"] if STANDALONE in one["metadata"]["name"]]
    assert all((one.get("status") or {}).get("certificate") for one in requests), "every request was answered"


def test_hub_templates_from_disabled_to_enabled_and_back(site: Site, pod: Pod) -> None:
    """A12, A21 (story 4), A1 and goals 1, 4 and 6 through the addons themselves; and that the controller's own user on the hub, who
    is there for its lease, reads nothing that templates may."""
    site.enable(CONTROLLER)
    policy = bring(site, "hub-template", '{{hub fromConfigMap "shop" "settings" "color" hub}} {{hub .ManagedClusterName hub}}')
    pod.start()
    wait_message(site, policy, STANDALONE_DISABLED)
    assert FLAG not in pod.arguments
    assert traces(site) == []
    assert site.on_cluster(path("ConfigMap", "default", "hub-template")) is None

    site.enable(STANDALONE)
    site.hub.wait(lambda: FLAG in pod.arguments, "the flag", 30)
    assert pod.volumes[f"{STANDALONE}-hub-kubeconfig"] == "/var/run/standalone-hub-templating"
    pod.stop()
    pod.start()
    wait_message(site, policy, "is forbidden")
    info = site.wait_secret(f"{STANDALONE}-info")
    group = info["hub.group"].decode()

    grant(site, group)
    wait_message(site, policy, "Compliant")
    found = site.wait_on_cluster(path("ConfigMap", "default", "hub-template"))
    assert found["data"] == {"value": f"red {site.cluster}"}
    for addon in (CONTROLLER, STANDALONE):
        site.wait(addon, "Available", reason="ManagedClusterAddOnLeaseUpdated")

    own = site.addon_client(site.secret(f"{CONTROLLER}-hub-kubeconfig"))
    assert own.get(path("ConfigMap", "shop")).status == 403
    assert own.get(f"{MANAGED_CLUSTERS}/{site.cluster}").status == 403
    theirs = site.addon_client(site.secret(f"{STANDALONE}-hub-kubeconfig"))
    assert theirs.get(path("ConfigMap", "shop")).status == 200
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{site.cluster}/leases"
    assert theirs.get(leases).status == 403

    kept = path("Secret", policy["metadata"]["namespace"], policy["metadata"]["uid"] + "-last-resolved")
    assert b"red" in base64.b64decode(site.wait_on_cluster(kept)["data"]["policy.json"])
    site.disable(STANDALONE)
    site.hub.wait(lambda: FLAG not in pod.arguments, "the flag to go", 30)
    assert f"{STANDALONE}-hub-kubeconfig" not in pod.volumes
    pod.stop()
    pod.start()
    wait_message(site, policy, STANDALONE_DISABLED)
    site.hub.wait(lambda: site.on_cluster(kept) is None, "what was kept to go")
    site.hub.wait(lambda: [one for one in traces(site) if CSRS not in one] == [], "every trace of the user to go", 60)
    assert theirs.get(path("ConfigMap", "shop")).status == 200, "what people granted to the group is theirs to take back"
