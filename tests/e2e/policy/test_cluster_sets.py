"""Rights for a whole cluster set: the sample policy on a hub that is one of its own clusters (goal 5, story 3)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from muster.api.crds import definitions
from muster.policy.addons.manifests import KINDS
from muster.policy.names import POLICIES_NAMESPACE
from tests.support import peers
from tests.support.planes import ControlPlane
from tests.support.policies import (
    ManagedCluster,
    PolicyController,
    PolicyHub,
    established,
    path,
)

SAMPLE = peers.ROOT / "examples/policy/cluster-set-permissions.yaml"
SET = "cluster.open-cluster-management.io/clusterset"


@pytest.fixture
def self_managed(ground: ControlPlane, hub: PolicyHub, tmp_path: Path) -> Iterator[PolicyController]:
    established(hub.admin, definitions(KINDS))
    for namespace in ("hub", POLICIES_NAMESPACE):
        hub.namespace(namespace)
    controller = PolicyController("hub", ground.cluster, tmp_path, None).start()
    yield controller
    controller.stop()


def test_clusters_of_a_set_may_read_and_those_that_leave_it_may_not(
    hub: PolicyHub, c1: ManagedCluster, c2: ManagedCluster, self_managed: PolicyController, name: str
) -> None:
    """A20."""
    shop = hub.namespace()
    hub.settings(shop, color="red")
    sample = yaml.safe_load(SAMPLE.read_text())
    raw = sample["spec"]["object-templates-raw"].replace('$namespace := "shop"', f'$namespace := "{shop}"')
    sample["spec"]["object-templates-raw"] = raw
    place = path("ConfigurationPolicy", POLICIES_NAMESPACE, sample["metadata"]["name"])
    hub.admin.apply(place, sample, "argocd-controller").expect(200, 201)

    text = f'{{{{hub fromConfigMap "{shop}" "settings" "color" hub}}}}'
    one, two = c1.bring_value(name, text), c2.bring_value(name, text)
    for cluster, policy in ((c1, one), (c2, two)):
        cluster.wait_status(policy, "NonCompliant", "is forbidden")

    hub.label("c1", **{SET: "shops"})
    c1.wait_status(one, "Compliant")
    assert c1.value(name) == "red"
    c2.wait_status(two, "NonCompliant", "is forbidden")

    hub.label("c2", **{SET: "shops"})
    c2.wait_status(two, "Compliant")

    hub.label("c1", **{SET: None})
    subjects = path("RoleBinding", shop, "hub-templates-of-shops")
    c1.wait(lambda: "cluster:c1:" not in hub.admin.get(subjects).text, "c1 to lose its binding")
    assert "cluster:c2:" in hub.admin.get(subjects).text
    c1.link.cut()
    c1.link.mend()
    c1.wait_status(one, "NonCompliant", "is forbidden")
    hub.settings(shop, color="blue")
    c2.wait_value(name, "blue")
    hub.label("c2", **{SET: None})
