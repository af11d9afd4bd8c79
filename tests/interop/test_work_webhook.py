"""Admission of works beside upstream: the same reviews get the same answers but where ours are stricter on purpose, and the Go work
agent holds, reports and lets go its works on a hub with our webhook.

Upstream's webhook server has two ports that no flag changes (8000, 8080); where they are taken, there is nothing to compare with.
"""

from __future__ import annotations

import base64
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pytest

from muster.runtime.client.builtin import CONFIG_MAPS, VALIDATING_WEBHOOKS
from muster.runtime.client.errors import StatusError
from muster.work.hub.install import WORK_VALIDATOR
from tests.interop.ocm import AGENT_NAMESPACE, Fleet, install, work
from tests.support import peers
from tests.support.administrator import HUB_NAMESPACE, RBAC, read_secret, service_account_token
from tests.support.client import Client
from tests.support.pki import Authority
from tests.support.planes import Cluster, ControlPlane, chosen, write_kubeconfig
from tests.support.processes import Server, free_ports
from tests.support.work_hub import WORK_GROUP, WorkHub, works
from tests.support.working import Workplace
from tests.support.working import config_map as work_config_map

Document = dict[str, Any]
PATH = "/validate-work-open-cluster-management-io-v1-manifestwork"
FIXED_PORTS = (8000, 8080)
GATE = "NilExecutorValidating=true"


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    ground = chosen(tmp_path_factory.mktemp("work-webhook"), "upstreams")
    ground.start()
    yield ground
    ground.stop(kill=True)


@pytest.fixture(scope="module")
def installed(ground: ControlPlane) -> WorkHub:
    hub = WorkHub(ground.cluster, ground.directory / "work-hub")
    hub.install()
    hub.namespace("cluster1")
    rule = {"apiGroups": [WORK_GROUP], "resources": ["manifestworks"], "verbs": ["execute-as"]}
    named = {**rule, "resourceNames": ["system:serviceaccount:sa-ns:allowed", "system:serviceaccount::klusterlet-work-sa"]}
    hub.let("executes", {"kind": "User", "name": "dave"}, [named], "cluster1")
    return hub


def taken(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError:
            return True
    return False


@dataclass(frozen=True)
class Pair:
    """Our webhook and upstream's, asked the same."""

    ours: Client
    upstream: Client

    def ask(self, review: Document) -> tuple[Document, Document]:
        """As an API server in Go asks: its JSON has no `<`, `>` and `&`."""
        written = orjson.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": review})
        for character in b"<>&":
            written = written.replace(bytes([character]), f"\\u{character:04x}".encode())
        ours, upstream = (self._answer(client, written) for client in (self.ours, self.upstream))
        return ours, upstream

    @staticmethod
    def _answer(client: Client, review: bytes) -> Document:
        return dict(client.post(PATH, review, content_type="application/json").expect(200)["response"])


@contextmanager
def upstream_webhook(cluster: Cluster, directory: Path, *flags: str) -> Iterator[tuple[str, Path]]:
    """Upstream's server for a hub: where it is, and whom to trust there."""
    if busy := [port for port in FIXED_PORTS if taken(port)]:
        pytest.skip(f"upstream's webhook server needs port {busy[0]}, which is taken")
    directory.mkdir()
    authority = Authority(directory, "ca")
    issued = authority.issue("webhook", hosts=("127.0.0.1",))
    (directory / "tls.crt").write_bytes(issued.cert.read_bytes())
    (directory / "tls.key").write_bytes(issued.key.read_bytes())
    (port,) = free_ports(1)
    command: list[str | Path] = [peers.need("work"), "webhook-server", f"--port={port}", f"--certdir={directory}"]
    kubeconfig = f"--kubeconfig={cluster.kubeconfig}"
    server = Server("upstream's webhook", [*command, kubeconfig, *flags], directory / "webhook.log", {"KUBECONFIG": ""})
    server.start()
    url = f"https://127.0.0.1:{port}"
    try:
        server.wait_until(lambda: answers(Client(url, ca=authority.pair.cert)), 60)
        yield url, authority.pair.cert
    finally:
        server.stop(timeout=5)


@pytest.fixture(scope="module", params=["", GATE])
def pair(request: pytest.FixtureRequest, installed: WorkHub, ground: ControlPlane) -> Iterator[Pair]:
    flags = [f"--feature-gates={request.param}"] if request.param else []
    directory = ground.directory / f"upstream-{bool(request.param)}"
    with upstream_webhook(installed.cluster, directory, *flags) as (url, ca):
        # In the place of an API server that shows a certificate.
        authority = Authority(directory, "client-ca")
        shown = authority.issue("apiserver")
        installed.start(*flags, f"--webhook-client-ca-file={authority.pair.cert}", "--webhook-client-name=apiserver")
        address, trusted = f"https://127.0.0.1:{installed.webhook_port}", our_ca(installed, directory)
        assert Client(address, ca=trusted).post(PATH, {}).status == 401
        ours = Client(address, ca=trusted, certificate=(shown.cert, shown.key))
        yield Pair(ours, Client(url, ca=ca))
        installed.stop()


def answers(client: Client) -> bool:
    try:
        return client.get(PATH).status > 0
    except OSError:
        client.close()
        return False


def our_ca(hub: WorkHub, directory: Path) -> Path:
    path = directory / "ours.crt"
    path.write_bytes(read_secret(hub.admin, HUB_NAMESPACE, "work-webhook-serving-cert")["ca.crt"])
    return path


@pytest.mark.timeout(180)
async def test_our_work_agent_lives_with_upstreams_webhook(ground: ControlPlane) -> None:
    """A work comes, changes and goes. Comes first in this file: later tests keep upstream's ports."""
    cluster = ground.extra("upstreams")
    with upstream_webhook(cluster, ground.directory / "upstream-alone") as (url, ca):
        place = Workplace(cluster)
        await place.prepare()
        rule = {"apiGroups": [WORK_GROUP], "apiVersions": ["*"], "resources": ["manifestworks"], "operations": ["CREATE", "UPDATE"]}
        hook = {
            "name": WORK_VALIDATOR,
            "rules": [rule],
            "clientConfig": {"url": f"{url}{PATH}", "caBundle": base64.b64encode(ca.read_bytes()).decode()},
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
        }
        await place.admin.create(VALIDATING_WEBHOOKS, {"metadata": {"name": WORK_VALIDATOR}, "webhooks": [hook]})
        await place.wait(lambda: refuses(place), "upstream's webhook to be asked")
        async with place.agent():
            await place.create("judged", work_config_map("judged", place.namespace, a="1"))
            await place.wait_applied("judged")
            assert await place.data("judged") == {"a": "1"}
            await place.change("judged", work_config_map("judged", place.namespace, a="2"))
            await place.wait(lambda: has(place, {"a": "2"}), "the change on the managed cluster")
            await place.delete("judged")
            await place.wait_gone("judged")
        assert await place.find(CONFIG_MAPS, "judged", place.namespace) is None
        await place.admin.delete(VALIDATING_WEBHOOKS, WORK_VALIDATOR)
        await place.close()


async def refuses(place: Workplace) -> bool:
    """Whether a work without manifests is refused in upstream's words."""
    try:
        await place.create("empty")
    except StatusError as error:
        return "manifests should not be empty" in str(error)
    await place.delete("empty")
    return False


async def has(place: Workplace, data: dict[str, str]) -> bool:
    return await place.data("judged") == data


def config_map(name: str = "cm1", **content: Any) -> Document:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "app"}, **content}


def executor(name: str) -> Document:
    return {"subject": {"type": "ServiceAccount", "serviceAccount": {"namespace": "sa-ns", "name": name}}}


def spec(*manifests: Document, runs_as: str = "", **more: Any) -> Document:
    named: Document = {"executor": executor(runs_as)} if runs_as else {}
    return {"workload": {"manifests": list(manifests)}, **named, **more}


def review(user: str, new: Document, old: Document | None = None) -> Document:
    kind = {"apiVersion": f"{WORK_GROUP}/v1", "kind": "ManifestWork", "metadata": {"name": "w", "namespace": "cluster1"}}
    resource = {"group": WORK_GROUP, "version": "v1", "resource": "manifestworks"}
    return {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "kind": {"group": WORK_GROUP, "version": "v1", "kind": "ManifestWork"},
        "resource": resource,
        "requestKind": {"group": WORK_GROUP, "version": "v1", "kind": "ManifestWork"},
        "requestResource": resource,
        "name": "w",
        "namespace": "cluster1",
        "operation": "CREATE" if old is None else "UPDATE",
        "userInfo": {"username": user, "uid": "1", "groups": ["system:authenticated"], "extra": {"a.b/c": ["d"]}},
        "object": {**kind, "spec": new},
        "oldObject": None if old is None else {**kind, "spec": old},
        "dryRun": False,
        "options": None,
    }


def sized(total: int, character: str = "a", length: int = 1) -> Document:
    """Counts as `total`, if a character counts as `length`."""
    bare = len('{"apiVersion":"v1","data":{"x":""},"kind":"ConfigMap","metadata":{"name":"cm1","namespace":"app"}}')
    count, rest = divmod(total - 4 - bare, length)
    return config_map(data={"x": character * count + "b" * rest})


NAMELESS = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "app"}}
ONE = config_map()
TWO = config_map("cm2")
ALIKE: dict[str, Document] = {
    "a work without manifests": review("dave", spec()),
    "a work without anything": review("dave", {}),
    "a plain work of somebody without rights": review("bob", spec(ONE)),
    "a plain work of somebody with rights": review("dave", spec(ONE)),
    "an executor that is allowed": review("dave", spec(ONE, runs_as="allowed")),
    "an executor that is not": review("dave", spec(ONE, runs_as="other")),
    "an executor of somebody without rights": review("bob", spec(ONE, runs_as="allowed")),
    "an executor without account": review("dave", spec(ONE, executor={"subject": {"type": "ServiceAccount"}})),
    "no name": review("dave", spec(ONE, NAMELESS)),
    "a generated name": review("dave", spec({**NAMELESS, "metadata": {"generateName": "a-"}})),
    "a generated name beside a name": review("dave", spec({**NAMELESS, "metadata": {"name": "a", "generateName": "a-"}})),
    "a duplicate": review("dave", spec(ONE, TWO, config_map(data={"a": "b"}))),
    "a duplicate of a cluster's own": review("dave", spec(*({**ONE, "metadata": {"name": "a"}} for _ in range(2)))),
    "two versions of one": review("dave", spec(ONE, {**ONE, "apiVersion": "v2"})),
    "as large as allowed": review("dave", spec(sized(512_000))),
    "a byte too large": review("dave", spec(sized(512_001))),
    "as large as allowed when escaped": review("dave", spec(sized(512_000, "<", 6))),
    "a byte too large when escaped": review("dave", spec(sized(512_001, "&", 6))),
    "too large together": review("dave", spec(sized(300_000), {**sized(300_000), "kind": "Secret"})),
    "nothing changes": review("bob", spec(ONE, runs_as="allowed"), spec(ONE, runs_as="allowed")),
    "manifests change and the writer may": review("dave", spec(TWO, runs_as="allowed"), spec(ONE, runs_as="allowed")),
    "an executor comes": review("bob", spec(ONE, runs_as="allowed"), spec(ONE)),
    "an executor comes that is allowed": review("dave", spec(ONE, runs_as="allowed"), spec(ONE)),
    "an executor goes of one who may": review("dave", spec(ONE), spec(ONE, runs_as="allowed")),
    "another executor that is not allowed": review("dave", spec(ONE, runs_as="other"), spec(ONE, runs_as="allowed")),
}


@pytest.mark.timeout(180)
@pytest.mark.parametrize("case", ALIKE)
def test_the_same_review_gets_the_same_answer(pair: Pair, case: str) -> None:
    ours, upstream = pair.ask(ALIKE[case])
    assert ours["allowed"] == upstream["allowed"], upstream
    if not upstream["allowed"]:
        for field in ("code", "reason"):
            assert ours["status"].get(field) == upstream["status"].get(field)
        assert ours["status"]["message"].startswith(upstream["status"]["message"])


CANNOT = "user bob cannot manipulate the Manifestwork with executor sa-ns/allowed in namespace cluster1"
STRICTER: dict[str, tuple[Document, str]] = {
    "manifests change under an executor": (review("bob", spec(TWO, runs_as="allowed"), spec(ONE, runs_as="allowed")), CANNOT),
    "an empty executor": (review("dave", spec(ONE, executor={})), "the executor is malformed: spec.executor.subject is missing"),
    "a path that cannot be parsed": (
        review(
            "dave",
            spec(
                ONE,
                runs_as="allowed",
                manifestConfigs=[
                    {
                        "resourceIdentifier": {"resource": "configmaps", "name": "cm1"},
                        "feedbackRules": [{"type": "JSONPaths", "jsonPaths": [{"name": "a", "path": ".x["}]}],
                    }
                ],
            ),
        ),
        "spec.manifestConfigs[0].feedbackRules[0].jsonPaths[0].path: '.x[' is no JSONPath: unterminated array",
    ),
}


@pytest.mark.timeout(180)
@pytest.mark.parametrize("case", STRICTER)
def test_where_ours_is_stricter_it_says_why(pair: Pair, case: str) -> None:
    asked, text = STRICTER[case]
    ours, upstream = pair.ask(asked)
    assert ours["status"] == {"status": "Failure", "code": 400, "reason": "BadRequest", "message": text}
    assert upstream["allowed"] or upstream["status"]["code"] == 500, "upstream judges this by now: move it to ALIKE"


@pytest.mark.timeout(180)
def test_what_was_wrong_before_can_be_changed_elsewhere_only_with_ours(pair: Pair) -> None:
    twice = spec(ONE, ONE, runs_as="allowed")
    ours, upstream = pair.ask(review("dave", {**twice, "deleteOption": {"propagationPolicy": "Orphan"}}, twice))
    assert ours["allowed"]
    assert not upstream["allowed"], "upstream judges only what changes by now: move it to ALIKE"


@pytest.mark.timeout(180)
def test_upstreams_work_agent_lives_with_our_webhook_even_while_it_is_away(installed: WorkHub, ground: ControlPlane) -> None:
    """One cluster is hub and managed cluster; the agent has the hub's rights of an agent and no more."""
    if installed.process is not None:
        # Whoever answers reviews that tests write themselves knows another certificate than the API server's.
        installed.stop()
    installed.start()
    admin = installed.admin
    fleet = Fleet(ground.cluster, ground.cluster, ground.directory / "go-agent", "cluster1")
    install(fleet.spoke_admin, "agent", AGENT_NAMESPACE)
    admin.post("/api/v1/namespaces/cluster1/serviceaccounts", {"metadata": {"name": "agent"}}).expect(201)
    rules = [
        {"apiGroups": [WORK_GROUP], "resources": ["manifestworks"], "verbs": ["get", "list", "watch", "update", "patch"]},
        {"apiGroups": [WORK_GROUP], "resources": ["manifestworks/status"], "verbs": ["update", "patch"]},
        {"apiGroups": ["", "events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch", "update"]},
    ]
    admin.post(f"{RBAC}/namespaces/cluster1/roles", {"metadata": {"name": "agent"}, "rules": rules}).expect(201)
    subject = {"kind": "ServiceAccount", "name": "agent", "namespace": "cluster1"}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "agent"}
    binding = {"metadata": {"name": "agent"}, "roleRef": reference, "subjects": [subject]}
    admin.post(f"{RBAC}/namespaces/cluster1/rolebindings", binding).expect(201)
    (fleet.directory / "hub-kubeconfig").mkdir()
    token = service_account_token(admin, "cluster1", "agent")
    write_kubeconfig(fleet.directory / "hub-kubeconfig" / "kubeconfig", ground.cluster.url, ground.cluster.ca, {"token": token})
    fleet.start_work_agent()
    installed.servers += fleet.servers
    try:
        path = works("cluster1", "hello")
        installed.wait(lambda: admin.post(works("cluster1"), {}).status in (400, 422), "the webhook to be called")
        admin.post(works("cluster1"), work("good day", "judged")).expect(201)
        installed.wait(lambda: fleet.delivered("judged") == "good day", "the ConfigMap on the managed cluster", 60)
        installed.wait(lambda: applied(admin.get(path).json), "the agent's report", 60)

        installed.stop()
        admin.delete(path).expect(200)

        installed.wait(lambda: admin.get(path).status == 404, "the work to be let go while the webhook is away", 60)
        assert fleet.delivered("judged") is None
    finally:
        fleet.stop()


def applied(document: Document) -> bool:
    conditions = document.get("status", {}).get("conditions") or []
    return any(one["type"] == "Applied" and one["status"] == "True" for one in conditions)
