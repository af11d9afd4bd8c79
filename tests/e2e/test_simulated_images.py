"""`muster up --simulate-images`: workloads of images that are not Muster's, rolled out and looked at with kubectl."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.local_fleet import Fleet, eventually
from tests.support.sites import embedded_only

pytestmark = embedded_only

WORKLOADS = """\
apiVersion: v1
kind: List
items:
- apiVersion: apps/v1
  kind: StatefulSet
  metadata: {name: db}
  spec: {replicas: 2, serviceName: db, selector: {matchLabels: {app: db}}, template: {metadata: {labels: {app: db}}, spec: &pod {
    terminationGracePeriodSeconds: 1, containers: [{name: main, image: "db:1"}]}}}
- apiVersion: apps/v1
  kind: DaemonSet
  metadata: {name: agent}
  spec: {selector: {matchLabels: {app: agent}}, template: {metadata: {labels: {app: agent}}, spec: *pod}}
- apiVersion: batch/v1
  kind: Job
  metadata: {name: sum}
  spec: {completions: 2, template: {spec: {restartPolicy: Never, containers: [{name: main, image: busybox}]}}}
- apiVersion: batch/v1
  kind: CronJob
  metadata: {name: nightly}
  spec: {schedule: "0 3 * * *", timeZone: Europe/Berlin, jobTemplate: {spec: {template: {spec: {
    restartPolicy: OnFailure, containers: [{name: main, image: busybox}]}}}}}
"""


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    made = Fleet(tmp_path_factory.mktemp("simulated") / "data")
    made("up", "--detach", "--port", "0", "--clusters", "0", "--no-gateway", "--simulate-images")
    file = made.directory.parent / "workloads.yaml"
    file.write_text(WORKLOADS)
    made.kubectl("apply", "-f", str(file))
    yield made
    made.end()


def found(fleet: Fleet, what: str) -> dict[str, Any]:
    seen: dict[str, Any] = json.loads(fleet.kubectl("get", what, "-o", "json"))
    return seen


def image(fleet: Fleet, what: str) -> str:
    return str(found(fleet, what)["spec"]["template"]["spec"]["containers"][0]["image"])


def test_a_deployment_is_rolled_out_and_its_log_says_that_it_is_simulated(fleet: Fleet) -> None:
    fleet.kubectl("create", "deployment", "web", "--image=nginx", "--replicas=2")
    fleet.kubectl("rollout", "status", "deployment/web", "--timeout=30s")
    fleet.kubectl("wait", "--for=condition=Available", "deployment/web", "--timeout=30s")
    assert 'simulated: image "nginx" does not run here' in fleet.kubectl("logs", "deployment/web")


@pytest.mark.parametrize("what", ["statefulset/db", "daemonset/agent"])
def test_rollouts_are_followed_undone_and_restarted(fleet: Fleet, what: str) -> None:
    def rolled_out() -> None:
        assert "complete" in (said := fleet.kubectl("rollout", "status", what, "--timeout=30s")) or "successfully" in said

    rolled_out()
    fleet.kubectl("set", "image", what, "main=db:2")
    rolled_out()
    assert {"1", "2"} <= set(fleet.kubectl("rollout", "history", what).split())
    assert "db:1" in fleet.kubectl("rollout", "history", what, "--revision=1")
    fleet.kubectl("rollout", "undo", what)
    rolled_out()
    assert image(fleet, what) == "db:1"
    fleet.kubectl("rollout", "restart", what)
    rolled_out()
    pods = json.loads(fleet.kubectl("get", "pods", "-l", f"app={what.partition('/')[2]}", "-o", "json"))["items"]
    assert pods
    assert all("kubectl.kubernetes.io/restartedAt" in pod["metadata"]["annotations"] for pod in pods)


def test_jobs_complete_and_cron_jobs_make_them(fleet: Fleet) -> None:
    fleet.kubectl("wait", "--for=condition=Complete", "job/sum", "--timeout=30s")
    assert "simulated" in fleet.kubectl("logs", "job/sum")
    assert fleet.kubectl("get", "job", "sum", "-o", "jsonpath={.status.succeeded}") == "2"
    fleet.kubectl("create", "job", "tonight", "--from=cronjob/nightly")
    fleet.kubectl("wait", "--for=condition=Complete", "job/tonight", "--timeout=30s")
    eventually(lambda: bool(found(fleet, "cronjob/nightly")["status"].get("lastSuccessfulTime")), "the cron job has seen it")


def test_it_is_kept_until_it_is_asked_for_otherwise(fleet: Fleet) -> None:
    refused = fleet("up", "--no-simulate-images", code=None)
    assert refused.code
    assert "muster down" in refused.err
    fleet("down")
    fleet("up", "--detach")
    fleet.kubectl("create", "deployment", "later", "--image=nginx")
    fleet.kubectl("rollout", "status", "deployment/later", "--timeout=30s")
    fleet("down")
    fleet("up", "--detach", "--no-simulate-images")
    fleet.kubectl("run", "last", "--image=nginx")
    message = ("get", "pod", "last", "-o", "jsonpath={.status.conditions[*].message}")
    eventually(lambda: "pods-may-run" in fleet.kubectl(*message), "its namespace does not let it run")
    fleet.kubectl("label", "namespace", "default", "open-cluster-management.io/pods-may-run=true")
    reason = ("get", "pod", "last", "-o", "jsonpath={.status.containerStatuses[0].state.waiting.reason}")
    eventually(lambda: fleet.kubectl(*reason) == "ImageNotRunnable", "it says why it does not run")
    selected = "reason=ImageNotRunnable,involvedObject.name=last"
    events = ("get", "events", "--field-selector", selected, "-o", "jsonpath={.items[*].type}")
    eventually(lambda: fleet.kubectl(*events) == "Warning", "one Event says so")
