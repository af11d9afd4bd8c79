"""Monitors, alerts, dashboard and the page about them name metrics, pods and ports that there are."""

from __future__ import annotations

import json
import re
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest

from muster.accounts.names import ADDON
from muster.gateway.names import COMPONENT
from muster.kube import yaml
from muster.operator.names import CLUSTER_MANAGER_LABEL, KLUSTERLET_LABEL
from muster.policy.names import CONFIG_POLICY_ADDON
from tests.support.declared_metrics import declared_metrics

ROOT = Path(__file__).parents[2]
MONITORING = ROOT / "deploy/monitoring"
PAGE = ROOT / "docs/observability.md"
PROMETHEUS_OWN = {"up"}
_WORDS = {"and", "or", "unless", "bool", "offset"}
_LEFT_OUT = (
    r'"[^"]*"',
    r"\{[^}]*\}",
    r"\[[^\]]*\]",
    r"\b(by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)",
)


def documents(file: str) -> list[dict[str, Any]]:
    return [one for one in yaml.load_all((MONITORING / file).read_bytes()) if one]


def alerts() -> list[dict[str, Any]]:
    (rules,) = documents("alerts.yaml")
    return [rule for group in rules["spec"]["groups"] for rule in group["rules"]]


def queries() -> dict[str, str]:
    board = json.loads((MONITORING / "dashboard.json").read_text())
    return {panel["title"]: target["expr"] for panel in board["panels"] for target in panel["targets"]}


def metrics_in(expression: str) -> set[str]:
    """What a PromQL expression reads: names that are neither functions nor words of the language."""
    for pattern in _LEFT_OUT:
        expression = re.sub(pattern, " ", expression)
    return set(re.findall(r"\b[a-zA-Z_:][\w:]*\b(?!\s*\()", expression)) - _WORDS


def is_declared(metric: str) -> bool:
    for one in declared_metrics():
        series = [f"{one.pattern}_{part}" for part in ("bucket", "sum", "count")] if one.kind == "histogram" else [one.pattern]
        if any(fnmatchcase(metric, pattern) for pattern in series):
            return True
    return metric in PROMETHEUS_OWN


def test_what_an_expression_reads_is_found() -> None:
    assert metrics_in('sum by (a) (rate(b_total{c="d"}[5m])) > 0 and on (e) f == 1') == {"b_total", "f"}


@pytest.mark.parametrize("rule", alerts(), ids=lambda rule: str(rule["alert"]))
def test_every_metric_of_an_alert_is_declared(rule: dict[str, Any]) -> None:
    read = metrics_in(rule["expr"])
    assert read
    assert [metric for metric in read if not is_declared(metric)] == []
    assert rule["labels"]["severity"] in ("critical", "warning")
    assert set(rule["annotations"]) == {"summary", "description"}


@pytest.mark.parametrize("title", queries())
def test_every_metric_of_the_dashboard_is_declared(title: str) -> None:
    read = metrics_in(queries()[title])
    assert read
    assert [metric for metric in read if not is_declared(metric)] == []


def test_a_metric_that_nobody_declares_is_found_out() -> None:
    assert not is_declared("muster_managed_clusters")
    assert not is_declared("muster_managed_cluster_join_duration_seconds")
    assert is_declared("muster_managed_cluster_join_duration_seconds_bucket")


def test_the_page_has_every_metric_of_our_own_and_none_that_is_not_declared() -> None:
    described = set(re.findall(r"^\| `([a-z_:]+)", PAGE.read_text(), re.MULTILINE))
    declared = {one.pattern for one in declared_metrics()}
    assert {name for name in declared if name.startswith("muster_")} - described == set()
    assert [name for name in described if not any(fnmatchcase(name, pattern) for pattern in declared)] == []


def test_the_page_says_what_to_do_about_every_alert() -> None:
    assert set(re.findall(r"^\| `(Muster\w+)`", PAGE.read_text(), re.MULTILINE)) == {rule["alert"] for rule in alerts()}


def test_monitors_select_what_operators_and_addons_deploy() -> None:
    monitors = {one["metadata"]["name"]: one["spec"] for one in documents("monitors.yaml")}

    def expression(name: str) -> dict[str, Any]:
        (found,) = monitors[name]["selector"]["matchExpressions"]
        return dict(found)

    assert expression("muster-hub") == {"key": CLUSTER_MANAGER_LABEL, "operator": "Exists"}
    assert expression("muster-agents") == {"key": KLUSTERLET_LABEL, "operator": "Exists"}
    for name in ("muster-operators", "muster-hub", "muster-agents", "muster-addon-agents"):
        assert [endpoint["port"] for endpoint in monitors[name]["podMetricsEndpoints"]] == ["health"]
    for operator in ("cluster-manager", "klusterlet"):
        bundle = yaml.load_all((ROOT / "deploy" / operator / "operator.yaml").read_bytes())
        (deployment,) = [one for one in bundle if one and one["kind"] == "Deployment"]
        assert deployment["metadata"]["namespace"] in monitors["muster-operators"]["namespaceSelector"]["matchNames"]
        template = deployment["spec"]["template"]
        assert template["metadata"]["labels"]["app"] in expression("muster-operators")["values"]
        assert "health" in {port["name"] for container in template["spec"]["containers"] for port in container["ports"]}


def test_the_monitor_of_addons_selects_their_agents() -> None:
    (monitor,) = [one["spec"] for one in documents("monitors.yaml") if one["metadata"]["name"] == "muster-addon-agents"]
    (expression,) = monitor["selector"]["matchExpressions"]
    assert expression["key"] == "addon-agent"
    assert set(expression["values"]) == {ADDON, COMPONENT}


def test_the_monitor_of_policies_selects_their_service() -> None:
    (monitor,) = [one["spec"] for one in documents("monitors.yaml") if one["kind"] == "ServiceMonitor"]
    assert monitor["selector"]["matchLabels"] == {"app": CONFIG_POLICY_ADDON}
    assert [endpoint["port"] for endpoint in monitor["endpoints"]] == ["metrics"]
