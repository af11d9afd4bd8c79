"""Runs peers/informer, the program that looks at a server through client-go with its default settings."""

import json
import queue
import subprocess
import threading
import time
from collections.abc import Callable
from typing import Any

from tests.support import peers
from tests.support.planes import Cluster

Change = dict[str, str]


def check(cluster: Cluster) -> list[dict[str, Any]]:
    """The outcome of every check, in order."""
    command = [str(peers.need("informer")), "check", "-kubeconfig", str(cluster.kubeconfig)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    outcomes = [json.loads(line) for line in done.stdout.splitlines()]
    assert outcomes, done.stderr
    return outcomes


class Informer:
    """A running informer over the ConfigMaps of one namespace; `changes` collects what it printed."""

    def __init__(self, cluster: Cluster, namespace: str, client: str = "typed") -> None:
        command = [str(peers.need("informer")), "watch", "-kubeconfig", str(cluster.kubeconfig)]
        command += ["-namespace", namespace, "-client", client]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._lines: queue.Queue[Change] = queue.Queue()
        self.changes: list[Change] = []
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(json.loads(line))

    def wait_for(self, done: Callable[[Change], bool], timeout: float = 60) -> None:
        """Collects changes until one is `done`."""
        deadline = time.monotonic() + timeout
        while True:
            try:
                change = self._lines.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise AssertionError(f"the informer did not see it; the last it saw: {self.changes[-3:]}") from None
            self.changes.append(change)
            if done(change):
                return

    def stop(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def __enter__(self) -> "Informer":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
