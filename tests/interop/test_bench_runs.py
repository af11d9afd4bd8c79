"""The benchmark program runs to its end on every area that needs peers. Its figures are nobody's business here: CI machines
are busy."""

import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.support import peers


def rows_of(area: str) -> set[str]:
    """The titles in the table that a short run of `area` prints."""
    done = subprocess.run(
        [sys.executable, "-m", "bench", area, "--short"],
        cwd=peers.ROOT,
        capture_output=True,
        text=True,
        timeout=230,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return {line.split("  ")[0].strip() for line in done.stdout.splitlines()}


@pytest.fixture(autouse=True)
def nothing_is_left_running() -> Iterator[None]:
    yield
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert [line for line in listed.splitlines() if "muster-bench-" in line] == []


@pytest.mark.timeout(180)
def test_the_short_benchmark_measures_both_servers() -> None:
    expected = {"time to ready", "memory idle", "create, 16 clients", "apply, 1 client", "20 logical clusters created"}
    assert expected <= rows_of("apiserver")


@pytest.mark.timeout(180)
def test_the_short_benchmark_measures_both_caches() -> None:
    assert {"200 ManifestWorks cached, typed: cost", "200 ManifestWorks cached, snapshots: cost"} <= rows_of("caches")


@pytest.mark.timeout(240)
def test_the_short_benchmark_measures_both_hubs_and_both_agents() -> None:
    expected = {"5 clusters join: all Available after", "requests of the hub, per cluster", "one agent's memory"}
    assert expected <= rows_of("registration")


@pytest.mark.timeout(240)
def test_the_short_benchmark_counts_calls_of_aws() -> None:
    expected = {"a cluster is accepted", "an hour of status updates of a cluster", "the hub starts again, per cluster"}
    assert expected | {"a cluster is deleted", "the hub looks at what an administrator made"} <= rows_of("aws")


@pytest.mark.timeout(120)
def test_the_short_benchmark_simulates_a_fleet() -> None:
    with_addon = "5 clusters with an addon: the addon Available on all, after it was enabled"
    assert {"20 clusters join: all Available after", "the hub's memory", with_addon} <= rows_of("simulation")


@pytest.mark.timeout(120)
def test_the_watch_over_memory_tells_of_both_processes() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bench.growth", "--clusters=2", "--minutes=0.05"],
        cwd=peers.ROOT,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = [line.split()[0] for line in done.stderr.splitlines() if "a collection found" in line]
    assert sorted(told) == ["agents", "hub"], done.stderr


@pytest.mark.timeout(240)
def test_the_short_benchmark_measures_both_work_agents() -> None:
    expected = {"requests to the managed cluster per manifest", "requests when idle", "access reviews per manifest"}
    assert expected <= rows_of("work")


@pytest.mark.timeout(240)
def test_the_short_benchmark_measures_both_placement_controllers() -> None:
    by_label = "5 placements × 20 clusters by a label, taking all, limits lifted"
    by_scores = "5 placements × 20 clusters by scores, taking 10, limits lifted"
    expected = {f"{by_label}: {what}" for what in ("all scheduled after", "a new cluster is in all decisions after", "CPU at rest")}
    assert expected | {f"{by_scores}: CPU for 10 scores in 1 s"} <= rows_of("placement")


@pytest.mark.timeout(240)
def test_the_short_benchmark_measures_both_addon_managers() -> None:
    managers = ("all Configured and with a work after", "a configuration rolled out, 3 at a time", "CPU at rest")
    agents = ("requests of an agent to its own cluster", "requests of an agent to the hub")
    expected = {f"8 clusters, limits lifted: {what}" for what in managers}
    assert expected | {f"5 addons with leases: {what}" for what in agents} <= rows_of("addons")


@pytest.mark.timeout(240)
def test_the_short_benchmark_measures_both_grpc_servers() -> None:
    expected = {
        "Publish of lease renewals",
        "Publish of works' status, upstream's limit lifted",
        "delivered with 1 % silent readers",
        "5 agents are back after a restart",
        "deliveries to 10 streams",
        "resync of 50 known works",
        "works' status written to the API server directly",
        "on SQLite: Publish of works' status",
        "on PostgreSQL: Publish of works' status",
    }
    assert expected <= rows_of("transport")


@pytest.mark.timeout(240)
def test_the_short_benchmark_measures_both_gateways() -> None:
    expected = {
        "GET from the cluster itself, 1 client",
        "GET, asked directly, 1 client: added p50",
        "GET, through the hub, 4 clients",
        "GET, asked directly, 4 clients: CPU per request",
        "GET, asked directly, 4 clients, upstream's authorizes too",
        "list of 50, asked directly",
        "a document of 2 MB, asked directly",
        "GET by tunnel, 1 client: added p50",
        "a document of 2 MB by tunnel",
        "10 watches: memory each",
        "10 watches: event lag p99",
        "5 clusters at rest: memory",
    }
    assert expected <= rows_of("gateway")
