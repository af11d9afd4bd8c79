"""`muster apiserver`, as far as it says no before it serves."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from muster.cli.muster import main


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["a=x", "a=y"], "twice for cluster a"),
        (["x", "./b=y"], "twice for all clusters"),
        (["a=missing.kubeconfig"], "missing.kubeconfig: cannot be read"),
        (["missing.kubeconfig"], "missing.kubeconfig: cannot be read"),
    ],
)
def test_token_webhooks_are_one_for_each_cluster_and_readable(tmp_path: Path, given: list[str], words: str) -> None:
    flags = [word for one in given for word in ("--token-webhook-config", one)]
    result = CliRunner().invoke(main, ["apiserver", "--ephemeral", "--data-dir", str(tmp_path / "data"), *flags])
    assert result.exit_code != 0
    assert words in result.output
