"""The five gravest alerts: their causes are made on a fleet, and what a scrape of its pods shows then makes them fire.

Targets are the pods that deploy/monitoring/monitors.yaml selects. Prometheus' time is played by promtool: each scrape stands for
three minutes, so nobody waits for what the rules wait for.
"""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import pytest

from muster.kube import yaml
from muster.kube.selectors import from_label_selector_object
from tests.interop.test_monitoring import promtool, write_rules
from tests.support.local_fleet import Fleet, eventually
from tests.support.peers import ROOT
from tests.support.processes import free_ports

MINUTES = 3
"""For which a scrape stands."""
HEALTHY, BROKEN = 8, 8
"""Scrapes before the causes, and after."""
HUB, OPERATORS, AGENTS = "open-cluster-management-hub", "open-cluster-management", "open-cluster-management-agent"
WORK: dict[str, Any] = {
    "apiVersion": "work.open-cluster-management.io/v1",
    "kind": "ManifestWork",
    "spec": {
        "workload": {"manifests": [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": "nowhere"}}]}
    },
}
EXECUTOR = {"subject": {"type": "ServiceAccount", "serviceAccount": {"namespace": "default", "name": "x"}}}
LINE = re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)$")


class Scrapes:
    """Values of all series, scrape by scrape."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._values: defaultdict[str, list[str]] = defaultdict(list)
        self._count = 0

    def take(self, times: int = 1) -> None:
        found: dict[str, str] = {}
        for context in ("hub", "cluster1"):
            for job, pod in self._targets(context):
                found |= scrape(job, pod)
        for _ in range(times):
            for series in {*self._values, *found}:
                values = self._values[series]
                values += ["_"] * (self._count - len(values)) + [found.get(series, "stale")]
            self._count += 1

    def _targets(self, context: str) -> Iterator[tuple[str, dict[str, Any]]]:
        pods = json.loads(self._fleet.kubectl("get", "pods", "-A", "-o", "json", context=context))["items"]
        for monitor in yaml.load_all((ROOT / "deploy/monitoring/monitors.yaml").read_bytes()):
            if not monitor or monitor["kind"] != "PodMonitor":
                continue
            spec = monitor["spec"]
            namespaces = spec["namespaceSelector"].get("matchNames")
            selector = from_label_selector_object(spec["selector"])
            for pod in pods:
                metadata = pod["metadata"]
                chosen = namespaces is None or metadata["namespace"] in namespaces
                if chosen and selector.matches(metadata.get("labels") or {}) and pod["status"].get("podIP"):
                    yield f"monitoring/{monitor['metadata']['name']}", pod

    def input_series(self) -> list[dict[str, str]]:
        return [
            {"series": series, "values": " ".join(value for value in values for _ in range(MINUTES))}
            for series, values in self._values.items()
        ]


def scrape(job: str, pod: dict[str, Any]) -> dict[str, str]:
    metadata = pod["metadata"]
    target = f'namespace="{metadata["namespace"]}",pod="{metadata["name"]}"'
    (port,) = [one["containerPort"] for one in pod["spec"]["containers"][0]["ports"] if one["name"] == "health"]
    try:
        with urllib.request.urlopen(f"http://{pod['status']['podIP']}:{port}/metrics", timeout=5) as answer:
            text = answer.read().decode()
    except (urllib.error.URLError, OSError):
        return {f'up{{job="{job}",{target}}}': "0"}
    found = {f'up{{job="{job}",{target}}}': "1"}
    for line in text.splitlines():
        if not line.startswith("#") and (parts := LINE.match(line)):
            name, labels, value = parts.groups()
            found[f"{name}{{{target}{',' + labels if labels else ''}}}"] = value
    return found


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    fleet = Fleet(tmp_path_factory.mktemp("alerts") / "fleet")
    (port,) = free_ports(1)
    fleet("up", "-d", "--port", str(port), "--clusters", "1")
    yield fleet
    fleet.end()


def apply(fleet: Fleet, directory: Path, name: str, **spec: Any) -> None:
    file = directory / f"{name}.json"
    metadata = {"name": name, "namespace": "cluster1"}
    file.write_bytes(orjson.dumps({**WORK, "metadata": metadata, "spec": {**WORK["spec"], **spec}}))
    fleet.kubectl("apply", "-f", str(file))


def undecided(fleet: Fleet, directory: Path) -> None:
    with pytest.raises(AssertionError, match="ServiceUnavailable"):
        apply(fleet, directory, "unjudged", executor=EXECUTOR)


def break_it(fleet: Fleet, directory: Path) -> None:
    # Operators would mend what follows.
    fleet.kubectl("scale", "deployment", "cluster-manager", "-n", OPERATORS, "--replicas=0")
    fleet.kubectl("scale", "deployment", "klusterlet", "-n", OPERATORS, "--replicas=0", context="cluster1")
    for context in ("hub", "cluster1"):
        fleet.kubectl("wait", "pod", "--all", "-n", OPERATORS, "--for=delete", "--timeout=30s", context=context)
    # The agent is gone.
    fleet.kubectl("patch", "managedcluster", "cluster1", "--type=merge", "-p", '{"spec":{"leaseDurationSeconds":1}}')
    fleet.kubectl("scale", "deployment", "klusterlet-registration-agent", "-n", AGENTS, "--replicas=0", context="cluster1")
    # A stranger holds the lease, and goes on holding it.
    held = {"holderIdentity": "stranger", "leaseDurationSeconds": 3600, "renewTime": f"{datetime.now(UTC):%FT%T.000000Z}"}
    fleet.kubectl("patch", "lease", "manager-lock", "-n", HUB, "--type=merge", "-p", orjson.dumps({"spec": held}).decode())
    # The webhook may not ask whether a user may execute.
    fleet.kubectl("delete", "clusterrolebinding", "open-cluster-management:cluster-manager-work:webhook")
    # A new version of a component does not start.
    flag = [{"op": "add", "path": "/spec/template/spec/containers/0/args/-", "value": "--no-such-flag"}]
    placement = ("deployment", "cluster-manager-placement-controller", "-n", HUB)
    fleet.kubectl("patch", *placement, "--type=json", "-p", orjson.dumps(flag).decode())
    # A work cannot be applied.
    apply(fleet, directory, "stuck")
    fleet.kubectl("wait", "manifestwork/stuck", "-n", "cluster1", "--for=condition=Applied=False", "--timeout=30s")
    fleet.kubectl("wait", "managedcluster/cluster1", "--for=condition=ManagedClusterConditionAvailable=Unknown", "--timeout=60s")


def test_causes_on_a_fleet_fire_the_five_gravest_alerts(fleet: Fleet, tmp_path: Path) -> None:
    scrapes = Scrapes(fleet)
    scrapes.take(HEALTHY)
    break_it(fleet, tmp_path)

    def of(app: str, context: str = "hub") -> list[dict[str, Any]]:
        pods = json.loads(fleet.kubectl("get", "pods", "-A", "-o", "json", context=context))["items"]
        return [pod for pod in pods if pod["metadata"]["name"].startswith(app)]

    def crashed() -> list[str]:
        placement = of("cluster-manager-placement-controller")
        return [pod["metadata"]["name"] for pod in placement if pod["status"]["containerStatuses"][0]["restartCount"]]

    def follows() -> bool:
        (manager,) = of("cluster-manager-addon-manager-controller")
        return "0" in [value for name, value in scrape("", manager).items() if name.startswith("leader_election_master_status")]

    eventually(lambda: bool(crashed()), "the new version has failed")
    eventually(follows, "the manager leads no more", seconds=60)
    for _ in range(BROKEN):
        undecided(fleet, tmp_path)
        scrapes.take()
    (agent,) = [pod["metadata"]["name"] for pod in of("klusterlet-work-agent", "cluster1")]
    hook = "/validate-work-open-cluster-management-io-v1-manifestwork"
    fire = {
        "MusterManagedClusterUnavailable": {"severity": "critical", "namespace": HUB, "cluster": "cluster1"},
        "MusterWorksNotApplied": {"severity": "warning", "namespace": AGENTS, "pod": agent},
        "MusterTargetDown": {"severity": "critical", "namespace": HUB, "pod": crashed()[0], "job": "monitoring/muster-hub"},
        "MusterLeaderMissing": {"severity": "critical", "namespace": HUB, "name": "manager-lock"},
        "MusterWebhookFailing": {"severity": "critical", "namespace": HUB, "webhook": hook},
    }
    before, after = f"{MINUTES * HEALTHY - 1}m", f"{MINUTES * (HEALTHY + BROKEN) - 1}m"
    cases: list[dict[str, Any]] = [{"eval_time": before, "alertname": name, "exp_alerts": []} for name in fire]
    cases += [{"eval_time": after, "alertname": name, "exp_alerts": [{"exp_labels": labels}]} for name, labels in fire.items()]
    test = {"interval": "1m", "input_series": scrapes.input_series(), "alert_rule_test": cases}
    write_rules(tmp_path)
    file = tmp_path / "cases.yaml"
    file.write_bytes(orjson.dumps({"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": [test]}))
    promtool("test", "rules", str(file))
