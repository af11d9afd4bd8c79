"""Hubs have replicas: one leads, the others stand by and take over as soon as it goes."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator

import pytest

from tests.support.administrator import HUB_NAMESPACE, MANAGED_CLUSTERS, managed_cluster
from tests.support.planes import chosen
from tests.support.processes import complaints
from tests.support.registration import Hub, http_status

LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{HUB_NAMESPACE}/leases"
SOON = 5.0
"""Seconds; whoever only looked at the lease now and then would need ten and more."""


@pytest.fixture(scope="module")
def replicas(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Hub]]:
    """Controllers by the names of their pods; webhooks have a process of their own, as the operator has it."""
    directory = tmp_path_factory.mktemp("replicas")
    plane = chosen(directory / "plane")
    plane.start()
    webhooks = Hub(plane.cluster, directory / "webhooks", ("--no-controllers",))
    hubs = {
        name: Hub(plane.cluster, directory / name, ("--no-webhook", "--leader-elect"), {"POD_NAME": name})
        for name in ("one", "two")
    }
    try:
        webhooks.install()
        webhooks.start()
        for hub in hubs.values():
            shutil.copy(webhooks.kubeconfig, hub.kubeconfig)
            hub.start()
        yield hubs
        for hub in hubs.values():
            assert complaints(hub.process.log) == []
    finally:
        for hub in (*hubs.values(), webhooks):
            hub.stop(kill=True)
        plane.stop(kill=True)


def leader(hub: Hub) -> str:
    """Of whichever of the leases; there is one."""
    (lease,) = (hub.read(LEASES) or {})["items"] or [{}]
    return str((lease.get("spec") or {}).get("holderIdentity") or "")


def works(hub: Hub, name: str) -> None:
    """Somebody deals with a cluster."""
    body = managed_cluster(name, accepted=True)
    hub.wait_reply(lambda: hub.admin.post(MANAGED_CLUSTERS, body), f"ManagedCluster {name}", 201)
    hub.wait(lambda: hub.read(f"/api/v1/namespaces/{name}"), f"namespace {name}")


def test_when_the_leader_is_stopped_the_other_leads_at_once(replicas: dict[str, Hub]) -> None:
    first = replicas["one"].wait(lambda: leader(replicas["one"]), "a leader")
    (other,) = (name for name in replicas if name != first)
    works(replicas[other], "before")
    assert http_status(replicas[other].health_port, "/readyz") == 200, "one that stands by is well"
    replicas[first].stop()
    stopped = time.monotonic()
    replicas[other].wait(lambda: leader(replicas[other]) == other, "the other one to lead")
    assert time.monotonic() - stopped < SOON
    works(replicas[other], "after")


def test_one_that_comes_back_stands_by_and_leads_when_it_is_its_turn(replicas: dict[str, Hub]) -> None:
    now = replicas["one"].wait(lambda: leader(replicas["one"]), "a leader")
    (back,) = (name for name in replicas if name != now)
    if not replicas[back].process.running:
        replicas[back].start()
    works(replicas[back], "meanwhile")
    assert leader(replicas[back]) == now
    replicas[now].stop()
    stopped = time.monotonic()
    replicas[back].wait(lambda: leader(replicas[back]) == back, "the one that came back to lead")
    assert time.monotonic() - stopped < SOON
    works(replicas[back], "again")


def test_a_lease_is_kept_where_people_look_for_it(replicas: dict[str, Hub]) -> None:
    (lease,) = (replicas["one"].read(LEASES) or {})["items"]
    assert lease["metadata"]["name"] == "registration-controller-lock"
