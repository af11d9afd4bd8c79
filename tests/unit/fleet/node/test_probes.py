"""Probes decide what is ready and what is started again."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.stage import PODS, Stage, condition

STATE: dict[str, Any] = {"volumes": [{"name": "state", "emptyDir": {}}]}


def listening(port: int, **probes: Any) -> dict[str, Any]:
    return {
        "ports": [{"name": "http", "containerPort": port}],
        "volumeMounts": [{"name": "state", "mountPath": "/state"}],
        **probes,
    }


def http(path: str = "/healthz", **more: Any) -> dict[str, Any]:
    return {"httpGet": {"path": path, "port": "http"}, "periodSeconds": 1, "failureThreshold": 1, **more}


def mark_sick(stage: Stage, tmp_path: Path, name: str) -> Path:
    uid = stage.read(name)["metadata"]["uid"]
    file = tmp_path / "node" / "default" / "pods" / uid / "volumes" / "state" / "sick"
    file.touch()
    return file


@pytest.mark.parametrize("kind", ["http", "tcp"])
async def test_a_pod_is_ready_when_its_probe_succeeds(stage: Stage, kind: str) -> None:
    probe = http() if kind == "http" else {"tcpSocket": {"port": 8080}}
    await stage.pod("web", "listen", "8080", container=listening(8080, readinessProbe=probe), **STATE)
    await stage.ready("web")


async def test_a_probe_of_a_port_nobody_opens_keeps_a_pod_from_being_ready(stage: Stage) -> None:
    probe = {"tcpSocket": {"port": 9}, "periodSeconds": 1, "failureThreshold": 1}
    await stage.pod("web", "listen", "8080", container=listening(8080, readinessProbe=probe), **STATE)
    await stage.until(lambda: "Unhealthy" in dict(stage.events("web")), "an event tells")
    assert "Readiness probe failed: " in dict(stage.events("web"))["Unhealthy"]
    assert condition(stage.read("web"), "Ready") == "False"
    assert stage.status("web")["phase"] == "Running"
    assert stage.container("web")["started"]


async def test_readiness_comes_and_goes(stage: Stage, tmp_path: Path) -> None:
    await stage.pod("web", "listen", "8080", container=listening(8080, readinessProbe=http()), **STATE)
    await stage.ready("web")
    sick = mark_sick(stage, tmp_path, "web")
    await stage.until(lambda: condition(stage.read("web"), "Ready") == "False", "it is not ready")
    sick.unlink()
    await stage.ready("web")
    assert stage.container("web")["restartCount"] == 0


async def test_a_container_that_is_not_alive_is_started_again(stage: Stage, tmp_path: Path) -> None:
    await stage.pod("web", "listen", "8080", container=listening(8080, livenessProbe=http()), **STATE)
    await stage.ready("web")
    mark_sick(stage, tmp_path, "web")
    await stage.until(lambda: stage.container("web").get("restartCount", 0) >= 1, "it is restarted")
    events = [note for _, note in stage.events("web")]
    assert any("Container main failed liveness probe, will be restarted" in note for note in events)


async def test_a_startup_probe_holds_the_others_back(stage: Stage) -> None:
    probes = {"startupProbe": http("/", failureThreshold=30), "livenessProbe": http("/"), "readinessProbe": http("/")}
    await stage.pod("web", "listen", "8080", container=listening(8080, **probes), **STATE)
    await stage.ready("web")
    assert stage.container("web")["started"]


async def test_a_container_that_does_not_start_in_time_is_started_again(stage: Stage) -> None:
    probe = {"tcpSocket": {"port": 9}, "periodSeconds": 1, "failureThreshold": 1}
    await stage.pod("web", "listen", "8080", container=listening(8080, startupProbe=probe), **STATE)
    await stage.until(lambda: stage.container("web").get("restartCount", 0) >= 1, "it is restarted")
    assert condition(stage.read("web"), "Ready") == "False"


async def test_a_readiness_gate_is_waited_for(stage: Stage) -> None:
    await stage.pod("web", "serve", readinessGates=[{"conditionType": "example.com/ok"}])
    await stage.until(lambda: condition(stage.read("web"), "ContainersReady") == "True", "the containers are ready")
    assert condition(stage.read("web"), "Ready") == "False"
    said = {"type": "example.com/ok", "status": "True"}
    await stage.client.patch(PODS, "web", {"status": {"conditions": [said]}}, "default", kind="strategic", subresource="status")
    await stage.ready("web")
    assert condition(stage.read("web"), "example.com/ok") == "True"
