"""A hub and a cluster that is to be managed, of the kind MUSTER_E2E names, and `clusteradm` as people run it on them.

Nobody runs pods here, so that the same holds on a real kube-apiserver: what `clusteradm` installs is applied and looked at, and
what its Deployments would run, the tests run as processes with the tokens of the same service accounts.

`World.objects` is everything a cluster has, with its versions: what a dry run leaves unchanged. Leases and events are left out,
since control planes write them by themselves.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from muster.cli.clusteradm import main
from tests.e2e.clusteradm import claims
from tests.support.administrator import (
    ACCEPTED,
    AGENT_NAMESPACE,
    BOOTSTRAP_NAMESPACE,
    MANAGED_CLUSTERS,
    managed_cluster,
    service_account_token,
)
from tests.support.client import Client
from tests.support.planes import USERS, Cluster, chosen, write_kubeconfig
from tests.support.processes import Server, free_ports
from tests.support.registration import MUSTER, Hub

HUB, MANAGED, AWAY = "hub", "managed", "away"
RESTLESS = {"componentstatuses", "leases", "events", "apiservices", "flowschemas", "prioritylevelconfigurations", "ipaddresses"}
"""What control planes write without being asked."""
IN_PODS = ("--grpc-bootstrap-config", "--grpc-config")
"""Flags of agents that name files which only their pods have."""
NAMESPACES = "/api/v1/namespaces"
GIVEN_TO_NAMESPACES = ("/api/v1/serviceaccounts/{}/default", "/api/v1/configmaps/{}/kube-root-ca.crt")
"""What control planes make of their own in every namespace, some time after it."""


@dataclass
class World:
    hub: Hub
    managed: Cluster
    directory: Path
    kubeconfig: Path
    runner: CliRunner = field(default_factory=CliRunner)

    def run(self, *words: str, context: str = HUB) -> Result:
        claims.noted.update(claims.used(words))
        return self.runner.invoke(main, ["--kubeconfig", str(self.kubeconfig), "--context", context, *words])

    def ok(self, *words: str, context: str = HUB) -> str:
        done = self.run(*words, context=context)
        assert done.exit_code == 0, f"{words}: {done.output}"
        return done.stdout

    def fails(self, *words: str, context: str = HUB, code: int = 1) -> str:
        """What it says; without a trace, and without a token."""
        done = self.run(*words, context=context)
        assert done.exit_code == code, f"{words}: {done.exit_code}: {done.output}"
        assert "Traceback" not in done.output
        assert done.exception is None or isinstance(done.exception, SystemExit), repr(done.exception)
        assert not any(user.token in done.output for user in USERS.values())
        return done.stdout + done.stderr

    def admin(self, context: str) -> Client:
        return self.hub.admin if context == HUB else self.managed.client()

    def objects(self, context: str) -> dict[str, str]:
        """Every object's path with its version, once each namespace has what the control plane puts there by itself."""
        return self.hub.wait(lambda: self._settled_objects(context), "every namespace has its account and its root CA")

    def _settled_objects(self, context: str) -> dict[str, str] | None:
        client = self.admin(context)
        found: dict[str, str] = {}
        own: set[str] = set()
        for place in _listable(client):
            # A real server puts off whoever asks for a kind whose cache it is only beginning to fill.
            listed = self.hub.wait_reply(functools.partial(client.get, place), f"{place} can be listed", 200)
            for item in listed.get("items") or ():
                metadata = item["metadata"]
                found[f"{place}/{metadata.get('namespace', '')}/{metadata['name']}"] = _version(item)
                if place == NAMESPACES and "deletionTimestamp" not in metadata:
                    own |= {path.format(metadata["name"]) for path in GIVEN_TO_NAMESPACES}
        return found if own <= found.keys() else None

    def told_access(self) -> dict[str, str]:
        """What the hub tells who is to join it."""
        told: dict[str, str] = json.loads(self.ok("get", "token", "-o", "json"))
        return told

    def pod(self, kind: str, words: Sequence[str | Path], account: tuple[str, str], context: str) -> Server:
        """A process in a pod's stead, with the token of its account."""
        cluster = self.hub.cluster if context == HUB else self.managed
        own = self.directory / f"{account[1]}.kubeconfig"
        write_kubeconfig(own, cluster.url, cluster.ca, {"token": service_account_token(self.admin(context), *account)})
        (port,) = free_ports(1)
        command = [MUSTER, *words, "--kubeconfig", own, "--health-port", str(port)]
        server = Server(kind, command, self.directory / f"{kind}.log")
        self.hub.servers.append(server)
        server.start()
        return server

    def operator(self, kind: str, context: str) -> Server:
        return self.pod(f"{kind}-operator", ["operator", kind, "--no-leader-elect"], (BOOTSTRAP_NAMESPACE, kind), context)

    def registration_agent(self) -> Server:
        """What the operator has deployed on the managed cluster, once it has."""
        path = f"/apis/apps/v1/namespaces/{AGENT_NAMESPACE}/deployments/klusterlet-registration-agent"
        found = self.hub.wait_reply(lambda: self.managed.client().get(path), "the agent's Deployment", 200)
        given = found["spec"]["template"]["spec"]["containers"][0]["args"]
        words = [one for one in given if not one.startswith(("--health-port", *IN_PODS))]
        files = ["--hub-kubeconfig-dir", str(self.directory / "agent")]
        return self.pod("agent", [*words, *files], (AGENT_NAMESPACE, "klusterlet-registration-sa"), MANAGED)

    def play_pods(self, deployment: str, context: str) -> None:
        """A Deployment is said to be available."""
        admin = self.admin(context)
        found = admin.get(deployment).expect(200)
        counts = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")
        status = {"observedGeneration": found["metadata"]["generation"], **dict.fromkeys(counts, found["spec"]["replicas"])}
        admin.patch(f"{deployment}/status", {"status": status}).expect(200)

    def cluster(self, name: str) -> None:
        """A ManagedCluster whose agent is nowhere, and for which the hub has made all that it makes."""
        body = managed_cluster(name, accepted=True)
        self.hub.wait_reply(lambda: self.hub.admin.post(MANAGED_CLUSTERS, body), f"ManagedCluster {name}", 201, 409)
        self.hub.wait_condition(name, ACCEPTED)


def _version(item: dict[str, Any]) -> str:
    """What changes when somebody changes the object, other than a control plane that signs what tells how to find it."""
    metadata = item["metadata"]
    if (metadata.get("namespace"), metadata["name"]) != ("kube-public", "cluster-info"):
        return str(metadata.get("resourceVersion", ""))
    data = {key: value for key, value in item["data"].items() if not key.startswith("jws-kubeconfig-")}
    return json.dumps([data, metadata.get("labels"), metadata.get("annotations")])


def _listable(client: Client) -> list[str]:
    groups = [group["preferredVersion"]["groupVersion"] for group in client.get("/apis").expect(200)["groups"]]
    return [
        f"{prefix}/{one['name']}"
        for prefix in ("/api/v1", *(f"/apis/{group}" for group in groups))
        for one in client.get(prefix).expect(200)["resources"]
        if "list" in one["verbs"] and "/" not in one["name"] and one["name"] not in RESTLESS
    ]


def _write_contexts(path: Path, clusters: dict[str, Cluster]) -> None:
    """`hub` and `managed` of the administrator, `mallory@…` of somebody without rights, `alice@…` and `bob@…` of people whom
    tests give some, `nobody@…` of somebody unknown, and `away`, where no server is."""
    (dead,) = free_ports(1)
    places = {name: {"server": one.url, "certificate-authority": str(one.ca)} for name, one in clusters.items()}
    places[AWAY] = {"server": f"https://127.0.0.1:{dead}", "certificate-authority": str(clusters[HUB].ca)}
    users = {name: USERS[name].token for name in ("admin", "alice", "bob", "mallory")} | {"nobody": "not-a-token"}
    contexts = {name: (name, "admin") for name in places}
    contexts |= {f"{user}@{name}": (name, user) for user in ("alice", "bob", "mallory", "nobody") for name in clusters}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": one} for name, one in places.items()],
        "users": [{"name": name, "user": {"token": token}} for name, token in users.items()],
        "contexts": [{"name": name, "context": {"cluster": place, "user": user}} for name, (place, user) in contexts.items()],
        "current-context": HUB,
    }
    path.write_text(yaml.safe_dump(document))
    path.chmod(0o600)


@contextmanager
def open_world(directory: Path, *flags: str) -> Iterator[World]:
    """Two clusters with nothing on them; what runs on the hub, a test starts. The flags are those of `muster hub`."""
    plane = chosen(directory / "plane", MANAGED)
    plane.start()
    managed = plane.extra(MANAGED)
    kubeconfig = directory / "kubeconfig"
    _write_contexts(kubeconfig, {HUB: plane.cluster, MANAGED: managed})
    world = World(Hub(plane.cluster, directory / "hub", flags), managed, directory, kubeconfig)
    try:
        yield world
    finally:
        world.hub.stop(kill=True)
        plane.stop(kill=True)


_passed = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    item.stash[_passed] = report.passed
    return report


@pytest.fixture(autouse=True)
def keep_claims(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test that claims to show an option, and passes, has used it."""
    claims.noted.clear()
    yield
    if not request.node.stash.get(_passed, False):
        return
    assert claims.claimed(list(request.node.iter_markers("shows"))) <= claims.noted, "claimed, but not used"


@pytest.fixture(scope="package")
def whole_world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with open_world(tmp_path_factory.mktemp("clusteradm")) as world:
        world.ok("init")
        world.hub.install()
        world.hub.start()
        yield world


@pytest.fixture
def world(whole_world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    return whole_world
