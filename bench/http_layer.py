"""The HTTP layer under the API server beside aiohttp's low-level server, for decision 0001.

    python -m bench http [--short]

Both answer GETs of a 1.1 KB object over TLS 1.3 from the Go load generator, 64 kept connections, in turns. What counts is the CPU
time that the server process spends on a request: it says the same on a busy machine.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.support.processes import Server

from bench import loadgen
from bench.report import Row
from bench.sides import cpu_seconds
from muster.kube.certificates import SERVER_AUTH, CertificateAuthority

TITLE = "HTTP layer"
TEXT = """
`muster.http` and aiohttp's `web.Server`, both on uvloop: GET of a 1.1 KB object over TLS 1.3 on 64 keep-alive connections; CPU
time of the server process per request, median of five rounds. The handler of the second row suspends once, which requires a
task.
"""
NAMES = ("ours", "ours-waiting", "aiohttp")
CLIENTS = 64


def run(short: bool) -> list[Row]:
    rounds, seconds = (1, 0.5) if short else (5, 4.0)
    with tempfile.TemporaryDirectory(prefix="muster-http-") as name:
        directory = Path(name)
        write_certificates(directory)
        servers = {name: _started(name, directory) for name in NAMES}
        try:
            spent: dict[str, list[float]] = {name: [] for name in NAMES}
            for _ in range(rounds):
                for name, server in servers.items():
                    spent[name].append(_cost(server, directory, seconds))
        finally:
            for server in servers.values():
                server.stop(kill=True)
    costs = {name: statistics.median(values) for name, values in spent.items()}
    return [
        Row("GET, handler does not wait", "µs of CPU", costs["ours"], costs["aiohttp"], "less", target=1.15),
        Row("GET, handler waits once", "µs of CPU", costs["ours-waiting"], costs["aiohttp"], "less"),
    ]


def write_certificates(directory: Path) -> None:
    now = datetime.now(UTC)
    authority = CertificateAuthority.create("bench-ca", now)
    pair = authority.issue("bench", now, timedelta(hours=1), usages=(SERVER_AUTH,), hosts=("127.0.0.1",))
    (directory / "ca.crt").write_bytes(authority.pem)
    (directory / "tls.crt").write_bytes(pair.certificate)
    (directory / "tls.key").write_bytes(pair.key)


def _started(name: str, directory: Path) -> Server:
    port = directory / f"{name}.port"
    server = Server(name, [sys.executable, "-m", "bench.http_servers", name, directory], directory / f"{name}.log")
    server.start()
    server.wait_until(port.exists)
    return server


def _cost(server: Server, directory: Path, seconds: float) -> float:
    """Microseconds of the server's CPU time per request."""
    target = loadgen.Target(f"https://127.0.0.1:{(directory / f'{server.name}.port').read_text()}", directory / "ca.crt", "none")
    loadgen.run(target, "load", verb="get", clients=CLIENTS, seconds=0.2)
    before = cpu_seconds(server.pid)
    measured = loadgen.run(target, "load", verb="get", clients=CLIENTS, seconds=seconds)
    spent = cpu_seconds(server.pid) - before
    return spent / int(measured["requests"]) * 1e6
