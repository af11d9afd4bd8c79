"""Every step of deploy/Containerfile is run, and what comes out runs a hub with a managed cluster as a user without a name."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest

from tests.support.image_builder import IMAGE, ImageBuilder

pytestmark = [pytest.mark.timeout(900), pytest.mark.skipif(os.geteuid() != 0, reason="buildah's chroots need root")]


@pytest.fixture(scope="module")
def builder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ImageBuilder]:
    directory = tmp_path_factory.mktemp("image")
    made = ImageBuilder(directory)
    made.build(made.base())
    yield made
    made("rm", "--all")
    made("rmi", "--all", "--force")
    shutil.rmtree(directory)


@pytest.fixture(scope="module")
def container(builder: ImageBuilder) -> str:
    return builder.container()


def test_the_image_says_who_runs_and_what(builder: ImageBuilder) -> None:
    config = builder.config()
    assert config["Entrypoint"] == ["muster"]
    assert config["User"] == "65532:65532"
    assert config["WorkingDir"] == "/tmp"


def test_it_has_what_runs_and_not_what_builds(builder: ImageBuilder, container: str) -> None:
    programs = set(builder.run(container, "ls", "/opt/muster/bin").split())
    assert {"muster", "clusteradm", "config-policy-controller"} <= programs
    assert {"uv", "pytest", "hatchling"}.isdisjoint(programs)
    assert builder.run(container, "ls", "/opt").split() == ["muster"]
    assert "No module named" not in builder.run(container, "python", "-c", "import asyncpg, botocore, muster.apiserver")


def test_its_user_can_write_below_tmp_alone(builder: ImageBuilder, container: str) -> None:
    script = "find / -xdev -writable -not -type l -not -path '/proc/*' -not -path '/sys/*' -not -path '/dev/*' 2>/dev/null || true"
    assert builder.run(container, "id", "-u").strip() == "65532"
    places = builder.run(container, "sh", "-c", script).split()
    assert {path for path in places if not path.startswith(("/tmp", "/var/tmp", "/run/lock"))} == set()


def test_a_hub_and_a_cluster_start_in_it(builder: ImageBuilder, container: str) -> None:
    fleet = (
        "set -e; muster up --detach --data-dir /tmp/fleet --port 0 --clusters 1; trap 'muster down --data-dir /tmp/fleet' EXIT; "
        "clusteradm get clusters --kubeconfig /tmp/fleet/kubeconfig -o json"
    )
    assert '"cluster1"' in builder.run(container, "sh", "-c", fleet)


def test_the_entry_point_is_the_program_that_deployments_name(builder: ImageBuilder, container: str) -> None:
    assert IMAGE.endswith("/muster")
    (program,) = builder.config()["Entrypoint"]
    for words in (
        ("operator", "cluster-manager"),
        ("operator", "klusterlet"),
        ("hub",),
        ("agent",),
        ("work-agent",),
        ("placement",),
    ):
        assert "Usage: muster" in builder.run(container, program, *words, "--help")
