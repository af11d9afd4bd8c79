"""promtool, Prometheus' own judge of rules, on the alerts in deploy/monitoring: each fires on its cause, and only on that."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import orjson
import pytest

from muster.kube import yaml
from tests.support.peers import ROOT, own_program

ALERTS = ROOT / "deploy/monitoring/alerts.yaml"
CASES = Path(__file__).parent / "monitoring/alert_cases.yaml"


def promtool(*words: str) -> None:
    done = subprocess.run([str(own_program("prometheus")), *words], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, f"promtool {words}\n{done.stdout}\n{done.stderr}"


def rules() -> dict[str, Any]:
    (document,) = [one for one in yaml.load_all(ALERTS.read_bytes()) if one]
    return dict(document["spec"])


def write_rules(directory: Path) -> None:
    """As `rules.yaml`, without annotations: promtool compares texts word by word, and those are for people."""
    bare = rules()
    for group in bare["groups"]:
        for rule in group["rules"]:
            del rule["annotations"]
    (directory / "rules.yaml").write_bytes(orjson.dumps(bare))


def cases() -> list[dict[str, Any]]:
    (document,) = [one for one in yaml.load_all(CASES.read_bytes()) if one]
    return list(document["tests"])


def names() -> set[str]:
    return {rule["alert"] for group in rules()["groups"] for rule in group["rules"]}


def test_prometheus_accepts_the_rules(tmp_path: Path) -> None:
    file = tmp_path / "rules.yaml"
    file.write_bytes(orjson.dumps(rules()))
    promtool("check", "rules", str(file))


def test_each_alert_fires_on_its_cause_once_it_has_lasted_and_not_without(tmp_path: Path) -> None:
    write_rules(tmp_path)
    (tmp_path / CASES.name).write_bytes(CASES.read_bytes())
    promtool("test", "rules", str(tmp_path / CASES.name))


def test_no_alert_goes_without_cases() -> None:
    healthy, *broken = cases()
    assert {case["alertname"] for case in healthy["alert_rule_test"] if not case["exp_alerts"]} == names()
    assert {case["alertname"] for one in broken for case in one["alert_rule_test"] if case["exp_alerts"]} == names()
    assert {case["alertname"] for one in broken for case in one["alert_rule_test"] if not case["exp_alerts"]} == names()


@pytest.mark.parametrize("group", rules()["groups"], ids=lambda group: str(group["name"]))
def test_every_alert_lasts_before_it_fires(group: dict[str, Any]) -> None:
    assert all(rule.get("for") for rule in group["rules"])
