"""Options of `unjoin`, on a cluster that has joined and whose operator nobody runs, so that nothing holds its Klusterlet."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from muster.api.crds import SPOKE, definitions
from tests.e2e.clusteradm.claims import shows
from tests.e2e.clusteradm.conftest import HUB, MANAGED, World, open_world
from tests.support.administrator import AGENT_NAMESPACE, BOOTSTRAP_NAMESPACE

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
KLUSTERLETS = "/apis/operator.open-cluster-management.io/v1/klusterlets"
OPERATOR = f"/apis/apps/v1/namespaces/{BOOTSTRAP_NAMESPACE}/deployments/klusterlet"
WORKS = "/apis/work.open-cluster-management.io/v1"


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with open_world(tmp_path_factory.mktemp("unjoin")) as world:
        world.ok("init")
        world.hub.install()
        world.hub.start()
        for definition in definitions(SPOKE):
            world.managed.client().post(DEFINITIONS, definition).expect(201)
        yield world


@pytest.fixture
def joined(fleet: World) -> World:
    access = [word for name, value in fleet.told_access().items() for word in (f"--{name}", value)]
    fleet.ok("join", *access, "--cluster-name", "here", context=MANAGED)
    fleet.cluster("here")
    return fleet


@shows("unjoin", "--cluster-name")
def test_a_cluster_leaves_by_its_name(joined: World) -> None:
    managed = joined.managed.client()
    assert "there are those of here" in joined.fails("unjoin", "--cluster-name", "elsewhere", context=MANAGED)
    assert managed.get(f"{KLUSTERLETS}/klusterlet").status == 200
    said = joined.ok("unjoin", "--cluster-name", "here", context=MANAGED)
    assert "left: the agents have no credential for the hub" in said
    assert joined.hub.find("here") is not None
    assert managed.get(f"{KLUSTERLETS}/klusterlet").status == 404
    assert managed.get(f"/api/v1/namespaces/{AGENT_NAMESPACE}").status == 404
    assert managed.get(OPERATOR).status == 404


@shows("unjoin", "--purge-operator")
def test_the_operator_may_stay(joined: World) -> None:
    managed = joined.managed.client()
    joined.ok("unjoin", "--cluster-name", "here", "--purge-operator", "false", context=MANAGED)
    assert managed.get(OPERATOR).status == 200
    assert managed.get(f"{KLUSTERLETS}/klusterlet").status == 404
    joined.ok("unjoin", "--cluster-name", "here", context=MANAGED)
    assert managed.get(OPERATOR).status == 404


@shows("unjoin", "--hub-kubeconfig", "--hub-context", "--output-file")
@pytest.mark.parametrize("kubeconfig", [True, False], ids=["with a kubeconfig of its own", "with a context of the same"])
def test_an_administrator_of_the_hub_cleans_up_there_too(joined: World, tmp_path: Path, kubeconfig: bool) -> None:
    file = tmp_path / "done"
    own = ["--hub-kubeconfig", str(joined.kubeconfig)]
    flags = [*own, "--hub-context", HUB, "--output-file", str(file)]
    joined.ok("unjoin", "--cluster-name", "here", *flags, "--dry-run", context=MANAGED)
    assert "delete managedclusters.cluster.open-cluster-management.io here" in file.read_text().splitlines()
    assert joined.hub.find("here") is not None
    flags = own if kubeconfig else flags[2:]
    assert "is deleted on the hub" in joined.ok("unjoin", "--cluster-name", "here", *flags, context=MANAGED)
    assert joined.hub.find("here") is None


@shows("unjoin", "--force")
def test_what_the_hub_has_applied_is_left_by_force_only(joined: World) -> None:
    managed = joined.managed.client()
    uid = managed.get(f"{KLUSTERLETS}/klusterlet").expect(200)["metadata"]["uid"]
    body = {"apiVersion": WORKS.removeprefix("/apis/"), "kind": "AppliedManifestWork", "metadata": {"name": "0123-web"}}
    spec = {"hubHash": "0123", "agentID": uid, "manifestWorkName": "web"}
    managed.post(f"{WORKS}/appliedmanifestworks", {**body, "spec": spec}).expect(201)
    assert "AppliedManifestWorks 0123-web" in joined.fails("unjoin", "--cluster-name", "here", context=MANAGED)
    assert managed.get(f"{KLUSTERLETS}/klusterlet").status == 200
    done = joined.run("unjoin", "--cluster-name", "here", "--force", context=MANAGED)
    assert done.exit_code == 0, done.output
    assert "they are left where they are" in done.stderr
    assert managed.get(f"{KLUSTERLETS}/klusterlet").status == 404
    managed.delete(f"{WORKS}/appliedmanifestworks/0123-web").expect(200, 404)
