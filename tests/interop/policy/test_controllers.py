"""Upstream's config-policy-controller and ours in each other's place: they say the same of the same policies, read each other's
last-resolved Secrets, and each runs as the other's addon deploys it.

Clusters and hub are of one control plane. Policies of `policy_cases` go through their steps on two clusters at the same time, step
by step, and once both controllers have settled, statuses, what they kept and what they made are compared; what differs on purpose
(docs/policy.md) is taken out by `_normal`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from muster.api.addon.v1alpha1 import DEFAULT_NAMESPACE
from muster.api.addons import AddonIdentity, hub_kubeconfig_secret
from muster.policy.names import CONFIG_POLICY_ADDON, STANDALONE_ADDON
from tests.interop.policy.policy_cases import CASES, CLOSED, NAMESPACE, OPEN, PAIR, SELECTED, Case, Step, hub_value
from tests.interop.policy.renderings import SOURCE, rendered_by_chart, rendered_by_upstream, rendered_by_us
from tests.interop.policy.sides import settled, shown, upstream
from tests.support.administrator import RBAC, Document, wait_for
from tests.support.network_namespace import unavailable
from tests.support.planes import ControlPlane, lent
from tests.support.policies import (
    GROUP,
    ManagedCluster,
    PolicyController,
    PolicyHub,
    Program,
    config_map,
    path,
    secret,
    template,
    write_certificate,
    write_hub_kubeconfig,
)
from tests.support.policies import OURS as OUR_PROGRAM
from tests.support.registration import MUSTER
from tests.support.rendered_pod import RenderedPod

OURS, THEIRS = "cluster-ours", "cluster-theirs"
ROUNDS = max(len(case.steps) for case in CASES.values())
PLACES = {
    "Namespace": "/api/v1/namespaces",
    "ServiceAccount": "/api/v1/namespaces/{namespace}/serviceaccounts",
    "ClusterRole": f"{RBAC}/clusterroles",
    "ClusterRoleBinding": f"{RBAC}/clusterrolebindings",
    "Role": f"{RBAC}/namespaces/{{namespace}}/roles",
    "RoleBinding": f"{RBAC}/namespaces/{{namespace}}/rolebindings",
    "Deployment": "/apis/apps/v1/namespaces/{namespace}/deployments",
}
BY_CHART = pytest.mark.skipif(not SOURCE, reason="MUSTER_POLICY_ADDON_SOURCE names no checkout of upstream's addon controller")
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{DEFAULT_NAMESPACE}/leases"
LONG_AGO = "2001-01-01T00:00:00.000000Z"
CONDITION = ("type", "status", "reason", "message")
Told = dict[str, Document]
"""What a side says, by policy."""


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    yield from lent(tmp_path_factory.mktemp("controllers"), OURS, "hub")


@pytest.fixture(scope="module")
def hub(ground: ControlPlane) -> PolicyHub:
    found = PolicyHub(ground.extra("hub"))
    for namespace in (OPEN, CLOSED):
        found.namespace(namespace)
    found.put(PAIR)
    found.settings(CLOSED, "closed", color="grey")
    found.settings(OPEN, color="red")
    return found


def _managed(name: str, ground: ControlPlane, hub: PolicyHub, program: Program = OUR_PROGRAM) -> ManagedCluster:
    hub.accept(name, cloud="Amazon")
    hub.grant(name, OPEN, ("configmaps", "secrets"))
    return ManagedCluster(name, ground.extra(name) if name == OURS else ground.cluster, hub, ground.directory, program)


@pytest.fixture(scope="module")
def sides(ground: ControlPlane, hub: PolicyHub) -> Iterator[tuple[ManagedCluster, ManagedCluster]]:
    found = (_managed(OURS, ground, hub), _managed(THEIRS, ground, hub, upstream()))
    for side in found:
        for namespace in (NAMESPACE, "default", *SELECTED):
            body = {"metadata": {"name": namespace, "labels": {"chosen": "yes"} if namespace in SELECTED[:2] else {}}}
            side.admin.post("/api/v1/namespaces", body).expect(201, 409)
        side.admin.post(path("ConfigMap", NAMESPACE), config_map("given", NAMESPACE, {"value": "as it is"})).expect(201)
        side.controller.start()
    yield found
    for side in found:
        side.controller.stop()
        side.link.close()


@pytest.fixture(scope="module")
def played(sides: tuple[ManagedCluster, ManagedCluster]) -> list[tuple[Told, Told]]:
    """All cases at once, step by step: what our side and theirs said after each."""
    return [_play(sides, {case.name: case.steps[at] for case in CASES.values() if at < len(case.steps)}) for at in range(ROUNDS)]


def _play(sides: tuple[ManagedCluster, ManagedCluster], steps: dict[str, Step]) -> tuple[Told, Told]:
    for name, step in steps.items():
        for side in sides:
            step.act(side)
            if step.bring is not None:
                _bring(side, CASES[name], step)

    def done(found: list[Told]) -> bool:
        made = all(_made(side, CASES[name], step) for side in sides for name, step in steps.items())
        return made and all(_fits(one.get(name), step) for one in found for name, step in steps.items())

    ours, theirs = settled(lambda: [_statuses(side) for side in sides], done, 25)
    for side, told in zip(sides, (ours, theirs), strict=True):
        for name in steps:
            told.setdefault(name, {})["objects"] = [_content(side, *one) for one in CASES[name].objects]
    return ours, theirs


def _bring(side: ManagedCluster, case: Case, step: Step) -> None:
    metadata = {"name": case.name, "namespace": side.name, "annotations": case.annotations}
    side.sync({"apiVersion": f"{GROUP}/v1", "kind": "ConfigurationPolicy", "metadata": metadata, "spec": step.bring})


def _made(side: ManagedCluster, case: Case, step: Step) -> bool:
    return step.makes is None or (side.read(path(*case.objects[0])) or {}).get("data") == step.makes


def _fits(told: Document | None, step: Step) -> bool:
    if not step.compliant:
        return not told or "compliant" not in told
    return bool(told and told.get("compliant") == step.compliant and told["evaluated"] and step.says in told["message"])


def _statuses(side: ManagedCluster) -> Told:
    kept = {one["metadata"]["name"]: one for one in side.admin.get(path("Secret", side.name)).expect(200)["items"]}
    found = side.admin.get(path("ConfigurationPolicy", side.name)).expect(200)["items"]
    return {one["metadata"]["name"]: _normal(side, one, f"{one['metadata']['uid']}-last-resolved" in kept) for one in found}


def _normal(side: ManagedCluster, policy: Document, kept: bool) -> Document:
    status = policy.get("status") or {}
    details = [
        (one.get("Compliant"), [tuple(said.get(field) for field in CONDITION) for said in one.get("conditions") or ()])
        for one in status.get("compliancyDetails") or ()
    ]
    told = {
        "compliant": status.get("compliant"),
        "evaluated": status.get("lastEvaluatedGeneration") == policy["metadata"]["generation"],
        "message": (status.get("history") or [{"message": ""}])[0]["message"],
        "details": details,
        "related": [{**one, "properties": _properties(one)} for one in status.get("relatedObjects") or ()],
        "kept": kept,
        "finalizers": policy["metadata"].get("finalizers") or [],
    }
    normal: Document = shown(side.name, told)
    return normal


def _properties(related: Document) -> Document:
    """Upstream says of what it could not make for want of a namespace that the policy made it; and it drops the diff of what it has
    set right if its next look at the policy's status comes too early."""
    dropped = {"uid"}
    if related.get("reason") == "K8s creation error":
        dropped.add("createdByPolicy")
    if related.get("compliant") == "Compliant":
        dropped.add("diff")
    return {field: value for field, value in (related.get("properties") or {}).items() if field not in dropped}


def _content(side: ManagedCluster, kind: str, namespace: str, name: str) -> Any:
    found = side.read(path(kind, namespace, name))
    return found and shown(side.name, {field: value for field, value in found.items() if field != "metadata"})


@pytest.mark.parametrize("name", CASES)
def test_both_controllers_say_and_do_the_same(name: str, played: list[tuple[Told, Told]]) -> None:
    for step, (ours, theirs) in zip(CASES[name].steps, played, strict=False):
        first, second = ({part: said for part, said in one[name].items() if part not in step.differs} for one in (ours, theirs))
        assert first == second
        assert _fits(ours[name], step)


@pytest.mark.parametrize("first", ["ours", "theirs"])
def test_what_one_controller_kept_the_other_goes_by_while_the_hub_is_away(
    ground: ControlPlane, hub: PolicyHub, first: str, tmp_path: Path
) -> None:
    cluster = _managed(f"kept-by-{first}", ground, hub)

    def controller(program: Program) -> PolicyController:
        return PolicyController(cluster.name, cluster.cluster, tmp_path, cluster.kubeconfig, program=program)

    one, other = map(controller, (OUR_PROGRAM, upstream()) if first == "ours" else (upstream(), OUR_PROGRAM))
    cluster.controller = one.start()
    name = f"kept-by-{first}"
    plain = cluster.bring_value(name, hub_value(OPEN, "settings"))
    copied = secret(name, "default", f'{{{{hub copySecretData "{OPEN}" "pair" hub}}}}')
    sensitive = cluster.bring(f"{name}-secret", template(copied))
    for policy in (plain, sensitive):
        cluster.wait_status(policy, "Compliant", "found as specified")
    kept = [cluster.saved(policy) for policy in (plain, sensitive)]
    assert all(kept)
    one.stop()
    cluster.link.refuse()
    cluster.admin.patch(path("ConfigMap", "default", name), {"data": {"value": "drifted"}}).expect(200)
    cluster.admin.delete(path("Secret", "default", name)).expect(200)
    cluster.controller = other.start()
    cluster.wait_value(name, "red")
    made = cluster.wait(lambda: cluster.read(path("Secret", "default", name)), "the Secret to be there again")
    assert made["data"] == PAIR["data"]
    for policy in (plain, sensitive):
        cluster.wait_status(policy, "Compliant")
    assert [cluster.saved(policy) for policy in (plain, sensitive)] == kept
    other.stop()
    cluster.link.close()


def test_while_the_addon_is_disabled_both_enforce_nothing_and_each_has_its_words(ground: ControlPlane, hub: PolicyHub) -> None:
    told: list[Document] = []
    words = "he governance-standalone-hub-templating addon must be enabled to resolve hub templates"
    for program, message in ((OUR_PROGRAM, f"T{words} from the cluster"), (upstream(), f"t{words} on the managed cluster")):
        cluster = _managed(f"disabled-{len(told)}", ground, hub, program)
        cluster.controller.hub_templates = None
        cluster.controller.start()
        policy = cluster.bring_value("disabled", hub_value(OPEN, "settings"))
        cluster.wait_status(policy, "NonCompliant", message)
        said = _normal(cluster, cluster.settled(policy), cluster.saved(policy) is not None)
        told.append({part: str(value).replace(message, "") for part, value in said.items()})
        assert cluster.value("disabled") is None
        cluster.controller.stop()
        cluster.link.close()
    assert told[0] == told[1]


@pytest.mark.skipif(bool(unavailable()), reason=f"a pod takes a network of its own: {unavailable()}")
@pytest.mark.parametrize("program", ["ours", "theirs", pytest.param("chart", marks=BY_CHART)])
def test_a_controller_runs_as_the_other_ones_addon_deploys_it(
    ground: ControlPlane, hub: PolicyHub, program: str, tmp_path: Path
) -> None:
    """It is healthy, renews the Leases of both addons, and resolves hub templates; ours by upstream's own chart, too."""
    cluster = _managed(f"deployed-{program}", ground, hub)
    manifests = rendered_by_chart(cluster.name) if program == "chart" else rendered_by_us(cluster.name)
    (deployment,) = [one for one in manifests if one["kind"] == "Deployment"]
    if program == "ours":
        manifests[manifests.index(deployment)] = deployment = rendered_by_upstream(cluster.name)
    _deploy(cluster, manifests)
    credential = tmp_path / "credential"
    credential.mkdir()
    write_certificate(credential, hub.cluster, AddonIdentity(cluster.name, CONFIG_POLICY_ADDON, CONFIG_POLICY_ADDON))
    write_hub_kubeconfig(credential / "kubeconfig", hub.cluster, cluster.link.url(hub.cluster.url))
    secrets = {hub_kubeconfig_secret(CONFIG_POLICY_ADDON): credential, hub_kubeconfig_secret(STANDALONE_ADDON): cluster.directory}
    image = Path(upstream()[0] if program == "theirs" else MUSTER).parent
    with RenderedPod(deployment, cluster.cluster, tmp_path, image=image, secrets=secrets, reaching=[cluster.link.port]) as pod:
        cluster.bring_value(cluster.name, hub_value(OPEN, "settings"))
        wait_for(lambda: cluster.value(cluster.name) == "red", "the hub's value", servers=[pod.process])
        for addon in (CONFIG_POLICY_ADDON, STANDALONE_ADDON):
            wait_for(partial(_renewed, cluster, addon), f"the Lease of {addon} to be renewed", servers=[pod.process])
        assert pod.probe("livenessProbe") == 200
    cluster.link.close()


def _deploy(cluster: ManagedCluster, manifests: Sequence[Document]) -> None:
    """As an agent applies them; and Leases that were renewed long ago."""
    cluster.admin.post("/api/v1/namespaces", {"metadata": {"name": DEFAULT_NAMESPACE}}).expect(201, 409)
    for one in manifests:
        if one["kind"] in PLACES:
            place = PLACES[one["kind"]].format(namespace=one["metadata"].get("namespace"))
            cluster.admin.apply(f"{place}/{one['metadata']['name']}", one, "work-agent", force=True).expect(200, 201)
    for addon in (CONFIG_POLICY_ADDON, STANDALONE_ADDON):
        spec = {"leaseDurationSeconds": 60, "renewTime": LONG_AGO}
        lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": addon}, "spec": spec}
        cluster.admin.apply(f"{LEASES}/{addon}", lease, "before", force=True).expect(200, 201)


def _renewed(cluster: ManagedCluster, addon: str) -> bool:
    lease = cluster.read(f"{LEASES}/{addon}")
    return lease is not None and lease["spec"]["renewTime"] != LONG_AGO
