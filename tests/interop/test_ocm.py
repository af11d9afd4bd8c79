"""Upstream's Go registration controller, registration agent and work agent, unmodified, on our API server.

Hub and managed cluster are two clusters of the plane; RBAC is enforced on both, each program has only the rights that
upstream's manifests give it.
"""

from collections.abc import Iterator

import pytest

from tests.interop.ocm import MAPS, Fleet, wait_until, work
from tests.support.planes import ControlPlane

WORKS = "/apis/work.open-cluster-management.io/v1/namespaces/cluster1/manifestworks"


@pytest.fixture(scope="module")
def fleet(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    fleet = Fleet(plane.cluster, plane.extra("spare1"), tmp_path_factory.mktemp("ocm"))
    with fleet.running():
        try:
            yield fleet
        finally:
            print(fleet.log())


@pytest.mark.timeout(300)
def test_a_cluster_joins_and_a_work_is_applied_changed_and_removed(fleet: Fleet) -> None:
    fleet.accept()
    for kind in ("HubAcceptedManagedCluster", "ManagedClusterJoined", "ManagedClusterConditionAvailable"):
        wait_until(lambda kind=kind: fleet.condition(kind) == "True", kind, timeout=90)  # type: ignore[misc]

    fleet.start_work_agent()
    fleet.hub_admin.post(WORKS, work("hello")).expect(201)
    wait_until(lambda: fleet.delivered() == "hello", "the ConfigMap on the managed cluster")
    wait_until(lambda: conditions(fleet) >= {"Applied", "Available"}, "the work's status")

    manifests = {"workload": work("changed")["spec"]["workload"]}
    fleet.hub_admin.patch(f"{WORKS}/hello", {"spec": manifests}).expect(200)
    wait_until(lambda: fleet.delivered() == "changed", "the change on the managed cluster")

    fleet.hub_admin.delete(f"{WORKS}/hello").expect(200)
    wait_until(lambda: fleet.hub_admin.get(f"{WORKS}/hello").status == 404, "the work to be gone")
    assert fleet.spoke_admin.get(f"{MAPS}/delivered").status == 404


def conditions(fleet: Fleet) -> set[str]:
    status = fleet.hub_admin.get(f"{WORKS}/hello").expect(200).get("status", {})
    return {c["type"] for c in status.get("conditions", ()) if c["status"] == "True"}
