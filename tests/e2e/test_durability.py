"""What the server acknowledged survives `kill -9` and a full disk, and watchers miss nothing.

MUSTER_KILLS says how often the server is killed (5 unless told; 50 in the long run).
"""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.journal import NAMESPACE, PATH, Service, Watcher, Writer, value_of
from tests.support import peers
from tests.support.client import Client, Reply
from tests.support.planes import EmbeddedPlane, write_token_file
from tests.support.processes import Server, free_ports, tail
from tests.support.sites import beside_kube

pytestmark = beside_kube

KILLS = int(os.environ.get("MUSTER_KILLS", "5"))
WRITERS = 16
WRITES_BETWEEN_KILLS = 200
BLOCK = "x" * 20_000


def wait_for(what: str, reached: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < deadline, f"{what} did not happen within {seconds:g} s"
        time.sleep(0.005)


def check_threads(*groups: list[Writer] | list[Watcher]) -> None:
    for group in groups:
        for thread in group:
            if thread.problem is not None:
                raise thread.problem


@pytest.mark.timeout(60 + 15 * KILLS)
def test_kill_9_loses_no_acknowledged_write_and_watchers_no_event(tmp_path: Path) -> None:
    plane = EmbeddedPlane(tmp_path, clusters=())
    plane.start()
    service = Service(plane)
    service.up.set()
    admin = plane.client()
    admin.post("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}}).expect(201)
    start = admin.get(PATH).expect(200)["metadata"]["resourceVersion"]
    admin.close()
    watchers = [Watcher(service, start) for _ in range(3)]
    writers = [Writer(service, number) for number in range(WRITERS)]
    for thread in (*watchers, *writers):
        thread.start()
    restarts: list[float] = []
    try:
        for _ in range(KILLS):
            goal = sum(writer.acknowledged for writer in writers) + WRITES_BETWEEN_KILLS

            def written(goal: int = goal) -> bool:
                check_threads(writers, watchers)
                return sum(writer.acknowledged for writer in writers) >= goal

            wait_for("the next writes", written)
            service.up.clear()
            plane.stop(kill=True)
            began = time.monotonic()
            plane.start()
            restarts.append(time.monotonic() - began)
            service.up.set()
        service.over.set()
        for writer in writers:
            writer.join(60)
        listed = admin.get(PATH).expect(200)
        for watcher in watchers:
            watcher.finish_at = int(listed["metadata"]["resourceVersion"])
        for watcher in watchers:
            watcher.join(60)
        check_threads(writers, watchers)
        assert not any(watcher.is_alive() for watcher in watchers), "a watcher never reached the end"
    finally:
        service.over.set()
        service.up.set()
        plane.stop(kill=True)

    promised = {name: value for writer in writers for name, (value, _) in writer.current.items()}
    shown = {obj["metadata"]["name"]: value_of(obj) for obj in listed["items"] if obj["metadata"]["name"] != "kube-root-ca.crt"}
    assert shown == promised

    changes = {name: values for writer in writers for name, values in writer.changes.items()}
    for watcher in watchers:
        assert watcher.changes() == changes
        assert watcher.reconnected >= KILLS
    used = {revision: (name, value) for revision, name, value in watchers[0].events}
    assert len(used) == len(watchers[0].events), "a revision was used twice"
    for writer in writers:
        for version, name, value in writer.versions:
            assert used[int(version)] == (name, value)
    unanswered = sum(writer.unanswered for writer in writers)
    acknowledged = sum(writer.acknowledged for writer in writers)
    print(f"{KILLS} kills, {acknowledged} acknowledged writes, {unanswered} unanswered, {len(used)} events")
    print(f"restart: median {sorted(restarts)[len(restarts) // 2]:.2f} s, longest {max(restarts):.2f} s")
    assert unanswered >= KILLS, "the kills did not hit running writes"


class SmallDisk:
    """A server whose data directory is nearly full; `free` gives space back."""

    def __init__(self, directory: Path, how: str) -> None:
        self.how = how
        self.data = directory / "data"
        self.data.mkdir()
        tokens = directory / "tokens.csv"
        write_token_file(tokens)
        (port,) = free_ports(1)
        command: list[str | Path] = [peers.ROOT / ".venv/bin/muster", "apiserver", "--data-dir", self.data, "--port", str(port)]
        command += ["--token-auth-file", tokens]
        if how == "tmpfs":
            script = 'mount -t tmpfs -o size=8m,mode=0700 tmpfs "$0" && exec "$@"'
            command = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, self.data, *command]
        self.log = directory / "log"
        self.server = Server("muster apiserver", command, self.log)
        self.url = f"https://127.0.0.1:{port}"

    def client(self) -> Client:
        return Client(self.url, token="admin-static-token")

    def start(self) -> None:
        self.server.start()

        def ready() -> bool:
            client = self.client()
            try:
                return client.get("/readyz").status == 200
            except OSError:
                return False
            finally:
                client.close()

        self.server.wait_until(ready, 30)

    @property
    def _ballast(self) -> Path:
        """The file as the server's own mount namespace has it."""
        return Path(f"/proc/{self.server.pid}/root{self.data}/ballast")

    def fill(self) -> None:
        if self.how == "tmpfs":
            self._ballast.write_bytes(bytes(5 << 20))
        else:
            size = sum(file.stat().st_size for file in self.data.iterdir())
            self._limit(max(size, 1 << 20) + (1 << 20))

    def free(self) -> None:
        if self.how == "tmpfs":
            self._ballast.unlink()
        else:
            self._limit(resource.RLIM_INFINITY)

    def _limit(self, size: int) -> None:
        _, hard = resource.prlimit(self.server.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(self.server.pid, resource.RLIMIT_FSIZE, (size, hard))


@pytest.fixture(params=["limit", "tmpfs"])
def small_disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SmallDisk]:
    if request.param == "tmpfs":
        probe = ["unshare", "--user", "--map-root-user", "--mount", "mount", "-t", "tmpfs", "tmpfs", str(tmp_path)]
        if subprocess.run(probe, capture_output=True).returncode:
            pytest.skip("mounting in a namespace is not permitted here; the file size limit tests the same")
    disk = SmallDisk(tmp_path, request.param)
    disk.start()
    yield disk
    disk.server.stop(kill=True)


def fill_up(disk: SmallDisk) -> tuple[set[str], dict[str, Reply]]:
    """Eight clients write until each is refused: (names acknowledged, names refused with the answers)."""
    acknowledged: set[str] = set()
    refused: dict[str, Reply] = {}

    def write(number: int) -> None:
        client = disk.client()
        for count in range(400):
            name = f"{number}-{count}"
            reply = client.post(PATH, {"metadata": {"name": name}, "data": {"block": BLOCK}})
            if reply.status != 201:
                refused[name] = reply
                break
            acknowledged.add(name)
        client.close()

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return acknowledged, refused


def names(client: Client) -> set[str]:
    items = client.get(PATH).expect(200)["items"]
    return {obj["metadata"]["name"] for obj in items if obj["metadata"]["name"] != "kube-root-ca.crt"}


@pytest.mark.timeout(120)
def test_a_full_disk_refuses_writes_clearly_and_recovers(small_disk: SmallDisk) -> None:
    client = small_disk.client()
    client.post("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}}).expect(201)
    version = client.get(PATH).expect(200)["metadata"]["resourceVersion"]
    small_disk.fill()
    acknowledged, refused = fill_up(small_disk)
    assert len(refused) == 8, "the disk never filled"
    for reply in refused.values():
        status = reply.json
        assert (reply.status, status["kind"], status["reason"]) == (500, "Status", "InternalError"), reply.text
        assert "could not be stored" in status["message"], status
        assert "disk" in status["message"] or "I/O" in status["message"], status

    assert names(client) == acknowledged
    for name in refused:
        client.get(f"{PATH}/{name}").expect(404)
    with client.watch(PATH, {"resourceVersion": version, "timeoutSeconds": "1"}) as watch:
        seen = [event["object"]["metadata"]["name"] for event in watch]
    assert sorted(name for name in seen if name != "kube-root-ca.crt") == sorted(acknowledged)

    small_disk.free()
    again: list[Reply] = []

    def writable() -> bool:
        again.append(client.post(PATH, {"metadata": {"name": "after"}, "data": {"block": BLOCK}}))
        return again[-1].status == 201

    wait_for("a write after space came back", writable, 20)
    acknowledged.add("after")
    small = client.patch(f"{PATH}/after", {"data": {"block": "small"}}).expect(200)
    assert names(client) == acknowledged

    if small_disk.how == "limit":  # A tmpfs ends with its namespace.
        client.close()
        small_disk.server.stop(kill=True)
        small_disk.start()
        assert names(client) == acknowledged
        assert client.get(f"{PATH}/after").expect(200) == small
    with contextlib.suppress(OSError):
        client.close()
    assert "Traceback" not in tail(small_disk.log, 2000)
