"""Our `clusteradm` with a hub that is upstream's, and our operators with the samples that upstream ships for its own.

The hub is upstream's Go registration controller with the rights of upstream's manifests, and nothing of ours is installed on it.
Its clusters introduce themselves with the token that our `get token` gives, one by upstream's agent and one by ours.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from muster.api.crds import OPERATOR, definitions
from muster.api.operator.v1 import ClusterManager, Klusterlet
from muster.cli.clusteradm import main
from muster.operator.cluster_manager import manifests as hub_manifests
from muster.operator.cluster_manager import plan as hub_plan
from muster.operator.klusterlet import manifests as agent_manifests
from muster.operator.klusterlet import plan as agent_plan
from muster.operator.spec import GateReview
from tests.interop.ocm import COLLECTIONS, Fleet, create
from tests.support import peers
from tests.support.administrator import (
    ACCEPTED,
    AVAILABLE,
    JOINED,
    MANAGED_CLUSTERS,
    Administrator,
    kubeconfig_text,
    managed_cluster,
    wait_reply,
)
from tests.support.client import Client
from tests.support.planes import USERS, Cluster, ControlPlane, chosen
from tests.support.registration import Agent, Spoke

Document = dict[str, Any]
GOPHER, PYTHON = "gopher", "python"
IMAGE = "muster:ours"
HUB, HOSTED_HUB, AGENT = (
    "cluster-manager/config/samples/operator_open-cluster-management_clustermanagers.cr.yaml",
    "cluster-manager/config/samples/operator_open-cluster-management_clustermanagers_hosted.cr.yaml",
    "klusterlet/config/samples/operator_open-cluster-management_klusterlets.cr.yaml",
)
every_sample = pytest.mark.parametrize("sample", [HUB, HOSTED_HUB, AGENT], ids=["hub", "hosted hub", "agent"])


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    ground = chosen(tmp_path_factory.mktemp("clusteradm"), "spoke", "operators")
    ground.start()
    yield ground
    ground.stop(kill=True)


class UpstreamHub(Administrator):
    """Upstream's hub, a cluster to be managed, and our `clusteradm` on the hub."""

    def __init__(self, cluster: Cluster, managed: Cluster, directory: Path) -> None:
        super().__init__(cluster)
        self.managed = managed
        self.directory = directory
        self.fleet = Fleet(cluster, managed, directory / "go", GOPHER)

    def start(self) -> None:
        self.fleet.start_hub()
        self.servers += self.fleet.servers

    def run(self, *words: str) -> Result:
        done = CliRunner().invoke(main, ["--kubeconfig", str(self.cluster.kubeconfig), *words])
        assert done.exception is None or isinstance(done.exception, SystemExit), repr(done.exception)
        assert USERS["admin"].token not in done.output
        return done

    def ok(self, *words: str) -> str:
        done = self.run(*words)
        assert done.exit_code == 0, f"{words}: {done.output}"
        return done.stdout

    def fails(self, *words: str) -> str:
        done = self.run(*words)
        assert done.exit_code == 1, f"{words}: {done.exit_code}: {done.output}"
        return done.stdout + done.stderr

    def listed(self, name: str) -> Document:
        """The cluster as `get clusters` gives it to programs."""
        (found,) = json.loads(self.ok("get", "clusters", name, "-o", "json"))["items"]
        return dict(found)

    def row(self, name: str) -> list[str]:
        """The cluster as `get clusters` shows it to people."""
        heading, cluster = self.ok("get", "clusters", name, "-o", "table").splitlines()
        assert heading.split()[:3] == ["NAME", "ACCEPTED", "AVAILABLE"]
        return cluster.split()

    def findings(self, name: str) -> dict[str, str]:
        """What `doctor` finds of a cluster with which nothing is wrong: its verdict on each subject."""
        found = json.loads(self.ok("doctor", name, "-o", "json"))[name]
        return {one["subject"]: one["verdict"] for one in found}


@pytest.fixture(scope="module")
def hub(ground: ControlPlane) -> Iterator[UpstreamHub]:
    hub = UpstreamHub(ground.cluster, ground.extra("spoke"), ground.directory / "upstream")
    try:
        hub.start()
        yield hub
    finally:
        hub.fleet.stop()


@pytest.fixture(scope="module")
def introduce(hub: UpstreamHub) -> Iterator[Callable[[str, str], None]]:
    """Starts the agent of a cluster with a token: upstream's or ours, by the cluster's name."""
    ours: list[Agent] = []

    def run(name: str, token: str) -> None:
        if name == GOPHER:
            hub.fleet.start_registration_agent(token)
            hub.servers.append(hub.fleet.servers[-1])
            return
        bootstrap = kubeconfig_text(hub.cluster.url, hub.cluster.ca, {"token": token})
        ours.append(Agent(Spoke(hub.managed, hub.directory / "agents"), hub, name, bootstrap).start())

    yield run
    for agent in ours:
        agent.stop()


@pytest.mark.timeout(180)
@pytest.mark.parametrize("name", [GOPHER, PYTHON])
def test_our_clusteradm_lets_a_cluster_into_upstreams_hub(
    hub: UpstreamHub, introduce: Callable[[str, str], None], name: str
) -> None:
    assert name in hub.fails("get", "clusters", name)
    assert name in hub.fails("accept", "--clusters", name)
    assert "the agent has not introduced the cluster" in hub.fails("doctor", name)

    told = json.loads(hub.ok("get", "token", "-o", "json"))
    assert told["hub-apiserver"] == hub.cluster.url
    introduce(name, told["hub-token"])
    hub.wait(lambda: hub.find(name) and hub.pending(name), f"{name} to introduce itself and ask for a certificate", 60)

    assert hub.row(name)[:2] == [name, "false"]
    assert hub.listed(name)["spec"]["hubAcceptsClient"] is False
    said = hub.fails("doctor", name)
    assert "waits for approval" in said
    assert "the cluster is not accepted" in said

    assert "has joined the Hub successfully" in hub.ok("accept", "--clusters", name, "--wait", "--timeout", "90s")

    assert hub.row(name)[:3] == [name, "true", "True"]
    cluster = hub.listed(name)
    assert cluster["kind"] == "ManagedCluster"
    assert {ACCEPTED, JOINED, AVAILABLE} <= {one["type"] for one in cluster["status"]["conditions"] if one["status"] == "True"}
    found = hub.findings(name)
    assert {subject for subject, verdict in found.items() if verdict == "ok"} >= {
        "acceptance",
        "permissions",
        "lease",
        "availability",
    }
    assert {subject for subject, verdict in found.items() if verdict == "note"} == {"hub", "webhooks", "webhooks of works"}, (
        "which are not ours"
    )

    before = hub.requests(name)
    assert "nothing was changed" in hub.ok("accept", "--clusters", name)
    assert hub.requests(name) == before


@pytest.mark.timeout(180)
def test_our_doctor_finds_that_upstreams_hub_denies_a_cluster_and_accept_takes_it_back(hub: UpstreamHub) -> None:
    """A cluster without an agent: the hub's side alone."""
    hub.admin.post(MANAGED_CLUSTERS, managed_cluster("silent", accepted=True)).expect(201)
    hub.wait_condition("silent", ACCEPTED, timeout=60)
    hub.deny("silent")
    hub.wait_condition("silent", ACCEPTED, "False", "HubClusterAdminDenied", timeout=60)
    assert "the cluster is not accepted" in hub.fails("doctor", "silent")

    hub.ok("accept", "--clusters", "silent", "--skip-approve-check")

    hub.wait_condition("silent", ACCEPTED, timeout=60)
    said = hub.fails("doctor", "silent")
    assert "the cluster is not accepted" not in said
    assert "the agent has not requested a certificate" in said


# Upstream's samples


@pytest.fixture(scope="module")
def samples() -> dict[str, Document]:
    """Every object in the samples of both operators, by the path of its file; Kustomizations only list the others."""
    command = ["go", "-C", str(peers.ROOT / "peers/ocm"), "list", "-m", "-f", "{{.Dir}}", "open-cluster-management.io/ocm"]
    place = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.strip()
    assert place, "the module is not there: run `make -C peers`"
    deploy = Path(place, "deploy")
    files = {path: yaml.safe_load(path.read_text()) for path in sorted(deploy.glob("*/config/samples/*.yaml"))}
    return {str(path.relative_to(deploy)): document for path, document in files.items() if path.name != "kustomization.yaml"}


@pytest.fixture(scope="module")
def operators(ground: ControlPlane) -> Client:
    """A cluster with our definitions of both operators' kinds."""
    admin = ground.extra("operators").client()
    for definition in definitions(OPERATOR):
        create(admin, COLLECTIONS["CustomResourceDefinition"], definition)
        names = definition["spec"]["names"]["plural"]
        wait_reply(lambda names=names: admin.get(collection(names)), f"{names} are served", 200)  # type: ignore[misc]
    return admin


def collection(plural: str) -> str:
    return f"/apis/operator.open-cluster-management.io/v1/{plural}"


def test_no_sample_of_upstream_is_left_out(samples: dict[str, Document]) -> None:
    assert set(samples) == {HUB, HOSTED_HUB, AGENT}


@every_sample
def test_our_definitions_take_upstreams_sample_as_it_is(operators: Client, samples: dict[str, Document], sample: str) -> None:
    document = samples[sample]
    place = collection(f"{document['kind'].lower()}s")
    strictly = {"dryRun": "All", "fieldValidation": "Strict"}
    for reply in (
        operators.post(place, document, query=strictly),
        operators.apply(f"{place}/{document['metadata']['name']}", document, "sampler", query=strictly),
    ):
        taken = reply.expect(201)
        assert reply.header_values("Warning") == []
        assert within(document["spec"], taken["spec"])
    misspelt = {**document, "spec": {**document["spec"], "nonsense": True}}
    assert operators.post(place, misspelt, query=strictly).status == 400, "it is looked at strictly"
    assert operators.get(place).expect(200)["items"] == []


@pytest.mark.parametrize(("sample", "namespace"), [(HUB, "open-cluster-management-hub"), (HOSTED_HUB, "cluster-manager")])
def test_our_operator_knows_what_upstreams_sample_of_a_hub_asks_for(
    operators: Client, samples: dict[str, Document], sample: str, namespace: str
) -> None:
    stored = operators.post(collection("clustermanagers"), samples[sample], query={"dryRun": "All"}).expect(201)
    manager = ClusterManager.decode(stored)
    plan = hub_plan.ClusterManagerPlan(manager, IMAGE)

    assert hub_plan.gate_review(manager) == GateReview()
    plan.check_mode()
    assert hub_plan.account_annotations(plan) == {}
    assert hub_plan.registration_arguments(plan) == (["--feature-gates=DefaultClusterSet=true"] if sample == HUB else [])
    assert deployed(hub_manifests.components(plan)) == {
        (namespace, "cluster-manager-registration-controller", IMAGE),
        (namespace, "cluster-manager-registration-webhook", IMAGE),
        (namespace, "cluster-manager-work-webhook", IMAGE),
        (namespace, "cluster-manager-placement-controller", IMAGE),
        (namespace, "cluster-manager-addon-manager-controller", IMAGE),
    }
    if sample == HOSTED_HUB:
        for webhook, port in ((hub_plan.REGISTRATION_WEBHOOK, 30443), (hub_plan.WORK_WEBHOOK, 31443)):
            configured = plan.hosted_webhook(webhook)
            assert (configured.address, configured.port) == ("management-control-plane", port)


def test_our_operator_knows_what_upstreams_sample_of_an_agent_asks_for(operators: Client, samples: dict[str, Document]) -> None:
    stored = operators.post(collection("klusterlets"), samples[AGENT], query={"dryRun": "All"}).expect(201)
    klusterlet = Klusterlet.decode(stored)
    plan = agent_plan.KlusterletPlan(klusterlet, IMAGE)

    assert agent_plan.gate_review(klusterlet) == GateReview()
    agent_plan.check(plan)
    told = agent_plan.agent_arguments(plan)
    assert {"--cluster-name=cluster1", "--spoke-external-server-urls=https://localhost"} <= set(told)
    assert deployed(agent_manifests.deployments(plan)) == {("open-cluster-management-agent", "klusterlet-agent", IMAGE)}


def within(part: object, whole: object) -> bool:
    """Whether all that `part` says is in `whole`, which may say more."""
    if isinstance(part, dict) and isinstance(whole, dict):
        return all(key in whole and within(value, whole[key]) for key, value in part.items())
    if isinstance(part, list) and isinstance(whole, list):
        return len(part) == len(whole) and all(within(one, other) for one, other in zip(part, whole, strict=True))
    return part == whole


def deployed(wanted: list[tuple[Any, Document]]) -> set[tuple[str, str, str]]:
    """Namespace, name and image of every Deployment."""
    return {
        (
            document["metadata"]["namespace"],
            document["metadata"]["name"],
            document["spec"]["template"]["spec"]["containers"][0]["image"],
        )
        for resource, document in wanted
        if resource.kind == "Deployment"
    }
