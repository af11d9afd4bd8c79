"""What happens to an addon on a hub and a cluster, whoever's programs they run."""

from __future__ import annotations

from tests.e2e.addon.conftest import CLUSTERS, CONFIGS, WORKS, deployment
from tests.interop.addon.addon_site import AddonSite
from tests.support.administrator import MANAGED_CLUSTERS, Document

SHORT_LIVED = ("--addon-kubeclient-registration-auth=token", "--addon-token-expiration-seconds=3600")
SETS = "/apis/work.open-cluster-management.io/v1alpha1/namespaces/default/manifestworkreplicasets"


def with_role(role: str) -> list[Document]:
    """A registration with the rights of a ClusterRole in the cluster's namespace."""
    permission = {"type": "CurrentCluster", "currentCluster": {"clusterRoleName": role}}
    return [{"type": "KubeClient", "kubeClient": {"hubPermissions": [permission]}}]


def labelled(site: AddonSite, part: str | None) -> None:
    """Puts the cluster among those with this label, or takes it away."""
    site.admin.patch(f"{MANAGED_CLUSTERS}/{site.cluster}", {"metadata": {"labels": {"part": part}}}).expect(200)


def installed_by_a_placement(site: AddonSite, addon: str, registration: list[Document]) -> None:
    """From nothing to available, with a configuration that is changed then, and gone when the placement chooses others."""
    config = site.config(addon, customizedVariables=[{"name": "COLOUR", "value": "red"}])
    template = site.template(addon, deployment(addon), registration=registration)
    placement = site.place(addon, {"part": addon})
    strategy = {"type": "Progressive", "progressive": {"maxConcurrency": 1}}
    site.offer(addon, template, placements=[{**placement, "configs": [config], "rolloutStrategy": strategy}])
    labelled(site, addon)

    secret = site.wait_secret(f"{addon}-hub-kubeconfig")
    assert {"kubeconfig", "tls.crt", "tls.key", "cluster-name"} <= secret.keys()
    agent = site.addon_client(secret)
    maps = f"/api/v1/namespaces/{site.cluster}/configmaps"
    site.hub.wait_reply(lambda: agent.get(maps), "the agent to read what its role allows", 200, timeout=60)
    assert agent.get("/api/v1/namespaces/default/configmaps").status == 403
    site.run_pods(addon)
    site.wait(addon, "Available")
    for kind in ("RegistrationApplied", "ManifestApplied", "Configured", "ClusterCertificateRotated"):
        site.wait(addon, kind)
    site.wait(addon, "Progressing", "False", "Completed")
    completed(site, addon)

    before = applied_hash(site, addon)
    where = f"/apis/{CONFIGS['group']}/v1alpha1/namespaces/default/addondeploymentconfigs/{addon}"
    site.admin.patch(where, {"spec": {"customizedVariables": [{"name": "COLOUR", "value": "blue"}]}}).expect(200)
    site.hub.wait(lambda: applied_hash(site, addon) not in ("", before), "the new configuration to be applied", 60)
    completed(site, addon)

    labelled(site, None)
    site.hub.wait(lambda: site.find(addon) is None, "the addon to be gone", 60)
    site.hub.wait(lambda: not site.secret(f"{addon}-hub-kubeconfig"), "its credential to be gone", 60)
    site.hub.wait(lambda: not site.works(addon), "its works to be gone", 60)


def applied_hash(site: AddonSite, addon: str) -> str:
    """Of the AddOnDeploymentConfig that was applied last."""
    references: list[Document] = site.status(addon).get("configReferences") or []
    found: Document = next((one for one in references if one["resource"] == CONFIGS["resource"]), {})
    return str((found.get("lastAppliedConfig") or {}).get("specHash", ""))


def completed(site: AddonSite, addon: str) -> None:
    """The rollout of the addon's one placement has ended."""
    path = f"/apis/{CONFIGS['group']}/v1alpha1/clustermanagementaddons/{addon}"

    def look() -> bool:
        (one,) = (site.hub.read(path) or {}).get("status", {}).get("installProgressions") or [{}]
        return any((each["type"], each["reason"]) == ("Progressing", "Completed") for each in one.get("conditions") or ())

    site.hub.wait(look, f"the rollout of {addon} to end", 60)


def replica_set_follows(site: AddonSite, name: str, placement: Document) -> None:
    """It makes a work for the cluster that the placement chose, and takes it away when it is chosen no more."""
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}, "data": {"a": "b"}}
    spec = {"manifestWorkTemplate": {"workload": {"manifests": [manifest]}}, "placementRefs": [{"name": placement["name"]}]}
    kind = {"apiVersion": "work.open-cluster-management.io/v1alpha1", "kind": "ManifestWorkReplicaSet"}
    site.admin.post(SETS, {**kind, "metadata": {"name": name}, "spec": spec}).expect(201)

    def works() -> list[Document]:
        """Those of the set: of its name, or with 1.3's hub of a name that begins so."""
        found = site.hub.read(f"{WORKS}/namespaces/{site.cluster}/manifestworks") or {}
        return [one for one in found.get("items", []) if one["metadata"]["name"].startswith(name)]

    site.hub.wait(works, "a work of the set", 60)
    site.wait_on_cluster(f"/api/v1/namespaces/default/configmaps/{name}")
    labelled(site, None)
    site.hub.wait(lambda: not works(), "the work to be gone", 60)
    site.admin.delete(f"{SETS}/{name}").expect(200)
    site.admin.delete(f"{CLUSTERS}/v1beta1/namespaces/default/placements/{placement['name']}").expect(200)
