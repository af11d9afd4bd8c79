"""Policies of upstream's own tests: those of its dryrun print what upstream expects, and all of them fare as under upstream's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from muster.cli.policy_dryrun import command
from muster.machinery import logs
from muster.policy.dryrun.mappings import DEFAULT_KINDS
from tests.interop.policy.test_dryrun import ORACLE, deviating, meant, ours
from tests.interop.policy.upstream_cases import Case, cases, module_directory

YAML_ERRORS = "dryrun/obj_tmpl_raw/invalid_yaml"
"""The text of a YAML parser's errors is its own."""


@pytest.fixture(scope="module", autouse=True)
def _oracle() -> None:
    if not ORACLE.binary().exists():
        pytest.skip("the policy oracle is not built: make -C peers/policy")


def _scenarios() -> Iterator[Path]:
    module = module_directory()
    for part in ("test/dryrun", "pkg/dryrun/testdata"):
        for expected in sorted((module / part).rglob("output.txt")):
            if YAML_ERRORS not in str(expected):
                yield expected.parent


def _printed(scenario: Path) -> tuple[str, int]:
    args = ["--policy", str(scenario / "policy.yaml")]
    fed = b""
    for path in sorted(scenario.glob("input*")):
        if path.name == "input_stdin.yaml":
            fed = path.read_bytes()
        else:
            args.append(str(path))
    for name, flag in (("desired_status.yaml", "--desired-status"), ("mappings.yaml", "--mappings-file")):
        if (scenario / name).exists():
            args += [flag, str(scenario / name)]
    args.append("--full-diffs" if "testdata" in scenario.parts else "--no-colors")
    done = CliRunner().invoke(command, args, input=fed)
    return done.stdout, done.exit_code


def test_upstreams_scenarios_print_what_upstream_expects() -> None:
    wrong, count = [], 0
    for scenario in _scenarios():
        count += 1
        expected = (scenario / "output.txt").read_text()
        printed, code = _printed(scenario)
        if printed != expected or code not in (0, 2):
            wrong.append(f"{scenario}, exit code {code}:\n--- expected\n{expected}--- printed\n{printed}")
    assert not wrong, "\n".join(wrong[:3])
    assert count > 40


def test_upstreams_policies_fare_alike() -> None:
    found: list[Case] = [case for case in cases() if YAML_ERRORS not in case.name]
    worlds = [{"policy": case.policy, "objects": case.objects} for case in found]
    wrong = []
    with logs.diverted(lambda _: None):
        for case, world, theirs in zip(found, worlds, ORACLE.play(worlds), strict=True):
            mine = ours(world, DEFAULT_KINDS)
            if parts := deviating(meant(mine), meant(theirs)):
                wrong.append(f"{case.name}: {parts}\n  theirs {theirs}\n  ours   {mine}")
    assert not wrong, "\n".join(wrong[:3])
    assert len(found) > 300
