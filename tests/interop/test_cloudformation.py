"""cfn-lint, which has AWS' own schemas, agrees with the templates that `clusteradm aws prerequisites` prints."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from muster.administration.aws.prerequisites import MODES
from muster.cli.clusteradm import main
from tests.support import peers

HUB = ("--hub-cluster-arn", "arn:aws:eks:us-west-2:111111111111:cluster/hub-0")
MANAGED = ("--managed-cluster-arn", "arn:aws:eks:us-west-2:222222222222:cluster/managed-0")
ISSUER = ("--oidc-provider", "https://oidc.eks.us-west-2.amazonaws.com/id/0123456789ABCDEF0123456789ABCDEF")
TEMPLATES = {
    **{f"hub-{mapping}": ("hub", *HUB, "--aws-mapping", mapping) for mapping in ("auto", "aws-auth", "access-entry")},
    **{f"managed-{mode}": ("managed", *HUB, *MANAGED, "--mode", mode) for mode in MODES},
    "managed-named": ("managed", *HUB, *MANAGED, "--klusterlet", "second", "--namespace", "open-cluster-management-second"),
}


def template(*words: str) -> str:
    done = CliRunner().invoke(main, ["aws", "prerequisites", *words, *ISSUER, "-o", "cloudformation"])
    assert done.exit_code == 0, done.output
    return done.stdout


def findings(*templates: Path) -> list[dict[str, Any]]:
    """What the judge has to say; it is asked for everything, remarks included."""
    line: list[str | Path] = [
        peers.python_program("cfnlint", "cfn-lint"),
        "--include-checks",
        "I",
        "--format",
        "json",
        "--",
        *templates,
    ]
    done = subprocess.run(line, capture_output=True, text=True, timeout=120)
    assert done.stdout, done.stderr
    return list(json.loads(done.stdout))


@pytest.mark.timeout(180)
def test_no_fault_is_found_with_any_template(tmp_path: Path) -> None:
    for name, words in TEMPLATES.items():
        (tmp_path / f"{name}.json").write_text(template(*words))
    assert findings(*sorted(tmp_path.glob("*.json"))) == []


@pytest.mark.timeout(180)
def test_a_fault_would_be_found(tmp_path: Path) -> None:
    """Of each kind that a template of ours could have: an unknown property, a policy that is none, a name that is too long."""
    sound = json.loads(template("hub", *HUB))
    properties = sound["Resources"]["Role"]["Properties"]
    faults = {
        "property": {**properties, "Rolename": "x"},
        "policy": {**properties, "Policies": [{"PolicyName": "x", "PolicyDocument": {"Statement": [{"Effect": "Perhaps"}]}}]},
        "name": {**properties, "RoleName": "x" * 65},
    }
    for name, spoilt in faults.items():
        document = {**sound, "Resources": {"Role": {**sound["Resources"]["Role"], "Properties": spoilt}}}
        (tmp_path / f"{name}.json").write_text(json.dumps(document))
    found = {Path(one["Filename"]).stem for one in findings(*sorted(tmp_path.glob("*.json")))}
    assert found == set(faults)
