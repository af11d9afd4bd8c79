"""Operator policies under upstream's config-policy-controller and under ours: the same steps, the same status after each.

Each has a managed cluster of its own on one embedded control plane, with OLM played from the same script. What a status says is
compared once both have settled: compliance, conditions and related objects, but for times, uids and generated names. Where ours
means to differ, a step says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.interop.policy.sides import settled, shown, upstream
from tests.support.administrator import Document
from tests.support.planes import ControlPlane, lent
from tests.support.policies import GROUP, OURS, ManagedCluster, PolicyHub, Program, path
from tests.support.scripted_olm import CATALOG, CATALOG_NAMESPACE, Package, PlayedOLM, playing_olm

OLM = "/apis/operators.coreos.com"
SHOP = "operator-shop"


class Side:
    """A managed cluster with a controller."""

    def __init__(self, managed: ManagedCluster, olm: PlayedOLM) -> None:
        self.managed = managed
        self.name, self.admin = managed.name, managed.admin
        self.olm = olm

    def bring(self, name: str, spec: Document) -> None:
        metadata = {"name": name, "namespace": self.name}
        body = {"apiVersion": f"{GROUP}/v1beta1", "kind": "OperatorPolicy", "metadata": metadata, "spec": spec}
        self.admin.apply(path("OperatorPolicy", self.name, name), body, "test", force=True).expect(200, 201)

    def status(self, name: str) -> Document:
        found = self.admin.get(path("OperatorPolicy", self.name, name)).expect(200)
        status = found.get("status") or {}
        said: Document = {"compliant": status.get("compliant"), "overlapping": status.get("overlappingPolicies") or []}
        said["generation"] = status.get("observedGeneration") == found["metadata"]["generation"]
        said["label"] = status.get("resolvedSubscriptionLabel")
        for one in status.get("conditions") or ():
            said[one["type"]] = (one["status"], one["reason"], shown(self.name, one["message"]))
        for one in status.get("relatedObjects") or ():
            metadata = one["object"].get("metadata") or {}
            called = "GENERATED" if str(metadata.get("name")).startswith(f"{metadata.get('namespace')}-") else metadata.get("name")
            key = f"{one['object']['apiVersion']} {one['object']['kind']} {metadata.get('namespace')}/{called}"
            created = (one.get("properties") or {}).get("createdByPolicy")
            said[key] = (one.get("compliant"), one.get("reason"), created)
        return said


def package(name: str, **more: Any) -> Package:
    return Package(name, {"stable-1.0": [f"{name}.v1", f"{name}.v2"], "stable-1.1": [f"{name}.v3"]}, **more)


def spec(name: str, **more: Any) -> Document:
    wanted = {"name": name, "namespace": name, "channel": "stable-1.0", "source": CATALOG, "sourceNamespace": CATALOG_NAMESPACE}
    wanted |= more.pop("subscription", {})
    wanted = {field: value for field, value in wanted.items() if value is not None}
    return {
        "remediationAction": "enforce",
        "complianceType": "musthave",
        "upgradeApproval": "None",
        "subscription": wanted,
        **more,
    }


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    yield from lent(tmp_path_factory.mktemp("operators"), "ours", "theirs")


@pytest.fixture(scope="module")
def hub(ground: ControlPlane) -> PolicyHub:
    found = PolicyHub(ground.cluster)
    found.namespace(SHOP)
    return found


def _side(name: str, ground: ControlPlane, hub: PolicyHub, program: Program) -> Iterator[Side]:
    hub.accept(name)
    hub.grant(name, SHOP)
    managed = ManagedCluster(name, ground.extra(name), hub, ground.directory, program)
    managed.admin.post("/api/v1/namespaces", {"metadata": {"name": "default"}}).expect(201, 409)
    with playing_olm(managed.cluster.kubeconfig) as olm:
        managed.controller.start()
        yield Side(managed, olm)
        managed.controller.stop()
    managed.link.close()


@pytest.fixture(scope="module")
def ours(ground: ControlPlane, hub: PolicyHub) -> Iterator[Side]:
    yield from _side("ours", ground, hub, OURS)


@pytest.fixture(scope="module")
def theirs(ground: ControlPlane, hub: PolicyHub) -> Iterator[Side]:
    yield from _side("theirs", ground, hub, upstream())


class Pair:
    def __init__(self, *sides: Side) -> None:
        self.sides = sides

    def offer(self, found: Package) -> None:
        self.act(lambda side: side.olm.do(side.olm.olm.offer(found)))

    def act(self, work: Callable[[Side], Any]) -> None:
        for side in self.sides:
            work(side)

    def bring(self, name: str, wanted: Document) -> None:
        self.act(lambda side: side.bring(name, wanted))

    def agree(self, name: str, says: str, *differing: str, timeout: float = 40) -> None:
        """Both say so, and the same about everything else but what differs on purpose."""

        def told(found: list[Document]) -> bool:
            return all(says in str(one.get("Compliant")) and one["generation"] for one in found)

        found = settled(lambda: [side.status(name) for side in self.sides], told, timeout)
        assert told(found), f"not settled with {says!r}: {found}"
        first, second = ({key: value for key, value in one.items() if key not in differing} for one in found)
        assert first == second


@pytest.fixture(scope="module")
def pair(ours: Side, theirs: Side) -> Pair:
    return Pair(ours, theirs)


def test_installing_upgrading_and_removing(pair: Pair) -> None:
    pair.offer(package("life"))
    start = {"startingCSV": "life.v1"}
    pair.bring("life", spec("life", remediationAction="inform", subscription=start))
    pair.agree("life", "the operator namespace ('life') does not exist")
    pair.bring("life", spec("life", subscription=start))
    pair.agree("life", "an InstallPlan to update to [life.v2] is available for approval")
    pair.bring("life", spec("life", subscription=start, complianceConfig={"upgradesAvailable": "NonCompliant"}))
    pair.agree("life", "NonCompliant")
    versions = ["life.v1"]
    pair.bring("life", spec("life", subscription=start, upgradeApproval="Automatic", versions=versions))
    pair.agree("life", "but approval for [life.v2] is required")
    pair.bring("life", spec("life", subscription=start, upgradeApproval="Automatic", versions=["life.v1,life.v2"]))
    pair.agree("life", "ClusterServiceVersion (life.v2)")
    pair.bring("life", spec("life", versions=["life.v1"]))
    pair.agree("life", "is not an approved version")
    pair.bring("life", spec("life", complianceType="mustnothave", remediationAction="inform"))
    # Upstream forgets who created a group that it is about to delete.
    group = "operators.coreos.com/v1 OperatorGroup life/GENERATED"
    pair.agree("life", "the Subscription is present", group)
    keep = {"operatorGroups": "Keep", "subscriptions": "Keep", "clusterServiceVersions": "Keep"}
    pair.bring("life", spec("life", complianceType="mustnothave", removalBehavior=keep))
    pair.agree("life", "the policy specifies to keep the Subscription", group)
    pair.bring("life", spec("life", complianceType="mustnothave", removalBehavior={"customResourceDefinitions": "Delete"}))
    pair.agree("life", "no CRDs were found for the operator")


@pytest.mark.parametrize(
    ("name", "wanted", "says"),
    [
        ("noname", {"subscription": {"name": ""}}, "name is required"),
        ("badname", {"subscription": {"name": "a$"}}, "used for the subscription is invalid"),
        ("badns", {"subscription": {"namespace": "A b"}}, "is not a valid namespace identifier"),
        ("approval", {"subscription": {"installPlanApproval": "Manual"}}, "is prohibited"),
        ("unknown", {"subscription": {"foo": "bar"}}, "unknown field"),
        ("wrongtype", {"subscription": {"config": {"nodeSelector": {"a": 1}}}}, "cannot unmarshal"),
        ("nogroup", {"operatorGroup": {"targetNamespaces": ["x"]}}, "name is required in spec.operatorGroup"),
        ("groupfield", {"operatorGroup": {"name": "g", "foo": 1}}, "unknown field"),
        ("groupns", {"operatorGroup": {"name": "g", "namespace": "other"}}, "must match"),
        ("nopackage", {"subscription": {"channel": None}}, "the PackageManifest was not found"),
    ],
)
def test_what_is_not_valid(pair: Pair, name: str, wanted: dict[str, Any], says: str) -> None:
    pair.bring(name, spec(name, **wanted))
    pair.agree(name, says)


def test_catalogs_deprecations_and_channels(pair: Pair) -> None:
    pair.offer(package("health", deprecated_channels={"stable-1.0": "Old."}))
    judged = {"deprecationsPresent": "NonCompliant", "minorChannelUpgradeAvailable": "NonCompliant"}
    pair.bring("health", spec("health", upgradeApproval="Automatic", complianceConfig=judged))
    pair.agree("health", "Channel was deprecated. Old., a newer version of the operator is available in channel(s): stable-1.1")
    pair.bring("health", spec("health", upgradeApproval="Automatic", complianceConfig={"catalogSourceUnhealthy": "NonCompliant"}))
    pair.agree("health", "Compliant; the policy spec is valid")
    pair.act(lambda side: side.olm.do(side.olm.olm.set_catalog_state("TRANSIENT_FAILURE")))
    pair.agree("health", "CatalogSource was found but is unhealthy")
    pair.act(lambda side: side.olm.do(side.olm.olm.set_catalog_state("READY")))
    pair.agree("health", "Compliant; the policy spec is valid")


def test_a_version_that_fails(pair: Pair) -> None:
    pair.offer(package("failing"))
    pair.act(lambda side: side.olm.olm.failing.add("failing.v2"))
    pair.bring("failing", spec("failing"))
    pair.agree("failing", "deployment changed old hash")


def test_what_no_catalog_has(pair: Pair) -> None:
    pair.bring("lost", spec("lost"))
    pair.agree("lost", "constraints not satisfiable")


def test_defaults_of_the_package(pair: Pair) -> None:
    pair.offer(package("defaults", suggested_namespace="defaults"))
    pair.bring("defaults", spec("defaults", subscription=dict.fromkeys(("channel", "source", "sourceNamespace", "namespace"))))
    pair.agree("defaults", "ClusterServiceVersion (defaults.v2)")


def test_operator_groups(pair: Pair) -> None:
    pair.offer(package("groups"))
    pair.act(lambda side: side.admin.post("/api/v1/namespaces", {"metadata": {"name": "groups"}}).expect(201))
    group = {"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup", "metadata": {"name": "theirs"}, "spec": {}}
    place = f"{OLM}/v1/namespaces/groups/operatorgroups"
    pair.act(lambda side: side.admin.post(place, group).expect(201))
    pair.bring("groups", spec("groups", operatorGroup={"name": "own"}))
    pair.agree("groups", "the OperatorGroup found on the cluster does not match the policy")
    pair.bring("groups", spec("groups"))
    pair.agree("groups", "assuming that OperatorGroup is correct")
    pair.bring("groups", spec("groups", operatorGroup={"name": "theirs", "targetNamespaces": ["a"]}))
    pair.agree("groups", "the OperatorGroup matches what is required by the policy")
    second = {**group, "metadata": {"name": "second"}}
    pair.act(lambda side: side.admin.post(place, second).expect(201))
    pair.agree("groups", "there is more than one OperatorGroup in the namespace")


def test_dependencies_and_other_policies(pair: Pair) -> None:
    pair.offer(package("needed"))
    pair.offer(package("needing", requires={"needing.v2": ["needed"]}))
    pair.bring("needing", spec("needing", versions=["needing.v2"]))
    pair.agree("needing", "ClusterServiceVersion (needing.v2)")


def test_templates_of_the_managed_cluster(pair: Pair) -> None:
    pair.offer(package("tmpl"))
    pair.act(lambda side: side.admin.post("/api/v1/namespaces", {"metadata": {"name": "tmpl"}}).expect(201))
    pair.bring("tmpl", spec("tmpl", versions=['{{ (lookup "v1" "ConfigMap" "tmpl" "v").data.versions }}']))
    pair.agree("tmpl", "but approval for [tmpl.v2] is required")
    data = {"metadata": {"name": "v"}, "data": {"versions": "tmpl.v1,tmpl.v2"}}
    pair.act(lambda side: side.admin.post("/api/v1/namespaces/tmpl/configmaps", data).expect(201))
    pair.agree("tmpl", "ClusterServiceVersion (tmpl.v2)")


def test_templates_of_the_hub(pair: Pair, hub: PolicyHub) -> None:
    pair.offer(package("hubbed"))
    namespace = f'{{{{hub fromConfigMap "{SHOP}" "operators" "namespace" hub}}}}'
    pair.bring("hubbed", spec("hubbed", remediationAction="inform", subscription={"namespace": namespace}))
    pair.agree("hubbed", 'configmaps "operators" not found')
    hub.settings(SHOP, "operators", namespace="first")
    pair.agree("hubbed", "the operator namespace ('first') does not exist")
    hub.settings(SHOP, "operators", namespace="second")
    # Upstream goes by names alone, and leaves objects of the same name in the namespace of before related.
    kinds = {"v1 OperatorGroup": "-", "v1alpha1 InstallPlan": "-"}
    kinds |= {"v1alpha1 Subscription": "hubbed", "v1alpha1 ClusterServiceVersion": "hubbed"}
    moved = [f"operators.coreos.com/{kind} {place}/{name}" for kind, name in kinds.items() for place in ("first", "second")]
    pair.agree("hubbed", "the operator namespace ('second') does not exist", *moved)
