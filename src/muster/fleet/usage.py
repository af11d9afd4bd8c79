"""The resource usage of a simulation: CPU and memory of its two processes, and the requests to the hub's API server.

A `Sample` is taken periodically; all reported figures are differences of two samples. Figures of processes are the kernel's,
requests come from the hub's own `/metrics`, which counts each request once, a watch when it begins.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_REQUESTS = re.compile(rb"^apiserver_request_total\{.*\} ([0-9.e+]+)$", re.MULTILINE)
_WATCHES = re.compile(rb"^apiserver_longrunning_requests ([0-9.e+]+)$", re.MULTILINE)


@dataclass(frozen=True)
class Usage:
    cpu_seconds: float
    resident_bytes: int

    @property
    def mib(self) -> float:
        return self.resident_bytes / 2**20


@dataclass(frozen=True)
class Sample:
    at: float
    hub: Usage
    agents: Usage
    requests: int
    watches: int


@dataclass(frozen=True)
class Rates:
    """Rates between two samples: cores used, and requests per second at the hub."""

    hub_cores: float
    agents_cores: float
    requests_per_second: float


def usage(pid: int) -> Usage:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return Usage((int(fields[11]) + int(fields[12])) / _TICKS, pages * os.sysconf("SC_PAGE_SIZE"))


def counted(metrics: bytes) -> tuple[int, int]:
    """Requests answered so far and watches open now, from the text of an API server's `/metrics`."""
    requests = sum(int(float(value)) for value in _REQUESTS.findall(metrics))
    watches = _WATCHES.search(metrics)
    return requests, int(float(watches[1])) if watches else 0


def rates(first: Sample, last: Sample) -> Rates:
    seconds = max(last.at - first.at, 1e-9)
    return Rates(
        (last.hub.cpu_seconds - first.hub.cpu_seconds) / seconds,
        (last.agents.cpu_seconds - first.agents.cpu_seconds) / seconds,
        (last.requests - first.requests) / seconds,
    )
