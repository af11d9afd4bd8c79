"""What deliveries and calls cost on the wire: HTTP/2 frames of our own beside those of the `h2` library, for decision 0017.

python -m bench wire [--short]

Both sides are gRPC servers under TLS 1.3 with an optional client certificate, in turns, with messages of 1,000 bytes; the other
end is a raw client that only counts. What compares is the CPU time that the server process spends: it says the same on a busy
machine. Rates are those that were reached beside the client, which has the other core.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.support.processes import Server

from bench.http_layer import write_certificates
from bench.report import Row

TITLE = "The wire"
TEXT = """
Our gRPC server and one with frames by `h2`, both on uvloop with TLS 1.3, messages of 1,000 bytes; the client only counts. CPU
time of the server process; rates are those reached with client and server on one machine. Memory is what the streams add to the
process, including their connections.
"""
NAMES = ("ours", "h2")


@dataclass(frozen=True)
class Shape:
    connections: int
    streams: int
    rate: float | None = None
    """The least deliveries per second."""

    @property
    def title(self) -> str:
        return f"{self.connections * self.streams:,} streams on {self.connections:,} connections"


SHAPES = (Shape(200, 5), Shape(1000, 1, 26_000), Shape(1000, 5, 10_000), Shape(5000, 1, 10_000))
SHORT = (Shape(20, 5), Shape(50, 1))
DELIVERIES = 100_000
CALLS = 8_000


def run(short: bool) -> list[Row]:
    rounds = 1 if short else 3
    found: dict[tuple[str, str, str], list[float]] = {}
    with tempfile.TemporaryDirectory(prefix="muster-wire-") as name:
        directory = Path(name)
        write_certificates(directory)
        for _ in range(rounds):
            for side in NAMES:
                for shape in SHORT if short else SHAPES:
                    _measure_deliveries(found, side, directory, shape, 2_000 if short else DELIVERIES)
                _measure_calls(found, side, directory, 200 if short else CALLS)
    return _rows(found, SHORT if short else SHAPES)


def _rows(found: dict[tuple[str, str, str], list[float]], shapes: tuple[Shape, ...]) -> list[Row]:
    def row(title: str, unit: str, what: str, better: str = "less") -> Row:
        ours, theirs = (statistics.median(found[side, title, what]) for side in NAMES)
        return Row(f"{what}, {title}", unit, ours, theirs, better)

    rows = []
    for shape in shapes:
        rows.append(row(shape.title, "µs of CPU", "delivery"))
        rows.append(row(shape.title, "1/s", "deliveries", "more"))
        rows.append(row(shape.title, "KiB", "memory per stream"))
    rows.append(row("64 at once", "µs of CPU", "unary call"))
    rows.append(row("64 at once", "1/s", "unary calls", "more"))
    return rows


def _started(side: str, directory: Path) -> Server:
    port = directory / f"{side}.port"
    port.unlink(missing_ok=True)
    server = Server(side, [sys.executable, "-m", "bench.wire_servers", side, directory], directory / f"{side}.log")
    server.start()
    server.wait_until(port.exists)
    return server


def _client(server: Server, directory: Path, what: str, *numbers: int) -> dict[str, float]:
    port = (directory / f"{server.name}.port").read_text()
    client = [sys.executable, "-m", "bench.wire_client", str(directory / "ca.crt")]
    command = [*client, what, port, str(server.pid), *map(str, numbers)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)
    if done.returncode:
        raise RuntimeError(f"{what} {numbers} of {server.name}: {done.stderr.strip()}")
    result: dict[str, float] = json.loads(done.stdout)
    return result


def _measure_deliveries(
    found: dict[tuple[str, str, str], list[float]], side: str, directory: Path, shape: Shape, deliveries: int
) -> None:
    server = _started(side, directory)
    try:
        total = shape.connections * shape.streams
        got = _client(server, directory, "deliveries", shape.connections, shape.streams, max(1, deliveries // total))
    finally:
        server.stop(kill=True)
    found.setdefault((side, shape.title, "delivery"), []).append(got["cpu"] / got["deliveries"] * 1e6)
    found.setdefault((side, shape.title, "deliveries"), []).append(got["deliveries"] / got["seconds"])
    found.setdefault((side, shape.title, "memory per stream"), []).append(got["held"] / total / 1024)


def _measure_calls(found: dict[tuple[str, str, str], list[float]], side: str, directory: Path, calls: int) -> None:
    server = _started(side, directory)
    try:
        got = _client(server, directory, "calls", 16, 4, calls)
    finally:
        server.stop(kill=True)
    found.setdefault((side, "64 at once", "unary call"), []).append(got["cpu"] / got["calls"] * 1e6)
    found.setdefault((side, "64 at once", "unary calls"), []).append(got["calls"] / got["seconds"])
