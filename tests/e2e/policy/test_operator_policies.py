"""Operator policies on a managed cluster where OLM is played from a script: installed, upgraded from the hub, and removed again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.administrator import Document
from tests.support.policies import CRDS, GROUP, ManagedCluster, PolicyHub, written_by
from tests.support.scripted_olm import CATALOG, CATALOG_NAMESPACE, Package, PlayedOLM, playing_olm, widgets

NOT_INSTALLED = "could not be determined because Operator Lifecycle Manager is not installed on the cluster"


def package(name: str) -> Package:
    return Package(name, {"stable": [f"{name}.v1", f"{name}.v2"]})


def bring(cluster: ManagedCluster, name: str, **spec: Any) -> Document:
    """A policy for the operator of the same name, in a namespace of the same name."""
    wanted = {"name": name, "namespace": name, "channel": "stable", "source": CATALOG, "sourceNamespace": CATALOG_NAMESPACE}
    wanted |= spec.pop("subscription", {})
    body = {
        "remediationAction": "enforce",
        "complianceType": "musthave",
        "upgradeApproval": "None",
        "subscription": wanted,
        **spec,
    }
    metadata = {"name": name, "namespace": cluster.name}
    return cluster.sync({"apiVersion": f"{GROUP}/v1beta1", "kind": "OperatorPolicy", "metadata": metadata, "spec": body})


@pytest.fixture(scope="module")
def early(c1: ManagedCluster) -> Document:
    """A policy that was there before OLM."""
    policy = bring(c1, "early")
    c1.wait_status(policy, "NonCompliant", NOT_INSTALLED)
    return policy


@pytest.fixture(scope="module")
def olm(c1: ManagedCluster, early: Document) -> Iterator[PlayedOLM]:
    with playing_olm(c1.cluster.kubeconfig, package("early")) as played:
        yield played


def test_a_policy_that_came_before_olm_is_enforced_when_olm_comes(c1: ManagedCluster, early: Document, olm: PlayedOLM) -> None:
    status = c1.wait_status(early, "Compliant", "ClusterServiceVersion (early.v2) - install strategy completed with no errors")
    assert status["resolvedSubscriptionLabel"] == "early.early"
    assert olm.subscription("early", "early") is not None


def test_an_operator_is_installed_upgraded_from_the_hub_and_removed(
    hub: PolicyHub, c1: ManagedCluster, olm: PlayedOLM, shop: str, name: str
) -> None:
    first, second = f"{name}.v1", f"{name}.v2"
    olm.do(olm.olm.offer(package(name)))
    hub.settings(shop, color=first)
    versions = [f'{{{{hub fromConfigMap "{shop}" "settings" "color" hub}}}}']
    spec: dict[str, Any] = {"versions": versions, "upgradeApproval": "Automatic", "subscription": {"startingCSV": first}}
    policy = bring(c1, name, **spec)
    waiting = f"an InstallPlan to update to [{second}] is available for approval but approval for [{second}] is required"
    c1.wait_status(policy, "Compliant", waiting)

    hub.settings(shop, color=f"{first}, {second}")
    c1.wait_status(policy, "Compliant", f"ClusterServiceVersion ({second}) - install strategy completed with no errors")
    found = c1.settled(policy)
    assert found["metadata"]["generation"] == policy["metadata"]["generation"]
    assert [fields for writer, fields in written_by(found).items() if not writer.startswith("argocd")] == [{"status"}]

    removal = {"customResourceDefinitions": "Delete"}
    policy = bring(c1, name, **spec, complianceType="mustnothave", removalBehavior=removal)
    c1.wait_status(policy, "Compliant", "the ClusterServiceVersion is not present, no CRDs were found for the operator")
    assert olm.subscription(name, name) is None
    assert c1.read(f"{CRDS}/{widgets(name)}") is None
    c1.drop(policy)


def test_a_controller_that_is_killed_goes_on(c1: ManagedCluster, olm: PlayedOLM, name: str) -> None:
    olm.do(olm.olm.offer(package(name)))
    policy = bring(c1, name)
    c1.wait(lambda: olm.subscription(name, name), "a subscription")
    with c1.restarted():
        pass
    c1.wait_status(policy, "Compliant", f"ClusterServiceVersion ({name}.v2) - install strategy completed with no errors")
    groups = c1.admin.get(f"/apis/operators.coreos.com/v1/namespaces/{name}/operatorgroups").expect(200)["items"]
    assert len(groups) == 1


def test_drift_is_set_right(c1: ManagedCluster, olm: PlayedOLM, name: str) -> None:
    olm.do(olm.olm.offer(package(name)))
    policy = bring(c1, name)
    c1.wait_status(policy, "Compliant", "CatalogSource was found")
    place = f"/apis/operators.coreos.com/v1alpha1/namespaces/{name}/subscriptions/{name}"
    c1.admin.patch(place, {"spec": {"source": "another"}}).expect(200)
    c1.wait(lambda: (c1.read(place) or {})["spec"]["source"] == CATALOG, "the source to be as the policy has it")
    c1.wait_status(policy, "Compliant", "CatalogSource was found")


def test_policies_for_one_operator_name_each_other(c1: ManagedCluster, olm: PlayedOLM, name: str) -> None:
    olm.do(olm.olm.offer(package(name)))
    policy = bring(c1, name)
    c1.wait_status(policy, "Compliant", "CatalogSource was found")
    metadata = {"name": f"{name}-too", "namespace": c1.name}
    other = c1.sync({"apiVersion": policy["apiVersion"], "kind": policy["kind"], "metadata": metadata, "spec": policy["spec"]})
    overlap = f"the specified operator is managed by multiple enforced policies ({name}-too.c1, {name}.c1)"
    for one in (policy, other):
        c1.wait_status(one, "NonCompliant", overlap)
    c1.drop(other)
    c1.wait_status(policy, "Compliant", "CatalogSource was found")
