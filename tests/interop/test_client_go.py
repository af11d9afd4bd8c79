"""client-go 1.35 with default settings (protobuf bodies, streamed lists) must not tell our server from the real one."""

import itertools
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path

import pytest

from tests.interop.client_go import Change, Informer, check
from tests.support.client import Client
from tests.support.planes import ControlPlane, EmbeddedPlane

NAMESPACE = "informed"
NAMES = ("one", "two", "three")


def test_client_go_finds_nothing_wrong(plane: ControlPlane) -> None:
    failures = [outcome for outcome in check(plane.cluster) if not outcome["ok"]]
    assert failures == []


@pytest.fixture
def restartable(tmp_path: Path) -> Iterator[ControlPlane]:
    plane = EmbeddedPlane(tmp_path / "plane")
    plane.start()
    yield plane
    plane.stop(kill=True)


@dataclass
class Writer:
    """Counts an annotation up on a few objects, deleting and re-creating them now and then.

    A connection that breaks leaves open whether the write happened. The writer then reads the object back, so its
    history is exactly what the server did.
    """

    client: Client
    history: list[tuple[str, str, str]] = field(default_factory=list)
    _present: dict[str, str] = field(default_factory=dict)
    _steps: Iterator[int] = field(default_factory=itertools.count)

    def write_once(self) -> None:
        step = next(self._steps)
        name, number = NAMES[step % len(NAMES)], str(step)
        if name not in self._present:
            body = {"metadata": {"name": name, "annotations": {"step": number}}}
            self._carry_out("add", "POST", "", name, number, body)
        elif step % 10 == 7:
            self._carry_out("delete", "DELETE", f"/{name}", name, self._present[name], None)
        else:
            body = {"metadata": {"annotations": {"step": number}}}
            self._carry_out("update", "PATCH", f"/{name}", name, number, body)

    def _carry_out(self, event: str, method: str, path: str, name: str, step: str, body: object) -> None:
        base = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
        kind = "application/merge-patch+json" if method == "PATCH" else None
        while True:
            try:
                reply = self.client.request(method, base + path, body, content_type=kind)
            except (OSError, HTTPException):
                if self._happened(event, f"{base}/{name}", step):
                    break
                continue
            assert reply.status in (200, 201), reply.text
            break
        self.history.append((event, name, step))
        if event == "delete":
            del self._present[name]
        else:
            self._present[name] = step

    def _happened(self, event: str, path: str, step: str) -> bool:
        deadline = time.monotonic() + 30
        while True:
            try:
                reply = self.client.get(path)
            except (OSError, HTTPException):
                assert time.monotonic() < deadline, "the server did not come back"
                time.sleep(0.02)
                continue
            if event == "delete":
                return reply.status == 404
            return reply.status == 200 and reply.json["metadata"]["annotations"]["step"] == step

    def write_until(self, stop: threading.Event) -> None:
        while not stop.is_set():
            self.write_once()


def told(changes: list[Change]) -> list[tuple[str, str, str]]:
    return [(c["event"], c["name"], c["step"]) for c in changes if c.get("name") in NAMES]


@pytest.mark.parametrize("client", ["typed", "dynamic", "metadata"])
@pytest.mark.parametrize("kill", [False, True], ids=["graceful", "kill -9"])
def test_an_informer_sees_every_change_exactly_once_across_a_restart(restartable: ControlPlane, client: str, kill: bool) -> None:
    admin = restartable.client()
    admin.post("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}}).expect(201)
    writer = Writer(restartable.client())
    with Informer(restartable.cluster, NAMESPACE, client) as informer:
        informer.wait_for(lambda change: change["event"] == "synced")
        for _ in range(30):
            writer.write_once()
        stop = threading.Event()
        writing = threading.Thread(target=writer.write_until, args=(stop,))
        writing.start()
        restartable.restart(kill=kill)
        before = len(writer.history)
        while len(writer.history) < before + 30:
            time.sleep(0.01)
        stop.set()
        writing.join(30)
        admin.post(f"/api/v1/namespaces/{NAMESPACE}/configmaps", {"metadata": {"name": "end"}}).expect(201)
        informer.wait_for(lambda change: change.get("name") == "end")
    assert told(informer.changes) == writer.history
