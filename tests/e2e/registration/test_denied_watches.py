"""What a denied cluster still sees of the hub through a watch that it opened before."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.registration.conftest import Fleet
from tests.support.client import Client, Watch
from tests.support.planes import ControlPlane
from tests.support.registration import Agent

WORKS = "/apis/work.open-cluster-management.io/v1/namespaces/{}/manifestworks"
WORK = {
    "apiVersion": "work.open-cluster-management.io/v1",
    "kind": "ManifestWork",
    "metadata": {"name": "later"},
    "spec": {"workload": {"manifests": []}},
}


def as_agent(agent: Agent, directory: Path) -> Client:
    """With the certificate that the agent was given."""
    files = []
    for name in ("tls.crt", "tls.key"):
        file = directory / f"{agent.name}-{name}"
        file.write_bytes(agent.secret[name])
        files.append(file)
    return Client(agent.hub.cluster.url, ca=agent.hub.cluster.ca, certificate=(files[0], files[1]))


def names(watch: Watch) -> list[str]:
    return [event["object"]["metadata"]["name"] for event in watch]


def test_a_denied_clusters_watch_ends_and_that_of_others_goes_on(fleet: Fleet, ground: ControlPlane, tmp_path: Path) -> None:
    hub = fleet.hub
    clients = {name: as_agent(fleet.joined(name), tmp_path) for name in ("to-be-denied", "to-be-kept")}

    def opened(name: str) -> Watch | None:
        """A real server is not ready to watch a new kind at once."""
        watch = clients[name].watch(WORKS.format(name), {"timeoutSeconds": 2**31 - 1}, timeout=20)
        return watch if watch.status == 200 else None

    watches = {name: found for name in clients if (found := hub.wait(lambda: opened(name), "a watch"))}  # noqa: B023

    hub.deny("to-be-denied")

    def is_refused() -> bool:
        return clients["to-be-denied"].get(WORKS.format("to-be-denied")).status == 403

    hub.wait(is_refused, "the denied cluster's rights to go")
    if ground.name == "embedded":
        # kube-apiserver never ends a watch before its time: see docs/registration.md.
        assert names(watches["to-be-denied"]) == []
        assert watches["to-be-denied"].ended_by_server
    for name in clients:
        hub.admin.post(WORKS.format(name), WORK).expect(201)
    assert clients["to-be-denied"].watch(WORKS.format("to-be-denied"), timeout=5).status == 403
    assert [event["object"]["metadata"]["name"] for event in watches["to-be-kept"].take(1)] == ["later"]
    for watch in watches.values():
        watch.close()
    for name in clients:
        hub.admin.delete(f"{WORKS.format(name)}/later").expect(200)
