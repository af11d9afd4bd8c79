"""`.pre-commit-config.yaml`: hooks of this repository only, with commands that are there and do their work."""

import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from muster.kube import yaml

ROOT = Path(__file__).parents[2]
CONFIG: dict[str, Any] = yaml.load((ROOT / ".pre-commit-config.yaml").read_text())
HOOKS: dict[str, dict[str, Any]] = {hook["id"]: hook for repo in CONFIG["repos"] for hook in repo["hooks"]}


def run(hook: str, *more: str) -> subprocess.CompletedProcess[str]:
    """The hook as pre-commit runs it: from the top, without a shell."""
    command = [*shlex.split(HOOKS[hook]["entry"]), *more]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)


def test_all_hooks_are_local_and_fetch_nothing() -> None:
    assert [repo["repo"] for repo in CONFIG["repos"]] == ["local"]
    assert {hook["language"] for hook in HOOKS.values()} == {"system"}
    assert set(HOOKS) == {"ruff-check", "ruff-format", "mypy", "lint-imports", "commit-subject"}
    assert all(set(hook) >= {"id", "name", "entry"} for hook in HOOKS.values())


def test_every_stage_that_hooks_have_is_installed() -> None:
    stages = {stage for hook in HOOKS.values() for stage in hook.get("stages", CONFIG["default_stages"])}
    assert stages == set(CONFIG["default_install_hook_types"]) == {"pre-commit", "commit-msg"}


def test_hooks_look_at_what_lint_looks_at() -> None:
    lint = (ROOT / "Makefile").read_text().partition("\nlint:")[2].partition("\n\n")[0]
    for hook in ("ruff-check", "ruff-format", "mypy", "lint-imports"):
        assert HOOKS[hook]["entry"].removeprefix(".venv") in lint.replace("$(BIN)", "/bin"), hook
    places = re.search(r"ruff check ([a-z ]+)\n", lint)
    assert places is not None
    for place in places[1].split():
        for hook in ("ruff-check", "ruff-format", "mypy"):
            assert re.search(HOOKS[hook]["files"], f"{place}/a.py"), (hook, place)


@pytest.mark.parametrize("hook", ["ruff-check", "ruff-format", "mypy", "lint-imports", "commit-subject"])
def test_every_command_is_there_and_runs(hook: str) -> None:
    done = run(hook, "--help")
    assert done.returncode == 0, done.stderr
    assert "usage" in done.stdout.lower()


def test_ruff_refuses_a_fault_and_mends_a_format(tmp_path: Path) -> None:
    file = tmp_path / "odd.py"
    file.write_text("import os\n")
    assert run("ruff-check", "--no-cache", str(file)).returncode == 1
    file.write_text("x = [1,2]\n")
    assert run("ruff-format", "--no-cache", str(file)).returncode == 0
    assert file.read_text() == "x = [1, 2]\n"


def test_a_subject_is_looked_at(tmp_path: Path) -> None:
    file = tmp_path / "message"
    file.write_text("http: close what nobody reads\n")
    assert run("commit-subject", str(file)).returncode == 0
    file.write_text("Close what nobody reads\n")
    refused = run("commit-subject", str(file))
    assert refused.returncode == 1
    assert "starts with no room" in refused.stderr
