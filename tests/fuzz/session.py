"""One fuzz run against an embedded plane: sets the scene, fires in rounds, and weighs the server's memory between them."""

from __future__ import annotations

import ssl
from pathlib import Path

from tests.fuzz.requests import DEFINITION, NAMESPACE, Generator
from tests.fuzz.run import Verdict, volley
from tests.support.planes import EmbeddedPlane

WARM_UP = 0.25
"""The share of a run after which caches are full and memory must stand still."""
LEAK_BYTES = 48 << 20
"""More growth than this after the warm-up is a leak; history may still fill up to its bound in a short run."""
LOG_MARKS = ("request failed", "Traceback", "was never retrieved", "Task exception")


def rss(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) << 10
    raise RuntimeError("no VmRSS")


class FuzzSession:
    def __init__(self, plane: EmbeddedPlane, seed: int) -> None:
        self.plane = plane
        self.verdict = Verdict()
        self.warm_rss = self.final_rss = 0
        self._generator = Generator(seed, "/clusters/default")
        self._log_start = plane.logs[0].stat().st_size

    async def run(self, count: int) -> None:
        client = self.plane.client()
        client.post("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}}).expect(201, 409)
        client.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", DEFINITION).expect(201, 409)
        tls = ssl.create_default_context(cafile=str(self.plane.ca))
        first = int(count * WARM_UP)
        await volley(self._generator, first, client.host, client.port, tls, self.verdict)
        self.warm_rss = rss(self.plane.pid)
        await volley(self._generator, count - first, client.host, client.port, tls, self.verdict)
        self.final_rss = rss(self.plane.pid)
        assert client.get("/readyz").status == 200
        client.close()

    def problems(self) -> list[str]:
        found = list(self.verdict.failures)
        with self.plane.logs[0].open("rb") as log:
            log.seek(self._log_start)
            text = log.read().decode(errors="replace")
        found += [f"in the log: {line[:2000]}" for line in text.splitlines() if any(mark in line for mark in LOG_MARKS)]
        if self.final_rss - self.warm_rss > LEAK_BYTES:
            found.append(f"memory grew from {self.warm_rss >> 20} to {self.final_rss >> 20} MiB")
        return found
