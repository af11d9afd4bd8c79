"""The reference pages say what the code says, and their check notices when they do not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tools.reference import PAGES, stale, write
from tools.reference.__main__ import main

FOLDER = Path(__file__).parents[2] / "docs/reference"


def test_the_reference_is_what_the_code_gives() -> None:
    """In a process of its own: other tests of this one have loaded drivers and commands, which are told of then."""
    command = [sys.executable, "-m", "tools.reference", "--check", str(FOLDER)]
    done = subprocess.run(command, cwd=FOLDER.parents[1], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_page_that_differs_is_missing_or_is_nobodys_is_stale(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path)
    assert main(["--check", str(tmp_path)]) == 0
    changed, missing, *_ = sorted(PAGES)
    (tmp_path / changed).write_text((tmp_path / changed).read_text() + "more\n")
    (tmp_path / missing).unlink()
    (tmp_path / "unknown.md").write_text("# Unknown\n")
    assert stale(tmp_path) == [changed, missing, "unknown.md"]
    assert main(["--check", str(tmp_path)]) == 1
    assert str(tmp_path / changed) in capsys.readouterr().err


def test_commands_come_with_their_options_down_to_the_last_level(tmp_path: Path) -> None:
    write(tmp_path)
    text = (tmp_path / "commands.md").read_text()
    assert "## clusteradm create work\n" in text
    assert "## muster cluster add\n" in text
    assert "## config-policy-controller trigger-uninstall\n" in text
    assert "--skip-approve-check" in text


def test_gates_come_with_the_defaults_of_their_components(tmp_path: Path) -> None:
    write(tmp_path)
    rows = [line for line in (tmp_path / "feature-gates.md").read_text().splitlines() if line.startswith("| `")]
    on = {line.split("`")[1] for line in rows if "| on |" in line}
    assert on == {"DefaultClusterSet", "ResourceCleanup", "AddonManagement", "ClusterClaim"}


def test_metrics_come_with_their_type_labels_and_help(tmp_path: Path) -> None:
    write(tmp_path)
    text = (tmp_path / "metrics.md").read_text()
    assert "| `workqueue_depth` | gauge | `name` | Current depth of workqueue |" in text
    assert "| `ocm_proxy_open_streams` | gauge | `…` | Open watches and followed logs, by cluster. |" in text
    assert "| `scheduling_plugin_duration_seconds` | histogram | `name`, `plugin_type`, `plugin_name` |" in text
    assert "| `grpc_server_ce_oversized_total` | counter | `data_type` |" in text


def test_kinds_come_with_the_fields_inside_their_lists(tmp_path: Path) -> None:
    write(tmp_path)
    assert "| `spec.workload.manifests` |" in (tmp_path / "crds.md").read_text()
    assert "| `spec.managedClusterClientConfigs[].url` | string | Required. |" in (tmp_path / "crds.md").read_text()
