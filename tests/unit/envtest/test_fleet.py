"""`muster.Fleet` and the fixtures, as somebody's program or test uses them."""

from __future__ import annotations

import asyncio
import importlib
import subprocess
import sys
import tomllib
from importlib.metadata import entry_points
from pathlib import Path

import pytest

import muster
from muster.api.cluster.v1 import ManagedCluster
from muster.envtest import FleetNotReady
from muster.fleet.local.directory import AlreadyRunning, ForeignDirectory
from tests.support.peers import ROOT
from tests.support.sites import embedded_only

pytestmark = embedded_only
SURFACE = {"muster": {"Fleet", "__version__"}, "muster.envtest": {"Fleet", "FleetNotReady"}}

SOMEBODYS_TESTS = """
import pytest
from muster.api.cluster.v1 import ManagedCluster

@pytest.mark.asyncio
async def test_one_cluster(muster_cluster):
    assert not (await muster_cluster.list(ManagedCluster)).items

@pytest.mark.asyncio
@pytest.mark.muster_fleet(clusters=1)
async def test_a_fleet(muster_fleet):
    assert [one.metadata.name for one in (await muster_fleet.hub.list(ManagedCluster)).items] == ["cluster1"]
"""


@pytest.mark.parametrize("name", SURFACE)
def test_a_package_offers_what_is_written_here(name: str) -> None:
    module = importlib.import_module(name)
    assert set(module.__all__) == SURFACE[name]
    assert all(getattr(module, one) for one in SURFACE[name])


def test_the_version_is_the_packages() -> None:
    assert muster.__version__ == tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]


def test_who_imports_muster_does_not_load_the_house() -> None:
    script = "import sys, muster; muster.__version__; print(sorted(name for name in sys.modules if name.startswith('muster.')))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"


def test_an_unknown_name_is_an_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'fleet_of'"):
        getattr(muster, "fleet_of")  # noqa: B009


async def test_a_fleet_lives_as_long_as_its_block_and_leaves_nothing(tmp_path: Path) -> None:
    before = asyncio.all_tasks()
    async with muster.Fleet(clusters=1, directory=tmp_path / "fleet") as fleet:
        (found,) = (await fleet.hub.list(ManagedCluster)).items
        assert found.metadata.name == "cluster1"
        assert fleet.clusters == ("cluster1",)
        assert "name: cluster1" in fleet.kubeconfig.read_text()
        with pytest.raises(AlreadyRunning):
            await muster.Fleet(directory=tmp_path / "fleet").__aenter__()
    with pytest.raises(RuntimeError, match="does not run"):
        _ = fleet.hub
    assert asyncio.all_tasks() == before
    assert not (tmp_path / "fleet").exists()


async def test_a_failure_in_the_block_is_the_callers_own() -> None:
    async def broken() -> None:
        async with muster.Fleet(clusters=0) as fleet:
            assert fleet.clusters == ()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await broken()


async def test_what_cannot_be_had_is_said_at_once(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="clusters: -1"):
        muster.Fleet(clusters=-1)
    (tmp_path / "file").write_text("somebody's")
    with pytest.raises(ForeignDirectory):
        await muster.Fleet(directory=tmp_path).__aenter__()
    assert (tmp_path / "file").read_text() == "somebody's"
    with pytest.raises(FleetNotReady, match="not ready within 0 s"):
        await muster.Fleet(timeout=0).__aenter__()


@pytest.mark.timeout(120)
def test_pytest_finds_the_fixtures(tmp_path: Path) -> None:
    assert "muster" in {one.name for one in entry_points(group="pytest11")}
    (tmp_path / "test_something.py").write_text(SOMEBODYS_TESTS)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--strict-markers", str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout
    fixtures = subprocess.run([*command, "--fixtures"], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True).stdout
    assert "muster_fleet" in fixtures
    assert "muster_cluster" in fixtures
