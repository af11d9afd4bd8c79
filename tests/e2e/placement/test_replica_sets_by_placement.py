"""P14: replica sets stand on decisions of the placement controller; nobody is played but the clusters."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from muster.machinery.objects import Object
from muster.work.kinds import MANIFEST_WORKS, REPLICA_SETS
from tests.e2e.placement.conftest import Corner
from tests.support.choosing import labelled
from tests.support.hub_components import PlacementHub
from tests.support.processes import complaints
from tests.support.work_hub import WorkHub

GATES = "--feature-gates=ManifestWorkReplicaSet=true"


@pytest.fixture(scope="module")
def works(hub: PlacementHub) -> Iterator[WorkHub]:
    works = WorkHub(hub.cluster, hub.kubeconfig.parent / "work-hub")
    works.install(GATES)
    works.start(GATES)
    yield works
    works.stop()
    assert works.process is not None
    assert complaints(works.process.log) == []


async def test_p14_works_follow_what_a_placement_chooses(corner: Corner, works: WorkHub) -> None:
    a, b = corner.named("a", "b")
    for name in (a, b):
        await corner.namespace(name)
        await corner.cluster(name)
    await corner.change_cluster(a, app="web")
    await corner.place("everywhere", predicates=labelled(app="web"))
    await corner.until_chosen("everywhere", a)
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "web", "namespace": "default"}, "data": {"a": "1"}}
    document: Object = {
        "apiVersion": REPLICA_SETS.api_version,
        "kind": REPLICA_SETS.kind,
        "metadata": {"name": "web", "namespace": corner.ns},
        "spec": {"manifestWorkTemplate": {"workload": {"manifests": [manifest]}}, "placementRefs": [{"name": "everywhere"}]},
    }
    await corner.admin.create(REPLICA_SETS, document)

    async def on(*clusters: str) -> bool:
        return {one["metadata"]["namespace"] for one in (await corner.admin.list(MANIFEST_WORKS)).items} == set(clusters)

    await corner.until(lambda: on(a), "a work where it is chosen")
    await corner.change_cluster(b, app="web")
    await corner.until(lambda: on(a, b), "a work on the cluster that is chosen too")
    await corner.change_cluster(a, app=None)
    await corner.until(lambda: on(b), "no work where it is chosen no longer")
    await corner.admin.delete(REPLICA_SETS, "web", corner.ns)
    await corner.until(on, "no works")
