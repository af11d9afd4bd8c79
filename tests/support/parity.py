"""Two control planes beside each other, taken through the same steps by a play: their states have to be the same after each.

Nobody runs the pods: the play is kubelet, by writing their status, so what is compared is controllers alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tests.support import kube_flags
from tests.support.client import Client
from tests.support.node_planes import NodePlane
from tests.support.planes import ControlPlane, KubePlane

APPS, CORE, BATCH, DISCOVERY = "/apis/apps/v1", "/api/v1", "/apis/batch/v1", "/apis/discovery.k8s.io/v1"
READY = {
    "phase": "Running",
    "podIP": "10.9.9.9",
    "podIPs": [{"ip": "10.9.9.9"}],
    "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
}


def side_by_side(directory: Callable[[str], Path], controllers: Sequence[str]) -> Iterator[tuple[ControlPlane, ControlPlane]]:
    """Ours, and the real one with these of its controllers."""
    patch = pytest.MonkeyPatch()
    patch.setattr(kube_flags, "CONTROLLERS", (*kube_flags.CONTROLLERS, *controllers))
    planes: list[ControlPlane] = [NodePlane(directory("ours")), KubePlane(directory("theirs"))]
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
        """What is compared, without what is another on every cluster."""
        raise NotImplementedError


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


def shown_pod(obj: dict[str, Any]) -> Any:
    meta = obj["metadata"]
    owners = [{**owner, "uid": ""} for owner in meta.get("ownerReferences") or ()]
    leaving = bool(meta.get("deletionTimestamp"))
    generated = [meta.get("generateName"), meta.get("labels"), meta.get("annotations"), owners, leaving]
    return [*generated, obj["spec"]["containers"][0]["image"]]


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
        yield f"{path}: ours {ours!r:.1500}, theirs {theirs!r:.1500}"


P = TypeVar("P", bound=Play)


def played(
    both: tuple[ControlPlane, ControlPlane], play: Callable[[ControlPlane, str, float], P], scenario: Callable[[P], None]
) -> list[str]:
    """In what the states differ. On a busy machine the real controllers may be silent for a while and not be done yet: what differs
    is played again, slower."""
    return _played(both, play, scenario, "", 1.2) and _played(both, play, scenario, "-slower", 5.0)


def _played(
    both: tuple[ControlPlane, ControlPlane],
    play: Callable[[ControlPlane, str, float], P],
    scenario: Callable[[P], None],
    suffix: str,
    quiet: float,
) -> list[str]:
    ours, theirs = (play(plane, f"{scenario.__name__.replace('_', '-')}{suffix}", quiet) for plane in both)
    with ThreadPoolExecutor(2) as pool:
        for one in [pool.submit(scenario, each) for each in (ours, theirs)]:
            one.result()
    return list(differences(ours.noted, theirs.noted))
