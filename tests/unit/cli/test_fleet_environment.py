"""`muster env`: what it prints is evaluated by real shells where they are installed, and by name for those that are not."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from muster.cli.muster import main
from tests.unit.cli.test_fleet_request import written

AWKWARD = 'it\'s a "fleet" $HOME'


def env(directory: Path, *words: str, **environ: str) -> Result:
    return CliRunner().invoke(main, ["env", "--data-dir", str(directory), *words], env={"SHELL": "/bin/bash", **environ})


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_a_shell_has_the_variables_and_loses_them_again(tmp_path: Path, shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    root = tmp_path / AWKWARD
    root.mkdir(mode=0o700)
    written(root)
    info = 'echo "$KUBECONFIG"; echo "$MUSTER_DATA_DIR"'
    script = (
        f"{env(root / 'data', '--shell', shell).output}\n{info}\n{env(root / 'data', '--shell', shell, '--unset').output}\n{info}\n"
    )
    done = subprocess.run([shell, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [str(root / "data/kubeconfig"), str(root / "data"), "", ""]


def test_fish_is_told_in_its_own_words(tmp_path: Path) -> None:
    root = tmp_path / "it's"
    root.mkdir(mode=0o700)
    written(root)
    lines = env(root / "data", SHELL="/usr/bin/fish").output.splitlines()
    quoted = str(root / "data").replace("'", "\\'")
    assert f"set -gx MUSTER_DATA_DIR '{quoted}';" in lines
    assert lines[-1] == "# Evaluate it: muster env --shell fish | source"
    assert "set -e KUBECONFIG;" in env(root / "data", "--shell", "fish", "--unset").output


def test_a_fleet_that_plays_aws_leads_its_tools_there(tmp_path: Path) -> None:
    port = written(tmp_path, auth="awsirsa").aws_port
    found = env(tmp_path / "data").output
    assert f"export AWS_ENDPOINT_URL=https://127.0.0.1:{port}" in found
    assert "AWS_CONFIG_FILE=" in found


def test_the_directory_can_be_named_by_a_variable(tmp_path: Path) -> None:
    written(tmp_path)
    done = CliRunner().invoke(main, ["env"], env={"MUSTER_DATA_DIR": str(tmp_path / "data"), "SHELL": "/bin/sh"})
    assert f"export MUSTER_DATA_DIR={tmp_path}/data" in done.output


def test_where_there_is_no_fleet_nothing_is_printed_to_evaluate(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["env", "--data-dir", str(tmp_path / "none")])
    assert (done.exit_code, done.stdout) == (1, "")
    assert "muster up" in done.stderr
