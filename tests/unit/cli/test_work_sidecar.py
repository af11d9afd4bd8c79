"""A work agent in the registration agent's process: begins with the hub's kubeconfig, begins anew with another hub."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import click
import pytest
import yaml

from muster.cli import hub_address, work_agent, work_sidecar
from muster.cli.process import ProcessEnv
from muster.cli.work_sidecar import run_work_sidecar
from muster.cli.work_sidecar import work_sidecar as sidecar
from muster.machinery.metrics import Metrics
from muster.registration.drivers.kubeconfigs import KUBECONFIGS


def lead_to(directory: Path, server: str) -> None:
    directory.mkdir(exist_ok=True)
    (directory / "cluster-name").write_text("cluster1")
    document = {
        "clusters": [{"name": "hub", "cluster": {"server": server}}],
        "users": [{"name": "me", "user": {"token": "t"}}],
        "contexts": [{"name": "c", "context": {"cluster": "hub", "user": "me"}}],
        "current-context": "c",
    }
    (directory / "kubeconfig").write_text(yaml.safe_dump(document))


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> asyncio.Queue[str]:
    """The hubs that work agents were run for."""
    seen: asyncio.Queue[str] = asyncio.Queue()

    async def serve(settings: work_agent.Settings, here: ProcessEnv, metrics: Metrics) -> None:
        seen.put_nowait(settings.options.hub_url)
        try:
            await asyncio.Event().wait()
        finally:
            seen.put_nowait(f"left {settings.options.hub_url}")

    monkeypatch.setattr(work_agent, "serve", serve)
    monkeypatch.setattr(work_sidecar, "POLL_INTERVAL", 0.01)
    monkeypatch.setattr(hub_address, "POLL_INTERVAL", 0.01)
    return seen


def process_env(tmp_path: Path) -> ProcessEnv:
    own = tmp_path / "own"
    lead_to(own, "https://here:6443")
    return ProcessEnv(environ={"KUBECONFIG": str(own / "kubeconfig")})


async def test_it_runs_while_there_is_a_hub_and_anew_for_another_one(tmp_path: Path, runs: asyncio.Queue[str]) -> None:
    directory = tmp_path / "hub"
    running = asyncio.create_task(
        run_work_sidecar(sidecar(str(directory), KUBECONFIGS, ["--agent-id=a"]), process_env(tmp_path), Metrics())
    )
    try:
        async with asyncio.timeout(10):
            lead_to(directory, "https://first:6443")
            assert await runs.get() == "https://first:6443"
            lead_to(directory, "https://second:6443")
            assert await runs.get() == "left https://first:6443"
            assert await runs.get() == "https://second:6443"
    finally:
        running.cancel()
        await asyncio.wait([running])
    assert await runs.get() == "left https://second:6443"


async def test_a_kubeconfig_that_is_being_written_is_waited_for(tmp_path: Path, runs: asyncio.Queue[str]) -> None:
    directory = tmp_path / "hub"
    lead_to(directory, "https://first:6443")
    moved = asyncio.create_task(hub_address.until_moved(directory / "kubeconfig", KUBECONFIGS, "https://first:6443"))
    (directory / "kubeconfig").write_text("{half")
    await asyncio.sleep(0.05)
    assert not moved.done()
    lead_to(directory, "https://second:6443")
    async with asyncio.timeout(10):
        assert await moved == "https://second:6443"


async def test_the_end_of_the_work_agent_is_the_end_of_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def serve(settings: work_agent.Settings, here: ProcessEnv, metrics: Metrics) -> None:
        raise click.ClickException("no")

    monkeypatch.setattr(work_agent, "serve", serve)
    lead_to(tmp_path / "hub", "https://first:6443")
    with pytest.raises(click.ClickException, match="no"):
        await run_work_sidecar(sidecar(str(tmp_path / "hub"), KUBECONFIGS, []), process_env(tmp_path), Metrics())


@pytest.mark.parametrize("broken", [lambda file: file.unlink(), lambda file: file.write_text("a: 1")])
def test_what_is_no_kubeconfig_has_no_address(tmp_path: Path, broken: Callable[[Path], object]) -> None:
    lead_to(tmp_path, "https://first:6443")
    broken(tmp_path / "kubeconfig")
    with pytest.raises(click.ClickException, match="not a kubeconfig"):
        hub_address.find_hub(tmp_path / "kubeconfig", KUBECONFIGS)


def test_the_work_agent_is_told_how_the_way_to_the_hub_is_written() -> None:
    arguments = sidecar("dir", KUBECONFIGS, [])
    assert arguments.arguments[:2] == ("--hub-kubeconfig=dir/kubeconfig", "--workload-source-driver=kube")


def test_a_wrong_argument_is_told_before_there_is_a_hub() -> None:
    with pytest.raises(click.ClickException):
        sidecar("dir", KUBECONFIGS, ["--status-sync-interval=soon"])
