"""`muster up` and its companions, run as programs: a data directory and the commands on it, as a person uses them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.kubectl import executable
from tests.support.processes import tail

MUSTER = [str(Path(sys.executable).parent / "muster")]
HELLO = """\
apiVersion: work.open-cluster-management.io/v1
kind: ManifestWork
metadata: {name: hello}
spec: {workload: {manifests: [{apiVersion: v1, kind: ConfigMap, metadata: {name: hello, namespace: default}}]}}
"""


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str


class Fleet:
    """A data directory, and the commands on it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def __call__(self, *words: str, code: int | None = 0, seconds: float = 90) -> Outcome:
        verb = words[:2] if words[0] == "cluster" else words[:1]
        command = [*MUSTER, *verb, "--data-dir", str(self.directory), *words[len(verb) :]]
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
        log = tail(self.directory / "fleet.log")
        assert code is None or done.returncode == code, f"{words} ended with {done.returncode}\n{done.stdout}\n{done.stderr}\n{log}"
        return Outcome(done.returncode, done.stdout, done.stderr)

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self("status", "-o", "json", code=None).out)
        return found

    @property
    def pid(self) -> int:
        return int((self.directory / "lock").read_text())

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        eventually(lambda: not self.status()["running"], "the process is gone")

    def kubectl(self, *words: str, context: str = "hub") -> str:
        command = [str(executable("current")), "--kubeconfig", str(self.directory / "kubeconfig"), "--context", context, *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, f"kubectl {words}\n{done.stdout}\n{done.stderr}"
        return done.stdout.strip()

    def work(self, cluster: str) -> None:
        """Have a ConfigMap on a cluster, by a work of the hub."""
        file = self.directory.parent / "hello.yaml"
        file.write_text(HELLO)
        self.kubectl("apply", "-n", cluster, "-f", str(file))
        for condition in ("Applied", "Available"):
            self.kubectl("wait", "-n", cluster, "manifestwork/hello", f"--for=condition={condition}", "--timeout=30s")
        assert self.kubectl("get", "configmap", "hello", "-o", "name", context=cluster) == "configmap/hello"

    def end(self) -> None:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError, ValueError):
            if self.status()["running"]:
                self("down", code=None)


def eventually(true: Callable[[], bool], what: str, seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}"
        time.sleep(0.05)


def names(fleet: Fleet) -> list[str]:
    return [one["name"] for one in fleet.status()["clusters"]]


def hub_certificate(fleet: Fleet) -> str:
    words = ("get", "secret", "hub-kubeconfig-secret", "-n", "open-cluster-management-agent")
    return fleet.kubectl(*words, "-o", "jsonpath={.data.tls\\.crt}", context="cluster1")
