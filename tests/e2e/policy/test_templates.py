"""Policies with hub templates on a managed cluster without the policy framework, brought by a GitOps tool."""

from __future__ import annotations

from muster.policy.names import DISABLE_TEMPLATES_ANNOTATION, POLICIES_NAMESPACE
from tests.support.policies import CRDS, GITOPS, ManagedCluster, PolicyHub, config_map, template, written_by


def color(shop: str, name: str = "settings") -> str:
    return f'{{{{hub fromConfigMap "{shop}" "{name}" "color" hub}}}}'


def test_a_policy_is_resolved_enforced_and_kept_without_the_framework(c1: ManagedCluster, shop: str, name: str) -> None:
    """A1 (goals 1 and 6), in both namespaces in which policies are read."""
    served = {one["metadata"]["name"] for one in c1.admin.get(CRDS).expect(200)["items"]}
    assert "policies.policy.open-cluster-management.io" not in served
    for called, namespace in ((name, "c1"), (f"{name}-shared", POLICIES_NAMESPACE)):
        policy = c1.bring_value(called, color(shop), namespace)
        c1.wait_status(policy, "Compliant")
        assert c1.value(called) == "red"
        secret = c1.saved_secret(policy)
        assert secret is not None
        (owner,) = secret["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["name"], owner["uid"]) == ("ConfigurationPolicy", called, policy["metadata"]["uid"])
        saved = c1.saved(policy)
        assert saved is not None
        assert saved["metadata"]["generation"] == policy["metadata"]["generation"]
        assert "{{hub" not in str(saved["spec"])
        assert all(one.get("reason") in ("PolicyInfo", "PolicyUpdate") for one in c1.events(called))


def test_an_operator_policy_is_resolved_and_follows_the_hub(hub: PolicyHub, c1: ManagedCluster, shop: str, name: str) -> None:
    """A2 (goals 1 and 2)."""
    policy = c1.bring_operator(name, color(shop, "operators"))
    c1.wait_status(policy, "NonCompliant", "NonCompliant; failed to resolve the template")
    hub.settings(shop, "operators", color="hello")
    c1.wait_status(policy, "NonCompliant", "NonCompliant; the operator namespace ('hello') does not exist")
    hub.settings(shop, "operators", color="changed")
    c1.wait_status(policy, "NonCompliant", "NonCompliant; the operator namespace ('changed') does not exist")
    found = c1.find(policy)
    assert found is not None
    assert found["metadata"]["generation"] == policy["metadata"]["generation"]


def test_a_change_on_the_hub_changes_the_object_not_the_policy(hub: PolicyHub, c1: ManagedCluster, shop: str, name: str) -> None:
    """A3 (goal 2)."""
    policy = c1.bring_value(name, color(shop))
    c1.wait_status(policy, "Compliant")
    hub.settings(shop, color="blue")
    c1.wait_value(name, "blue", 5)
    c1.wait(lambda: "blue" in str(c1.saved(policy)), "what was resolved is kept")
    assert c1.settled(policy)["metadata"]["generation"] == policy["metadata"]["generation"]


def test_a_missing_object_of_the_hub_is_waited_for(hub: PolicyHub, c1: ManagedCluster, shop: str, name: str) -> None:
    """A4 (goal 2)."""
    policy = c1.bring_value(name, color(shop, "later"))
    c1.wait_status(policy, "NonCompliant", f'failed getting the ConfigMap later from {shop}: configmaps "later" not found')
    assert c1.value(name) is None
    hub.settings(shop, "later", color="green")
    c1.wait_status(policy, "Compliant")
    assert c1.value(name) == "green"


def test_a_lookup_of_something_missing_is_nothing_until_it_is_there(
    hub: PolicyHub, c1: ManagedCluster, shop: str, name: str
) -> None:
    """A5 (goal 2)."""
    policy = c1.bring_value(name, f'x{{{{hub (lookup "v1" "ConfigMap" "{shop}" "later").data.color hub}}}}')
    c1.wait_status(policy, "Compliant")
    assert c1.value(name) == "x<no value>"
    hub.settings(shop, "later", color="green")
    c1.wait_value(name, "xgreen")


def test_hub_templates_are_resolved_before_managed_ones(c1: ManagedCluster, name: str) -> None:
    """A6."""
    policy = c1.bring_value(name, '{{ printf "%s of %s" (upper "a value") "{{hub .ManagedClusterName hub}}" }}')
    c1.wait_status(policy, "Compliant")
    assert c1.value(name) == "A VALUE of c1"


def test_a_policy_without_hub_templates_leaves_nothing_behind(c1: ManagedCluster, name: str) -> None:
    """A13, with the addon enabled."""
    policy = c1.bring_value(name, '{{ "plain" | upper }}')
    c1.wait_status(policy, "Compliant")
    assert c1.value(name) == "PLAIN"
    assert c1.saved_secret(policy) is None


def test_labels_of_the_own_managed_cluster_need_no_grant_and_are_followed(hub: PolicyHub, c1: ManagedCluster, name: str) -> None:
    """A17."""
    text = "{{hub .ManagedClusterLabels.cloud hub}} {{hub .ManagedClusterLabels.none hub}}"
    policy = c1.bring_value(name, text)
    c1.wait_status(policy, "Compliant")
    assert c1.value(name) == "Amazon <no value>"
    hub.label("c1", cloud="Google")
    c1.wait_value(name, "Google <no value>")
    hub.label("c1", cloud="Amazon")
    c1.wait_value(name, "Amazon <no value>")


def test_one_config_map_of_the_hub_has_each_clusters_own_parameters(
    hub: PolicyHub, c1: ManagedCluster, c2: ManagedCluster, shop: str, name: str
) -> None:
    """A19 (story 2)."""
    hub.grant("c2", shop)
    hub.settings(shop, "params", c1="3", c2="5")
    for cluster, expected in ((c1, "3"), (c2, "5")):
        policy = cluster.bring_value(name, f'n{{{{hub fromConfigMap "{shop}" "params" .ManagedClusterName hub}}}}')
        cluster.wait_status(policy, "Compliant")
        assert cluster.value(name) == f"n{expected}"


def test_a_deleted_policy_takes_what_was_kept_along(c1: ManagedCluster, shop: str, name: str) -> None:
    """A23."""
    policy = c1.bring_value(name, color(shop))
    c1.wait_status(policy, "Compliant")
    assert c1.saved_secret(policy) is not None
    c1.drop(policy)
    # A garbage collector that has just started learns of new kinds every thirty seconds.
    c1.wait(lambda: c1.saved_secret(policy) is None, "the Secret to be collected", 120)
    assert c1.value(name) == "red", "without pruning objects stay"


def test_templates_disabled_by_annotation_are_text(c1: ManagedCluster, shop: str, name: str) -> None:
    """A24."""
    text = color(shop)
    annotations = {DISABLE_TEMPLATES_ANNOTATION: "true"}
    policy = c1.bring_value(name, text, annotations=annotations)
    c1.wait_status(policy, "Compliant")
    assert c1.value(name) == text
    operator = c1.bring_operator(f"{name}-operator", text, annotations=annotations)
    c1.wait_status(operator, "NonCompliant", "NonCompliant; the namespace '{{hub fromConfigMap")
    assert c1.saved_secret(policy) is None


def test_raw_templates_loop_over_the_hub_and_read_the_cluster(hub: PolicyHub, c1: ManagedCluster, shop: str, name: str) -> None:
    """A25: one object for each key, in their order, with values of both clusters."""
    hub.settings(shop, "zones", b="2", a="1", c="3")
    raw = f"""
{{{{hub- range $key, $value := (lookup "v1" "ConfigMap" "{shop}" "zones").data hub}}}}
- complianceType: musthave
  objectDefinition:
    apiVersion: v1
    kind: ConfigMap
    metadata:
      name: {name}-{{{{hub $key hub}}}}
      namespace: default
    data:
      value: "v{{{{hub $value hub}}}} {{{{ (lookup "v1" "Namespace" "" "default").metadata.name }}}}"
{{{{hub- end hub}}}}
"""
    policy = c1.bring(name, raw=raw)
    status = c1.wait_status(policy, "Compliant")
    assert [one["object"]["metadata"]["name"] for one in status["relatedObjects"]] == [f"{name}-{key}" for key in "abc"]
    assert [c1.value(f"{name}-{key}") for key in "abc"] == ["v1 default", "v2 default", "v3 default"]
    hub.settings(shop, "zones", d="4")
    c1.wait(lambda: c1.value(f"{name}-d"), "an object for the new key")


def test_a_template_that_cannot_be_parsed_is_told_and_nothing_is_pruned(c1: ManagedCluster, shop: str, name: str) -> None:
    """A26."""
    policy = c1.bring_value(name, color(shop), pruneObjectBehavior="DeleteAll")
    c1.wait_status(policy, "Compliant")
    broken = c1.bring_value(name, "{{hub nonsense hub}}", pruneObjectBehavior="DeleteAll")
    c1.wait_status(broken, "NonCompliant", 'function "nonsense" not defined')
    assert c1.value(name) == "red"
    c1.wait(lambda: c1.saved_secret(policy) is None, "what was kept to go")
    c1.drop(policy)
    c1.wait(lambda: c1.find(policy) is None, "the policy to be gone")


class TestWhatIsWritten:
    """Policies are the GitOps tool's: the controller writes their status and, for pruning, its finalizer."""

    def test_of_a_policy_only_the_status(self, c1: ManagedCluster, shop: str, name: str) -> None:
        for policy in (c1.bring_value(name, color(shop)), c1.bring_operator(f"{name}-operator", color(shop))):
            c1.wait(lambda policy=policy: ((c1.find(policy) or {}).get("status") or {}).get("compliant"), "a status")
            found = c1.settled(policy)
            managers = written_by(found)
            assert managers.pop(f"{GITOPS}/").isdisjoint({"status"})
            assert list(managers.values()) == [{"status"}], managers
            assert all(key.endswith("/status") for key in managers)
            assert "ownerReferences" not in found["metadata"]

    def test_with_pruning_its_finalizer_too(self, c1: ManagedCluster, shop: str, name: str) -> None:
        policy = c1.bring_value(name, color(shop), pruneObjectBehavior="DeleteIfCreated")
        c1.wait_status(policy, "Compliant")
        managers = written_by(c1.settled(policy))
        managers.pop(f"{GITOPS}/")
        assert set().union(*managers.values()) == {"status", "metadata.finalizers"}
        again = c1.bring_value(name, color(shop), pruneObjectBehavior="DeleteIfCreated")
        assert again["metadata"]["finalizers"], "the tool's next sync takes nothing away"
        c1.drop(policy)
        c1.wait(lambda: c1.value(name) is None and c1.find(policy) is None, "the object and the policy to go")


class TestOtherKinds:
    """Non-goal 1: what is not a policy of these two kinds takes part as an object."""

    @staticmethod
    def define(c1: ManagedCluster, group: str, kind: str, plural: str, version: str, *, namespaced: bool) -> None:
        schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
        names = {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"}
        scope = "Namespaced" if namespaced else "Cluster"
        versions = [{"name": version, "served": True, "storage": True, "schema": schema}]
        document = {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{plural}.{group}"},
            "spec": {"group": group, "scope": scope, "names": names, "versions": versions},
        }
        c1.admin.apply(f"{CRDS}/{plural}.{group}", document, "test").expect(200, 201)

    def test_a_certificate_policy_is_wrapped(self, c1: ManagedCluster, shop: str, name: str) -> None:
        """Its kind comes after the policy."""
        api_version = "policy.open-cluster-management.io/v1"
        wrapped = {
            "apiVersion": api_version,
            "kind": "CertificatePolicy",
            "metadata": {"name": name, "namespace": "c1"},
            "spec": {"minimumDuration": "300h", "remediationAction": "inform", "severity": color(shop)},
        }
        policy = c1.bring(name, template(wrapped))
        c1.wait_status(policy, "NonCompliant", "couldn't find mapping resource with kind CertificatePolicy")
        self.define(c1, "policy.open-cluster-management.io", "CertificatePolicy", "certificatepolicies", "v1", namespaced=True)
        c1.wait_status(policy, "Compliant", timeout=40)
        found = c1.read(f"/apis/{api_version}/namespaces/c1/certificatepolicies/{name}")
        assert found is not None
        assert found["spec"]["severity"] == "red"

    def test_a_gatekeeper_constraint_is_wrapped(self, hub: PolicyHub, c1: ManagedCluster, shop: str, name: str) -> None:
        self.define(c1, "constraints.gatekeeper.sh", "K8sRequiredLabels", "k8srequiredlabels", "v1beta1", namespaced=False)
        hub.settings(shop, "labels", required='["owner","cost"]')
        wrapped = {
            "apiVersion": "constraints.gatekeeper.sh/v1beta1",
            "kind": "K8sRequiredLabels",
            "metadata": {"name": name},
            "spec": {"parameters": {"labels": f'{{{{hub fromConfigMap "{shop}" "labels" "required" | toLiteral hub}}}}'}},
        }
        policy = c1.bring(name, template(wrapped))
        c1.wait_status(policy, "Compliant", timeout=40)
        found = c1.read(f"/apis/constraints.gatekeeper.sh/v1beta1/k8srequiredlabels/{name}")
        assert found is not None
        assert found["spec"]["parameters"]["labels"] == ["owner", "cost"]


def test_many_objects_of_one_policy_come_from_one_resolution(hub: PolicyHub, c1: ManagedCluster, shop: str, name: str) -> None:
    """Goal 1: objects, messages and selectors of one policy may all refer to the hub."""
    hub.settings(shop, "more", namespace="default", word="well")
    read = f'fromConfigMap "{shop}" "more"'
    wanted = config_map(name, "x", {"value": color(shop)})
    del wanted["metadata"]["namespace"]
    policy = c1.bring(
        name,
        template(wanted),
        namespaceSelector={"include": [f'{{{{hub {read} "namespace" hub}}}}']},
        customMessage={"compliant": f'Compliant; {{{{hub {read} "word" hub}}}}: {{{{ .DefaultMessage }}}}'},
    )
    c1.wait_status(policy, "Compliant", "Compliant; well: ")
    assert c1.value(name) == "red"
