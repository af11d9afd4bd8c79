"""Deployments, ReplicaSets and endpoints of embedded clusters beside the real controllers: the same steps, the same states.

Hashes, names and times are masked.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.client import STRATEGIC_PATCH
from tests.support.parity import APPS, CORE, DISCOVERY, Play, image, played, shown, shown_pod, side_by_side
from tests.support.planes import ControlPlane

pytestmark = [pytest.mark.kube, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ControlPlane, ControlPlane]]:
    wanted = ("deployment-controller", "replicaset-controller", "endpointslice-controller", "endpoints-controller")
    yield from side_by_side(tmp_path_factory.mktemp, wanted)


class DeploymentPlay(Play):
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


def shown_set(obj: dict[str, Any]) -> Any:
    """In how many writes a set came to its size is a matter of timing; that the last was seen is not."""
    seen = shown(obj)
    generation, status = seen.pop("generation"), dict(seen["status"] or {})
    return {**seen, "status": status, "observed": status.pop("observedGeneration", 0) == generation}


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


def rolling(play: DeploymentPlay) -> None:
    play.deploy(replicas=3, strategy={"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}})
    play.settle()
    play.roll()
    play.template(2)
    play.settle()
    play.roll()
    play.template(1)
    play.settle()
    play.roll()


def scaling(play: DeploymentPlay) -> None:
    play.deploy(replicas=1)
    play.roll()
    play.change(replicas=4)
    play.settle()
    play.roll()
    play.change(replicas=0)
    play.settle()
    play.change(replicas=2, minReadySeconds=1)
    play.roll()


def rescaling_amid_a_rollout(play: DeploymentPlay) -> None:
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


def pausing(play: DeploymentPlay) -> None:
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


def recreating(play: DeploymentPlay) -> None:
    play.deploy(replicas=2, strategy={"type": "Recreate"})
    play.settle()
    play.bind()
    play.roll()
    play.template(2)
    play.settle()
    play.finish()
    play.settle()
    play.roll()


def history(play: DeploymentPlay) -> None:
    play.deploy(replicas=1, revisionHistoryLimit=1)
    for version in (2, 3, 4):
        play.roll()
        play.template(version)
    play.roll()


def stalling(play: DeploymentPlay) -> None:
    play.deploy(replicas=1, progressDeadlineSeconds=2)
    play.settle()
    time.sleep(3)
    play.settle()
    play.roll()


def serving(play: DeploymentPlay) -> None:
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


def failing(play: DeploymentPlay) -> None:
    play.deploy(replicas=1)
    play.roll()
    play.change(template={"spec": {"serviceAccountName": "nobody", "containers": [{"name": "c", "image": "example/app:2"}]}})
    play.settle()


SCENARIOS: list[Callable[[DeploymentPlay], None]] = [
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
    both: tuple[ControlPlane, ControlPlane], scenario: Callable[[DeploymentPlay], None]
) -> None:
    found = played(both, DeploymentPlay, scenario)
    assert not found, "\n".join(found)
