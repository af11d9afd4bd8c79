"""Images that are not ours, on a node that simulates them: they count as running, and say that nothing of them does."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from muster.operator.pod_namespaces import MAY_RUN
from muster.runtime.client.builtin import JOBS, NAMESPACES, PERSISTENT_VOLUME_CLAIMS, SECRETS
from tests.support.stage import DEPLOYMENTS, IMAGE, PODS, Stage, condition, open_stage
from tests.unit.fleet.node.conftest import PROGRAMS
from tests.unit.fleet.workloads.test_deployments import deployment, rolled_out


@pytest.fixture
async def simulating(tmp_path: Path) -> AsyncIterator[Stage]:
    """In a namespace that lets no pods run."""
    async with open_stage(PROGRAMS, tmp_path / "node", simulate=True) as opened:
        await opened.client.patch(NAMESPACES, "default", {"metadata": {"labels": {MAY_RUN: None}}})
        yield opened


async def test_a_deployment_is_available_and_its_pods_say_what_they_are(simulating: Stage) -> None:
    await simulating.client.create(DEPLOYMENTS, deployment("web", "--port", "80", image="nginx:1.29"))
    await rolled_out(simulating, "web")
    pod = next(iter(simulating.cluster.scan("/pods")))["metadata"]["name"]
    log = await simulating.log(pod)
    assert log.startswith('simulated: image "nginx:1.29" does not run here, nothing of it does with --port 80\n')
    assert "counts as ready until it is stopped" in log
    told = dict(simulating.events(pod)) or await simulating.until(lambda: dict(simulating.events(pod)), "it is told")
    await simulating.until(lambda: "Started" in dict(simulating.events(pod)), f"its start is told: {told}")
    assert dict(simulating.events(pod))["Started"] == "Container started, simulated: nothing of its image runs"


async def test_pods_that_are_to_end_succeed_after_their_initial_containers(simulating: Stage) -> None:
    initial = [{"name": "first", "image": "busybox"}, {"name": "beside", "image": "proxy", "restartPolicy": "Always"}]
    spec = {"containers": [{"name": "main", "image": "busybox"}], "initContainers": initial, "restartPolicy": "Never"}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "sum"}, "spec": {"template": {"spec": spec}}}
    await simulating.client.create(JOBS, job, "default")
    await simulating.until(lambda: condition(simulating.read("sum", "batch/jobs"), "Complete") == "True", "it is complete")


async def test_probes_and_volumes_that_no_machine_has_do_not_hold_it_up_but_a_missing_secret_does(simulating: Stage) -> None:
    wanted = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}, "spec": wanted}
    await simulating.client.create(PERSISTENT_VOLUME_CLAIMS, claim, "default")
    probe = {"httpGet": {"path": "/", "port": 80}}
    volumes: list[dict[str, Any]] = [
        {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "key", "secret": {"secretName": "key"}},
    ]
    container = {"readinessProbe": probe, "livenessProbe": probe, "volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    await simulating.pod("web", image="nginx", container=container, volumes=volumes)
    await simulating.until(lambda: any(reason == "FailedMount" for reason, _ in simulating.events("web")), "it waits")
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key"}, "stringData": {"a": "b"}}
    await simulating.client.create(SECRETS, secret, "default")
    await simulating.ready("web")


async def test_our_own_image_still_needs_leave_to_run_even_in_the_place_of_another(simulating: Stage) -> None:
    await simulating.pod("ours", "serve")
    await simulating.until(lambda: condition(simulating.read("ours"), "PodScheduled") == "False", "it waits")
    await simulating.pod("theirs", "serve", image="nginx", terminationGracePeriodSeconds=1)
    await simulating.ready("theirs")
    change = {"spec": {"containers": [{"name": "main", "image": IMAGE}]}}
    await simulating.client.patch(PODS, "theirs", change, "default", kind="strategic")
    await simulating.until(lambda: condition(simulating.read("theirs"), "Ready") == "False", "it is stopped")
    assert "serving" not in await simulating.log("theirs")
    await simulating.client.patch(NAMESPACES, "default", {"metadata": {"labels": {MAY_RUN: "true"}}})
    for name in ("ours", "theirs"):
        await simulating.ready(name)
    assert "serving" in await simulating.log("theirs")


async def test_a_simulated_pod_is_gone_as_soon_as_it_is_deleted(simulating: Stage) -> None:
    await simulating.pod("web", image="nginx")
    await simulating.ready("web")
    await simulating.client.delete(PODS, "web", "default")
    await simulating.gone("web")
