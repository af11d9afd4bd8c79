"""Deployments, ReplicaSets and endpoints of embedded clusters beside the real controllers: the same steps, the same states.

Nobody runs the pods: the test plays kubelet by writing their status, so what is compared is the controllers alone. Hashes, names
and times are masked.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.support import kube_flags
from tests.support.client import STRATEGIC_PATCH, Client
from tests.support.node_planes import NodePlane
from tests.support.planes import ControlPlane, KubePlane

pytestmark = [pytest.mark.kube, pytest.mark.timeout(300)]
APPS, CORE, DISCOVERY = "/apis/apps/v1", "/api/v1", "/apis/discovery.k8s.io/v1"
READY = {
    "phase": "Running",
    "podIP": "10.9.9.9",
    "podIPs": [{"ip": "10.9.9.9"}],
    "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
}


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ControlPlane, ControlPlane]]:
    wanted = ("deployment-controller", "replicaset-controller", "endpointslice-controller", "endpoints-controller")
    patch = pytest.MonkeyPatch()
    patch.setattr(kube_flags, "CONTROLLERS", (*kube_flags.CONTROLLERS, *wanted))
    planes: list[ControlPlane] = [NodePlane(tmp_path_factory.mktemp("ours")), KubePlane(tmp_path_factory.mktemp("theirs"))]
    try:
        for plane in planes:
            plane.start()
        yield planes[0], planes[1]
    finally:
        patch.undo()
        for plane in planes:
            plane.stop(kill=True)


class Play:
    """One scenario on one plane: steps change things, `settle` notes the state once nothing moves any more."""

    def __init__(self, plane: ControlPlane, name: str, quiet: float) -> None:
        self.client: Client = plane.client()
        self.namespace = f"parity-{name}"
        self.noted: list[Any] = []
        self._quiet = quiet
        self.client.post(f"{CORE}/namespaces", {"metadata": {"name": self.namespace}}).expect(201)
        self.client.post(f"{CORE}/nodes", {"metadata": {"name": "far"}}).expect(201, 409)
        while self.client.get(f"{CORE}/namespaces/{self.namespace}/serviceaccounts/default").status != 200:
            time.sleep(0.05)

    def path(self, prefix: str, plural: str, name: str = "") -> str:
        return f"{prefix}/namespaces/{self.namespace}/{plural}" + (f"/{name}" if name else "")

    def items(self, prefix: str, plural: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.client.get(self.path(prefix, plural)).expect(200)["items"]
        return found

    def deploy(self, **spec: Any) -> None:
        labels = {"app": "web"}
        containers = [{"name": "c", "image": "example/app:1", "ports": [{"name": "http", "containerPort": 8080}]}]
        template = {"metadata": {"labels": labels}, "spec": {"containers": containers, "schedulerName": "nobody"}}
        wanted = {"selector": {"matchLabels": labels}, "template": template, **spec}
        body = {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "web", "annotations": {"a": "b"}},
            "spec": wanted,
        }
        self.client.post(self.path(APPS, "deployments"), body).expect(201)

    def change(self, **spec: Any) -> None:
        path = self.path(APPS, "deployments", "web")
        self.client.patch(path, {"spec": spec}, STRATEGIC_PATCH).expect(200)

    def template(self, version: int, **spec: Any) -> None:
        self.change(template={"spec": {"containers": [{"name": "c", "image": f"example/app:{version}"}]}}, **spec)

    def bind(self) -> None:
        """Every pod to a node nobody runs, so that deletion takes its time."""
        for pod in self.items(CORE, "pods"):
            if not pod["spec"].get("nodeName"):
                name = pod["metadata"]["name"]
                target = {
                    "apiVersion": "v1",
                    "kind": "Binding",
                    "metadata": {"name": name},
                    "target": {"kind": "Node", "name": "far"},
                }
                self.client.post(self.path(CORE, "pods", f"{name}/binding"), target).expect(201)

    def ready(self) -> None:
        for pod in self.items(CORE, "pods"):
            path = self.path(CORE, "pods", f"{pod['metadata']['name']}/status")
            self.client.patch(path, {"status": READY}).expect(200, 404)

    def finish(self) -> None:
        """Pods that were asked to end do."""
        for pod in self.items(CORE, "pods"):
            if pod["metadata"].get("deletionTimestamp"):
                self.client.delete(self.path(CORE, "pods", pod["metadata"]["name"]), {"gracePeriodSeconds": 0}).expect(200, 404)

    def settle(self) -> None:
        state, since = self.state(), time.monotonic()
        deadline = since + 60
        while time.monotonic() - since < self._quiet:
            assert time.monotonic() < deadline, f"it never rests: {state}"
            time.sleep(0.05)
            now = self.state()
            if now != state:
                state, since = now, time.monotonic()
        self.noted.append(state)

    def roll(self) -> None:
        """Until the rollout has come to its end, with every new pod ready at once; only the end is noted."""
        before: Any = None
        while True:
            self.ready()
            self.settle()
            reached = self.noted.pop()
            if reached == before:
                self.noted.append(reached)
                return
            before = reached

    def state(self) -> Any:
        sets = sorted(
            self.items(APPS, "replicasets"), key=lambda each: (each["metadata"]["creationTimestamp"], each["metadata"]["name"])
        )
        hashes = {each["metadata"]["labels"]["pod-template-hash"]: image(each) for each in sets}
        state = {
            "deployments": [shown(each) for each in self.items(APPS, "deployments")],
            "sets": [shown_set(each) for each in sets],
            "pods": [shown_pod(each) for each in self.items(CORE, "pods")],
            "slices": [shown_slice(each) for each in self.items(DISCOVERY, "endpointslices")],
            "endpoints": [{key: each.get(key) for key in ("subsets",)} for each in self.items(CORE, "endpoints")],
        }
        seen: dict[str, list[Any]] = masked(state, hashes)
        return {kind: sorted(each, key=str) for kind, each in seen.items()}


def image(obj: dict[str, Any]) -> str:
    return str(obj["spec"]["template"]["spec"]["containers"][0]["image"])


def shown(obj: dict[str, Any]) -> Any:
    meta = obj["metadata"]
    return {
        "name": meta["name"],
        "labels": meta.get("labels"),
        "annotations": meta.get("annotations"),
        "generation": meta.get("generation"),
        "finalizers": meta.get("finalizers"),
        "owners": [{**owner, "uid": ""} for owner in meta.get("ownerReferences") or ()],
        "spec": obj["spec"],
        "status": obj.get("status"),
    }


def shown_set(obj: dict[str, Any]) -> Any:
    """In how many writes a set came to its size is a matter of timing; that the last was seen is not."""
    seen = shown(obj)
    generation, status = seen.pop("generation"), dict(seen["status"] or {})
    return {**seen, "status": status, "observed": status.pop("observedGeneration", 0) == generation}


def shown_pod(obj: dict[str, Any]) -> Any:
    meta = obj["metadata"]
    owners = [{**owner, "uid": ""} for owner in meta.get("ownerReferences") or ()]
    leaving = bool(meta.get("deletionTimestamp"))
    generated = [meta.get("generateName"), meta.get("labels"), meta.get("annotations"), owners, leaving]
    return [*generated, obj["spec"]["containers"][0]["image"]]


def shown_slice(obj: dict[str, Any]) -> Any:
    kept = {key: obj["metadata"].get(key) for key in ("generateName", "labels")}
    owners = [{**owner, "uid": ""} for owner in obj["metadata"].get("ownerReferences") or ()]
    return {**kept, "owners": owners, "addressType": obj["addressType"], "endpoints": obj["endpoints"], "ports": obj["ports"]}


def masked(state: Any, hashes: dict[str, str]) -> Any:
    """Without times, uids, names of pods, and with each hash replaced by the image of its template."""
    if isinstance(state, dict):
        return {
            key: "…" if key in ("lastUpdateTime", "lastTransitionTime", "uid", "resourceVersion") else masked(value, hashes)
            for key, value in state.items()
            if key not in ("endpoints.kubernetes.io/last-change-trigger-time", "creationTimestamp")
        }
    if isinstance(state, list):
        return [masked(each, hashes) for each in state]
    if isinstance(state, str):
        for found, name in hashes.items():
            state = state.replace(found, f"<{name}>")
        return re.sub(r"(web-<[^>]+>)-[a-z0-9]{5}\b", r"\1-…", state)
    return state


def rolling(play: Play) -> None:
    play.deploy(replicas=3, strategy={"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}})
    play.settle()
    play.roll()
    play.template(2)
    play.settle()
    play.roll()
    play.template(1)
    play.settle()
    play.roll()


def scaling(play: Play) -> None:
    play.deploy(replicas=1)
    play.roll()
    play.change(replicas=4)
    play.settle()
    play.roll()
    play.change(replicas=0)
    play.settle()
    play.change(replicas=2, minReadySeconds=1)
    play.roll()


def rescaling_amid_a_rollout(play: Play) -> None:
    play.deploy(replicas=8, strategy={"rollingUpdate": {"maxSurge": 3, "maxUnavailable": 2}})
    play.roll()
    play.template(2)
    play.settle()
    play.change(replicas=16)
    play.settle()
    play.template(3)
    play.settle()
    play.change(replicas=5)
    play.settle()
    play.roll()


def pausing(play: Play) -> None:
    play.deploy(replicas=2)
    play.roll()
    play.template(2, paused=True)
    play.settle()
    play.change(replicas=3)
    play.settle()
    play.roll()
    play.change(paused=False)
    play.settle()
    play.roll()


def recreating(play: Play) -> None:
    play.deploy(replicas=2, strategy={"type": "Recreate"})
    play.settle()
    play.bind()
    play.roll()
    play.template(2)
    play.settle()
    play.finish()
    play.settle()
    play.roll()


def history(play: Play) -> None:
    play.deploy(replicas=1, revisionHistoryLimit=1)
    for version in (2, 3, 4):
        play.roll()
        play.template(version)
    play.roll()


def stalling(play: Play) -> None:
    play.deploy(replicas=1, progressDeadlineSeconds=2)
    play.settle()
    time.sleep(3)
    play.settle()
    play.roll()


def serving(play: Play) -> None:
    service = {
        "metadata": {"name": "web", "labels": {"team": "a"}},
        "spec": {"selector": {"app": "web"}, "ports": [{"name": "web", "port": 80, "targetPort": "http"}], "clusterIP": "None"},
    }
    play.client.post(play.path(CORE, "services"), service).expect(201)
    play.settle()
    play.deploy(replicas=1)
    play.settle()
    play.bind()
    play.ready()
    play.settle()
    play.change(replicas=0)
    play.settle()
    play.finish()
    play.settle()
    play.client.delete(play.path(CORE, "services", "web")).expect(200)
    play.settle()


def failing(play: Play) -> None:
    play.deploy(replicas=1)
    play.roll()
    play.change(template={"spec": {"serviceAccountName": "nobody", "containers": [{"name": "c", "image": "example/app:2"}]}})
    play.settle()


def differences(ours: Any, theirs: Any, path: str = "") -> Iterator[str]:
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key in sorted({*ours, *theirs}):
            yield from differences(ours.get(key), theirs.get(key), f"{path}.{key}")
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for index, pair in enumerate(zip(ours, theirs, strict=True)):
            yield from differences(*pair, f"{path}[{index}]")
    elif isinstance(ours, list) and isinstance(theirs, list) and path == "":
        yield f"{len(ours)} states of ours, {len(theirs)} of theirs"
        for index, pair in enumerate(zip(ours, theirs, strict=False)):
            yield from differences(*pair, f"{path}[{index}]")
    elif ours != theirs:
        yield f"{path}: ours {ours!r:.300}, theirs {theirs!r:.300}"


SCENARIOS: list[Callable[[Play], None]] = [
    rolling,
    scaling,
    rescaling_amid_a_rollout,
    pausing,
    recreating,
    history,
    stalling,
    serving,
    failing,
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__.replace("_", "-"))
def test_workloads_go_the_same_way_as_with_the_real_controllers(
    both: tuple[ControlPlane, ControlPlane], scenario: Callable[[Play], None]
) -> None:
    # On a busy machine the real controllers may be silent for a while and not be done yet: what differs is played again, slower.
    found = played(both, scenario, "", 1.2) and played(both, scenario, "-slower", 5.0)
    assert not found, "\n".join(found)


def played(both: tuple[ControlPlane, ControlPlane], scenario: Callable[[Play], None], suffix: str, quiet: float) -> list[str]:
    """In what the states differ."""
    ours, theirs = (Play(plane, f"{scenario.__name__.replace('_', '-')}{suffix}", quiet) for plane in both)
    with ThreadPoolExecutor(2) as pool:
        for one in [pool.submit(scenario, play) for play in (ours, theirs)]:
            one.result()
    return list(differences(ours.noted, theirs.noted))
