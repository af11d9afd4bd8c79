"""A thousand managed clusters on one hub on this machine: `muster sim`, with its report as rows.

    python -m bench simulation [--short]

There is no peer to compare with: upstream has no such simulation, and a thousand of its agents would be a thousand processes.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.report import Row

TITLE = "A thousand clusters on one machine"
TEXT = """
`muster sim`: one embedded hub (API server on SQLite with durable writes, and the registration controllers) in one process, and
all managed clusters with their agents in a second one; the agents connect to the hub over TLS, each with its own certificate.
The clusters join a hundred at a time. CPU is in cores of this machine, requests are those that the hub's API server answered.

With an addon (`--addon`, a separate run) the hub also runs the placement controller and the addon manager, and each cluster a
work agent. When all clusters have joined, an addon made from a template is installed on all of them by a placement. It is
Available on a cluster when its certificate is signed and stored, and its Deployment is applied and reported.
"""


def run(short: bool = False, say: Callable[[str], None] = print) -> list[Row]:
    clusters, duration, within = (20, 20, 60) if short else (1000, 600, 300)
    say(f"{clusters} clusters for {duration} s …")
    rows = _rows(_simulated(clusters, duration, within), within)
    clusters, duration = (5, 25) if short else (1000, 900)
    say(f"{clusters} clusters with an addon for {duration} s …")
    return rows + _addon_rows(_simulated(clusters, duration, 2 * within, "--addon", f"--addon-within={within}s"), within)


def _simulated(clusters: int, duration: int, within: int, *flags: str) -> dict[str, Any]:
    command = [
        str(Path(sys.executable).parent / "muster"),
        "sim",
        f"--clusters={clusters}",
        f"--duration={duration}s",
        f"--join-within={within}s",
        "--output=json",
        *flags,
    ]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=duration + 120, check=False)
    if not done.stdout:
        raise RuntimeError(f"muster sim ended with {done.returncode} and no report; its complaint is above")
    return dict(json.loads(done.stdout))


def row(title: str, unit: str, value: float | None, limit: float | None = None) -> Row:
    return Row(title, unit, value, None, "less", limit=limit)


def _addon_rows(found: dict[str, Any], within: float) -> list[Row]:
    title = f"{found['plan']['clusters']:,} clusters with an addon"
    return [
        row(f"{title}: all Available after", "s", found["all_available_after"]),
        row(f"{title}: the addon Available on all, after it was enabled", "s", found["addon_available_after"], within),
        row(f"{title}: writes to a ManagedClusterAddOn until then, of hub and agents", "", found["addon_writes"], 8.0),
        row(f"{title}: the hub's memory", "MiB", found["hub_mib"]),
        row(f"{title}: memory of all agents and their clusters", "MiB", found["agents_mib"]),
    ]


def _rows(found: dict[str, Any], within: float) -> list[Row]:
    clusters, joining, steady = found["plan"]["clusters"], found["joining"], found["steady"]
    lost = clusters - found["lowest_since"]
    return [
        row(f"{clusters:,} clusters join: all Available after", "s", found["all_available_after"], within),
        row("most clusters not Available afterwards", "", lost, 0),
        row("requests to the hub per join, the hub's own included", "", found["requests_per_join"]),
        row("requests while joining", "/s", joining["requests_per_second"]),
        row("the hub while joining", "cores", joining["hub_cores"]),
        row("all agents and their clusters while joining", "cores", joining["agents_cores"]),
        row(f"requests afterwards, over {steady['seconds']:.0f} s", "/s", steady["requests_per_second"]),
        row("open watches", "", found["open_watches"]),
        row("the hub afterwards", "cores", steady["hub_cores"]),
        row("all agents and their clusters afterwards", "cores", steady["agents_cores"]),
        row("the hub's memory", "MiB", found["hub_mib"]),
        row("memory of all agents and their clusters", "MiB", found["agents_mib"]),
    ]
