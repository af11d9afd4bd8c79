"""Upstream's cluster-gateway and ours on one hub, before the same Secrets: same answers through both, and upstream's client library
through ours in upstream's place."""

from __future__ import annotations

import itertools
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.e2e.gateway.conftest import CREDENTIALS, GATEWAYS, GROUP, MANAGED_CLUSTERS, SECRETS, account, base64_of
from tests.support import upstream_gateway as upstream
from tests.support.administrator import Document, managed_cluster, wait_for
from tests.support.client import APPLY_PATCH, MERGE_PATCH, Client, Reply
from tests.support.hub_components import GatewayHub
from tests.support.kubectl import kubectl
from tests.support.planes import USERS, Cluster, KubeOptions, KubePlane
from tests.support.processes import complaints
from tests.support.registration import Hub
from tests.support.upstream_gateway import UpstreamGateway

pytestmark = [
    pytest.mark.timeout(240),
    pytest.mark.skipif(not upstream.built(), reason="cluster-gateway is not built: make -C peers/gateway"),
]
MAPS = "/api/v1/namespaces/default/configmaps"
BOTH = {"ours": GATEWAYS, "theirs": upstream.GATEWAYS}
PASSING = {"date", "audit-id", "transfer-encoding", "content-length", "connection"}
"""Header fields that differ from answer to answer, or say how a body is framed on one hop."""
PRIORITIES = "x-kubernetes-pf-"
"""Upstream's server has priority levels of its own, and tells of them beside the hub's."""
_numbers = itertools.count(1)


@dataclass
class Twins:
    plane: KubePlane
    ours: GatewayHub
    theirs: UpstreamGateway
    spoke: Cluster

    @property
    def admin(self) -> Client:
        return self.ours.admin

    def behind(self, side: str, cluster: str = "foo", user: str = "admin") -> Client:
        url = f"{self.plane.url}{BOTH[side]}/{cluster}/proxy"
        return Client(url, ca=self.plane.ca, token=USERS[user].token)

    def both(self, method: str, path: str, cluster: str = "foo", user: str = "admin", **options: Any) -> tuple[Reply, Reply]:
        """The same request, asked of both in turn."""
        ours, theirs = (self.behind(side, cluster, user).request(method, path, **options) for side in BOTH)
        return ours, theirs


@pytest.fixture(scope="module")
def twins(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Twins]:
    directory = tmp_path_factory.mktemp("twins")
    plane = KubePlane(directory / "plane", KubeOptions(fsync=False))
    plane.start()
    try:
        spoke = plane.extra("foo")
        Hub(plane.cluster, directory / "hub", webhooks=False).install()
        ours = GatewayHub(plane.cluster, directory / "ours")
        ours.install()
        ours.start()
        theirs = UpstreamGateway(plane.cluster, directory / "theirs", CREDENTIALS)
        theirs.install()
        theirs.start()
        found = Twins(plane, ours, theirs, spoke)
        ours.wait_reply(lambda: found.admin.get(GATEWAYS), "our aggregated API", 200, timeout=60)
        register(found, "foo", spoke, account(spoke))
        yield found
        found.ours.stop()
        theirs.stop()
        assert found.ours.process is not None
        assert complaints(found.ours.process.log) == []
    finally:
        plane.discard()


def register(twins: Twins, name: str, spoke: Cluster, token: str, wait: bool = True) -> None:
    """With upstream's labels, which both understand."""
    twins.admin.post(MANAGED_CLUSTERS, managed_cluster(name, accepted=True)).expect(201)
    labels = {upstream.CREDENTIAL_TYPE: "ServiceAccountToken", upstream.ENDPOINT_TYPE: "Const"}
    data = base64_of({"endpoint": spoke.url, "ca.crt": spoke.ca.read_bytes(), "token": token})
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "labels": labels}, "data": data}
    twins.admin.post(SECRETS, secret).expect(201)
    for side in BOTH if wait else ():
        await_status(twins, side, name, "/version", 200)


def await_status(twins: Twins, side: str, name: str, path: str, *statuses: int) -> None:
    wait_for(lambda: twins.behind(side, name).get(path).status in statuses, f"{statuses} of {name} behind {side}")


def lasting(reply: Reply) -> set[tuple[str, str]]:
    """Each once: upstream's server says what the cluster has said before it."""
    named = {(name.lower(), value) for name, value in reply.headers}
    return {(name, value) for name, value in named if name not in PASSING and not name.startswith(PRIORITIES)}


def config_map(name: str, **data: str) -> Document:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"twins": "yes"}}, "data": data}


@pytest.mark.parametrize(
    "path",
    [
        "/version",
        "/healthz",
        "/api",
        "/apis",
        "/api/v1",
        "/openapi/v3",
        "/api/v1/namespaces/kube-system",
        "/api/v1/namespaces?limit=1",
        "/api/v1/namespaces/default/configmaps?fieldSelector=metadata.name%3Dkube-root-ca.crt",
        "/apis/rbac.authorization.k8s.io/v1/clusterroles?labelSelector=kubernetes.io%2Fbootstrapping%3Drbac-defaults",
        "/api/v1/namespaces/default/configmaps/absent",
        "/apis/absent.example.com/v1/things",
    ],
)
def test_reads_are_answered_alike(twins: Twins, path: str) -> None:
    ours, theirs = twins.both("GET", path)
    assert (ours.status, ours.body) == (theirs.status, theirs.body)
    assert lasting(ours) == lasting(theirs)


@pytest.mark.parametrize(
    "accept", ["application/vnd.kubernetes.protobuf", "application/json;as=Table;v=v1;g=meta.k8s.io", "text/plain"]
)
def test_other_forms_are_answered_alike(twins: Twins, accept: str) -> None:
    ours, theirs = twins.both("GET", "/api/v1/namespaces", headers={"Accept": accept})
    assert ours.status == theirs.status
    if "Table" not in accept:
        # Ages are in a table.
        assert ours.body == theirs.body
    assert ours.header("content-type") == theirs.header("content-type")


def test_writes_through_one_are_seen_through_the_other(twins: Twins) -> None:
    for here, there in (("ours", "theirs"), ("theirs", "ours")):
        writer, reader = twins.behind(here), twins.behind(there)
        name = f"written-{next(_numbers)}"
        created = writer.post(MAPS, config_map(name, a="1")).expect(201)
        assert reader.get(f"{MAPS}/{name}").expect(200) == created
        changed = writer.request("PATCH", f"{MAPS}/{name}", body={"data": {"b": "2"}}, content_type=MERGE_PATCH).expect(200)
        assert changed["data"] == {"a": "1", "b": "2"}
        stale = {**created, "data": {"c": "3"}}
        assert reader.put(f"{MAPS}/{name}", stale).status == 409
        assert reader.delete(f"{MAPS}/{name}").status == 200
        assert writer.get(f"{MAPS}/{name}").status == 404


def test_apply_conflicts_between_both(twins: Twins) -> None:
    name = f"applied-{next(_numbers)}"

    def apply(side: str, manager: str, value: str, flags: str = "") -> Reply:
        path = f"{MAPS}/{name}?fieldManager={manager}{flags}"
        return twins.behind(side).request("PATCH", path, body=config_map(name, key=value), content_type=APPLY_PATCH)

    assert apply("ours", "one", "1").status == 201
    refused = apply("theirs", "two", "2")
    assert refused.status == 409
    assert apply("ours", "two", "2").json["details"] == refused.json["details"]
    assert apply("ours", "two", "2", "&force=true").json["data"] == {"key": "2"}
    # Upstream's library refuses what it takes for its own options; ours has none.
    assert apply("ours", "one", "3", "&force=true&dryRun=All").json["data"] == {"key": "3"}
    assert twins.behind("ours").get(f"{MAPS}/{name}").json["data"] == {"key": "2"}


def test_watches_tell_the_same(twins: Twins) -> None:
    prefix = f"watched-{next(_numbers)}"
    selector = f"labelSelector=watched%3D{prefix}"
    revision = twins.behind("ours").get(f"{MAPS}?{selector}").expect(200)["metadata"]["resourceVersion"]
    direct = twins.spoke.client()
    for number in range(3):
        one = config_map(f"{prefix}-{number}", n=str(number))
        one["metadata"]["labels"] = {"watched": prefix}
        direct.post(MAPS, one).expect(201)
        direct.delete(f"{MAPS}/{prefix}-{number}").expect(200)
    query = f"{MAPS}?watch=1&{selector}&resourceVersion={revision}&timeoutSeconds=3"
    ours, theirs = twins.both("GET", query)
    events = [orjson.loads(line) for line in ours.body.splitlines()]
    assert [one["type"] for one in events] == ["ADDED", "DELETED"] * 3
    assert events == [orjson.loads(line) for line in theirs.body.splitlines()]
    gone, also = twins.both("GET", f"{MAPS}?watch=1&{selector}&resourceVersion=1&timeoutSeconds=1")
    assert gone.body == also.body


def test_kubectl_sees_the_same(twins: Twins, tmp_path: Path) -> None:
    seen = []
    for side, path in BOTH.items():
        directory = tmp_path / side
        directory.mkdir()
        behind = Cluster(side, f"{twins.plane.url}{path}/foo/proxy", twins.plane.ca, directory / "kubeconfig")
        outcome = kubectl(behind, "get", "namespaces,clusterroles", "-o", "name", user=USERS["admin"].token)
        assert outcome.code == 0, outcome.err
        seen.append(outcome.out)
    assert seen[0] == seen[1]


def test_both_know_the_same_clusters(twins: Twins) -> None:
    ours, theirs = (twins.admin.get(path).expect(200)["items"] for path in BOTH.values())
    assert [one["metadata"]["name"] for one in ours] == [one["metadata"]["name"] for one in theirs]
    credentials = [one["spec"]["access"]["credential"]["type"] for one in (*ours, *theirs)]
    assert credentials == ["ServiceAccountToken"] * 2
    assert not orjson.dumps(ours).count(b"eyJ"), "ours shows no token"


def test_a_cluster_that_comes_and_goes(twins: Twins) -> None:
    name = f"late-{next(_numbers)}"
    register(twins, name, twins.spoke, account(twins.spoke))
    ours, theirs = twins.both("GET", "/api/v1/namespaces/kube-system", name)
    assert ours.body == theirs.body
    twins.admin.delete(f"{SECRETS}/{name}").expect(200)
    wait_for(lambda: twins.behind("ours", name).get("/version").status in (404, 503), "ours to forget it")
    wait_for(lambda: twins.behind("theirs", name).get("/version").status != 200, "theirs to forget it")
    twins.admin.delete(f"{MANAGED_CLUSTERS}/{name}")


def test_a_new_token_is_used_by_both(twins: Twins) -> None:
    name = f"renewed-{next(_numbers)}"
    register(twins, name, twins.spoke, "not-a-token", wait=False)
    await_status(twins, "ours", name, "/api/v1/namespaces", 503)
    await_status(twins, "theirs", name, "/api/v1/namespaces", 401)
    data = base64_of({"token": account(twins.spoke)})
    twins.admin.request("PATCH", f"{SECRETS}/{name}", body={"data": data}, content_type=MERGE_PATCH).expect(200)
    for side in BOTH:
        await_status(twins, side, name, "/api/v1/namespaces", 200)
    twins.admin.delete(f"{SECRETS}/{name}").expect(200)
    twins.admin.delete(f"{MANAGED_CLUSTERS}/{name}")


def test_the_hub_refuses_alike(twins: Twins) -> None:
    ours, theirs = twins.both("GET", "/api/v1/namespaces", user="mallory")
    assert (ours.status, theirs.status) == (403, 403)
    assert ours.json["message"].replace(GROUP, upstream.GROUP) == theirs.json["message"]


def test_upstreams_client_library_through_ours(twins: Twins, tmp_path: Path) -> None:
    """Through upstream's gateway first; then ours takes its place, under its name."""
    system = [
        client.get("/api/v1/namespaces/kube-system").json["metadata"]["uid"] for client in (twins.admin, twins.spoke.client())
    ]
    assert system[0] != system[1]
    through_theirs = run_client(twins)
    twins.theirs.uninstall()
    wait_for(lambda: twins.admin.get(upstream.GATEWAYS).status == 404, "upstream's API to go")
    twins.ours.stop()
    twins.ours = GatewayHub(twins.plane.cluster, tmp_path / "taken", "--oam-api")
    twins.ours.install()
    twins.ours.start()
    twins.ours.wait_reply(lambda: twins.admin.get(upstream.GATEWAYS), "our API under upstream's name", 200, timeout=60)
    wait_for(lambda: twins.behind("theirs").get("/version").status == 200, "foo behind ours, under upstream's name")
    through_ours = run_client(twins)
    assert through_ours == through_theirs
    assert through_ours["hub"] == system[0]
    assert [through_ours[way] for way in ("context", "prepend", "rest")] == [system[1]] * 3
    assert through_ours["events"] == ["ADDED through-the-gateway", "DELETED through-the-gateway"]
    assert (through_ours["applied"], through_ours["notFound"], through_ours["tripper"]) == ("hello", True, 200)


def run_client(twins: Twins) -> Document:
    command: list[str | Path] = [upstream.programs()[1], f"--kubeconfig={twins.plane.kubeconfig}", "--cluster=foo"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)
    assert done.returncode == 0, done.stderr
    return dict(orjson.loads(done.stdout))
