"""Table cells: those the real server showed for recorded objects (data/cells.json), and pods in states hard to get into."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from muster.apiserver.builtin.cells import Live
from muster.apiserver.registry.resource import ServedResource
from tests.unit.registry.judge import row

RECORDED: list[dict[str, Any]] = json.loads((Path(__file__).parent / "data/cells.json").read_text())
NOW = datetime(2026, 1, 2, tzinfo=UTC)


def cells(resource: ServedResource, obj: dict[str, Any], now: datetime = NOW) -> dict[str, Any]:
    shown = {}
    for column in resource.columns:
        assert column.render is not None
        value = column.render(obj)
        if column.path == ".metadata.creationTimestamp":
            value = Live(datetime.fromisoformat(value)) if value else "<unknown>"
        shown[column.name] = value.text(now) if isinstance(value, Live) else value
    return shown


@pytest.mark.parametrize("sample", RECORDED, ids=lambda s: f"{s['object']['kind']}-{s['object']['metadata']['name']}")
def test_a_row_shows_what_the_real_server_shows(sample: dict[str, Any]) -> None:
    obj = sample["object"]
    found = cells(row(obj["apiVersion"], obj["kind"]), obj, datetime.fromisoformat(sample["at"]))
    recorded = dict(zip(sample["columns"], sample["cells"], strict=False))
    assert list(found) == sample["columns"]
    ages = {name for name, value in found.items() if value != recorded[name] and name in ("Age", "Last Seen", "First Seen")}
    assert {k: v for k, v in found.items() if k not in ages} == {k: v for k, v in recorded.items() if k not in ages}
    assert all(str(found[name]).endswith("s") and str(recorded[name]).endswith("s") for name in ages), "only seconds may tick"


def pod(status: dict[str, Any], spec: dict[str, Any] | None = None, **meta: Any) -> dict[str, Any]:
    return {"metadata": {"name": "p", **meta}, "spec": {"containers": [{"name": "c"}], **(spec or {})}, "status": status}


def container(state: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"name": "c", "ready": False, "restartCount": 0, "state": state, **fields}


INIT = {"initContainers": [{"name": "i"}, {"name": "j"}]}
SIDECAR = {"initContainers": [{"name": "s", "restartPolicy": "Always"}]}


@pytest.mark.parametrize(
    ("obj", "ready", "status"),
    [
        (pod({"phase": "Pending"}), "0/1", "Pending"),
        (pod({"phase": "Failed", "reason": "Evicted"}), "0/1", "Evicted"),
        (pod({"conditions": [{"type": "PodScheduled", "reason": "SchedulingGated"}]}), "0/1", "SchedulingGated"),
        (pod({"containerStatuses": [container({"terminated": {"exitCode": 3}})]}), "0/1", "ExitCode:3"),
        (pod({"containerStatuses": [container({"terminated": {"exitCode": 1, "signal": 9}})]}), "0/1", "Signal:9"),
        (pod({"containerStatuses": [container({"terminated": {"exitCode": 0, "reason": "Completed"}})]}), "0/1", "Completed"),
        (pod({"initContainerStatuses": [container({"running": {}})]}, INIT), "0/1", "Init:0/2"),
        (pod({"initContainerStatuses": [container({"terminated": {"exitCode": 2}})]}, INIT), "0/1", "Init:ExitCode:2"),
        (pod({"initContainerStatuses": [container({"waiting": {"reason": "ErrImagePull"}})]}, INIT), "0/1", "Init:ErrImagePull"),
        (
            pod({"phase": "Running", "initContainerStatuses": [container({}, name="s", started=True, ready=True)]}, SIDECAR),
            "1/2",
            "Running",
        ),
        (pod({"phase": "Running"}, deletionTimestamp="2026-01-01T00:00:00Z"), "0/1", "Terminating"),
        (pod({"phase": "Succeeded"}, deletionTimestamp="2026-01-01T00:00:00Z"), "0/1", "Succeeded"),
        (pod({"reason": "NodeLost"}, deletionTimestamp="2026-01-01T00:00:00Z"), "0/1", "Unknown"),
    ],
)
def test_a_pods_state_is_summed_up(obj: dict[str, Any], ready: str, status: str) -> None:
    shown = cells(row("v1", "Pod"), obj)
    assert (shown["Ready"], shown["Status"]) == (ready, status)


def test_a_pod_with_one_container_still_running_is_not_completed() -> None:
    done = container({"terminated": {"exitCode": 0, "reason": "Completed"}})
    running = container({"running": {}}, ready=True)
    obj = pod({"phase": "Running", "containerStatuses": [done, running]}, {"containers": [{}, {}]})
    assert cells(row("v1", "Pod"), obj)["Status"] == "NotReady"
    obj["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    assert cells(row("v1", "Pod"), obj)["Status"] == "Running"


def test_an_age_inside_a_cell_ticks() -> None:
    last = {"terminated": {"exitCode": 1, "finishedAt": "2026-01-01T23:55:00Z"}}
    obj = pod({"containerStatuses": [container({"running": {}}, restartCount=3, lastState=last)]})
    assert cells(row("v1", "Pod"), obj, NOW)["Restarts"] == "3 (5m ago)"
    assert cells(row("v1", "Pod"), obj, NOW + timedelta(minutes=10))["Restarts"] == "3 (15m ago)"


def test_a_finished_jobs_duration_stands_still() -> None:
    obj = {"metadata": {"name": "j"}, "spec": {"completions": 2}, "status": {"succeeded": 2, "startTime": "2026-01-01T00:00:00Z"}}
    obj["status"] |= {"completionTime": "2026-01-01T00:01:05Z", "conditions": [{"type": "Complete", "status": "True"}]}  # type: ignore[operator]
    shown = cells(row("batch/v1", "Job"), obj)
    assert (shown["Status"], shown["Completions"], shown["Duration"]) == ("Complete", "2/2", "65s")


@pytest.mark.parametrize(
    ("metric", "current", "shown"),
    [
        ({"type": "Resource", "resource": {"name": "cpu", "target": {"averageUtilization": 50}}}, {}, "cpu: <unknown>/50%"),
        (
            {"type": "Resource", "resource": {"name": "memory", "target": {"averageValue": "1Gi"}}},
            {"resource": {"current": {"averageValue": "500Mi"}}},
            "memory: 500Mi/1Gi",
        ),
        ({"type": "Pods", "pods": {"target": {"averageValue": "5"}}}, {"pods": {"current": {"averageValue": "3"}}}, "3/5"),
        ({"type": "External", "external": {"target": {"value": "5"}}}, {"external": {"current": {"value": "3"}}}, "3/5"),
        ({"type": "Object", "object": {"target": {"averageValue": "5"}}}, {}, "<unknown>/5 (avg)"),
    ],
)
def test_an_autoscalers_targets_are_shown(metric: dict[str, Any], current: dict[str, Any], shown: str) -> None:
    obj = {"metadata": {"name": "h"}, "spec": {"metrics": [metric]}, "status": {"currentMetrics": [current]}}
    assert cells(row("autoscaling/v2", "HorizontalPodAutoscaler"), obj)["Targets"] == shown
