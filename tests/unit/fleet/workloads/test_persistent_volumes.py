"""Claims on a node that simulates images are bound as a volume controller and a provisioner would, or say why they are not."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from muster.fleet.workloads.persistent_volumes import PROVISIONER
from muster.runtime.client.builtin import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, STATEFUL_SETS, STORAGE_CLASSES
from tests.support.stage import PODS, Stage, condition, open_stage
from tests.unit.fleet.node.conftest import PROGRAMS

CLAIMS, VOLUMES, CLASSES = "/persistentvolumeclaims", "/persistentvolumes", "storage.k8s.io/storageclasses"


@pytest.fixture
async def simulating(tmp_path: Path) -> AsyncIterator[Stage]:
    async with open_stage(PROGRAMS, tmp_path / "node", simulate=True) as opened:
        await opened.until(lambda: opened.cluster.read(CLASSES, "standard"), "there is a default class")
        yield opened


async def claim(stage: Stage, name: str = "data", **spec: Any) -> dict[str, Any]:
    wanted = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, **spec}
    body = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": wanted}
    return await stage.client.create(PERSISTENT_VOLUME_CLAIMS, body, "default")


async def storage_class(stage: Stage, name: str, provisioner: str = PROVISIONER, **more: Any) -> None:
    about = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name}, "provisioner": provisioner}
    await stage.client.create(STORAGE_CLASSES, {**about, **more})


async def volume(stage: Stage, name: str, storage: str, **spec: Any) -> None:
    made = {"capacity": {"storage": storage}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": f"/{name}"}, **spec}
    body = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": made}
    await stage.client.create(PERSISTENT_VOLUMES, body)


async def consumer(stage: Stage, name: str = "web", claimed: str = "data") -> None:
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": claimed}}]
    await stage.pod(name, image="nginx", volumes=volumes)


async def bound(stage: Stage, name: str = "data") -> dict[str, Any]:
    await stage.until(lambda: (stage.read(name, CLAIMS).get("status") or {}).get("phase") == "Bound", f"{name} is bound")
    return stage.read(name, CLAIMS)


def volumes_of(stage: Stage) -> dict[str, str]:
    """Name to phase."""
    return {each["metadata"]["name"]: (each.get("status") or {}).get("phase", "") for each in stage.cluster.scan(VOLUMES)}


async def told(stage: Stage, reason: str, name: str = "data") -> str:
    await stage.until(lambda: reason in dict(stage.events(name)), f"{reason} of {name}: {stage.events(name)}")
    return dict(stage.events(name))[reason]


async def test_a_claim_of_the_default_class_is_bound_when_a_pod_needs_it(simulating: Stage) -> None:
    await claim(simulating)
    assert await told(simulating, "WaitForFirstConsumer") == "waiting for first consumer to be created before binding"
    assert simulating.read("data", CLAIMS)["spec"]["storageClassName"] == "standard"
    assert volumes_of(simulating) == {}
    await consumer(simulating)
    found = await bound(simulating)
    name = f"pvc-{found['metadata']['uid']}"
    assert found["spec"]["volumeName"] == name
    assert found["status"]["capacity"] == {"storage": "1Gi"}
    assert found["status"]["accessModes"] == ["ReadWriteOnce"]
    assert volumes_of(simulating) == {name: "Bound"}
    assert "simulated: it holds nothing" in await told(simulating, "ProvisioningSucceeded")
    await simulating.ready("web")


async def test_a_pod_waits_for_the_claim_that_it_names(simulating: Stage) -> None:
    await consumer(simulating)
    await simulating.until(lambda: condition(simulating.read("web"), "PodScheduled") == "False", "it waits")
    assert await told(simulating, "FailedScheduling", "web") == 'persistentvolumeclaim "data" not found'
    await claim(simulating, storageClassName="fast")
    assert await told(simulating, "ProvisioningFailed") == 'storageclass.storage.k8s.io "fast" not found'
    await storage_class(simulating, "fast")
    await bound(simulating)
    await simulating.ready("web")


async def test_a_volume_goes_with_its_claim_if_its_class_deletes_and_stays_if_it_retains(simulating: Stage) -> None:
    await storage_class(simulating, "kept", reclaimPolicy="Retain")
    await storage_class(simulating, "gone")
    for name in ("kept", "gone"):
        await claim(simulating, name, storageClassName=name)
    kept, gone = [(await bound(simulating, name))["spec"]["volumeName"] for name in ("kept", "gone")]
    for name in ("kept", "gone"):
        await simulating.client.delete(PERSISTENT_VOLUME_CLAIMS, name, "default")
    await simulating.until(lambda: volumes_of(simulating) == {kept: "Released"}, f"{gone} is deleted, {kept} is released")


async def test_a_claim_in_use_keeps_its_volume_until_its_pod_is_gone(simulating: Stage) -> None:
    await claim(simulating)
    await consumer(simulating)
    await simulating.ready("web")
    await simulating.client.delete(PERSISTENT_VOLUME_CLAIMS, "data", "default")
    assert list(volumes_of(simulating).values()) == ["Bound"]
    await simulating.client.delete(PODS, "web", "default", grace=0)
    await simulating.until(lambda: not volumes_of(simulating), "the volume is gone")
    assert simulating.read("data", CLAIMS) == {}


async def test_what_nobody_provisions_stays_pending_and_says_why(simulating: Stage) -> None:
    await claim(simulating, "static", storageClassName="")
    assert await told(simulating, "FailedBinding", "static") == (
        "no persistent volumes available for this claim and no storage class is set"
    )
    await storage_class(simulating, "cloud", "disks.example.com")
    await claim(simulating, "cloudy", storageClassName="cloud")
    assert 'no provisioner "disks.example.com" runs on this cluster' in await told(simulating, "ExternalProvisioning", "cloudy")
    await storage_class(simulating, "fast")
    await claim(simulating, "choosy", storageClassName="fast", selector={"matchLabels": {"tier": "gold"}})
    assert "existing volumes only" in await told(simulating, "ProvisioningFailed", "choosy")
    await claim(simulating, "named", storageClassName="", volumeName="nowhere")
    assert 'volume "nowhere" is not there' in await told(simulating, "FailedBinding", "named")
    phases = {each["metadata"]["name"]: each["status"]["phase"] for each in simulating.cluster.scan(CLAIMS)}
    assert phases == dict.fromkeys(("static", "cloudy", "choosy", "named"), "Pending")


async def test_a_claim_takes_the_smallest_volume_that_suits_it(simulating: Stage) -> None:
    await volume(simulating, "small", "500Mi")
    await volume(simulating, "large", "5Gi")
    await volume(simulating, "fitting", "2Gi", persistentVolumeReclaimPolicy="Retain")
    await volume(simulating, "blocks", "1Gi", volumeMode="Block")
    await volume(simulating, "reserved", "1Gi", claimRef={"namespace": "default", "name": "mine"})
    await simulating.until(lambda: volumes_of(simulating).get("fitting") == "Available", "it is available")
    await claim(simulating, storageClassName="")
    assert (await bound(simulating))["spec"]["volumeName"] == "fitting"
    await claim(simulating, "mine", storageClassName="")
    assert (await bound(simulating, "mine"))["spec"]["volumeName"] == "reserved"
    assert volumes_of(simulating) == {
        **dict.fromkeys(("small", "large", "blocks"), "Available"),
        **dict.fromkeys(("fitting", "reserved"), "Bound"),
    }


async def test_a_claim_whose_volume_is_gone_is_lost(simulating: Stage) -> None:
    await volume(simulating, "only", "1Gi")
    await claim(simulating, storageClassName="")
    await bound(simulating)
    await simulating.client.delete(PERSISTENT_VOLUMES, "only")
    await simulating.client.patch(PERSISTENT_VOLUMES, "only", {"metadata": {"finalizers": None}})
    await simulating.until(lambda: simulating.read("data", CLAIMS)["status"]["phase"] == "Lost", "it is lost")
    assert 'volume "only" of the claim is gone' in await told(simulating, "ClaimLost")


async def test_every_pod_of_a_stateful_set_has_a_volume_of_its_own(simulating: Stage) -> None:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    container = {"name": "db", "image": "postgres", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    template = {"metadata": {"labels": {"app": "db"}}, "spec": {"containers": [container]}}
    wanted = {"replicas": 2, "serviceName": "db", "selector": {"matchLabels": {"app": "db"}}, "template": template}
    wanted["volumeClaimTemplates"] = [{"metadata": {"name": "data"}, "spec": spec}]
    body = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"}, "spec": wanted}
    await simulating.client.create(STATEFUL_SETS, body, "default")
    for name in ("db-0", "db-1"):
        await simulating.ready(name)
    found = [(await bound(simulating, f"data-{name}"))["spec"]["volumeName"] for name in ("db-0", "db-1")]
    assert len(set(found)) == 2


async def test_a_default_class_of_the_administrators_is_left_to_be_the_only_one(tmp_path: Path) -> None:
    async with open_stage(PROGRAMS, tmp_path / "node", simulate=True) as stage:
        await stage.until(lambda: stage.cluster.read(CLASSES, "standard"), "there is a default class")
        await stage.stop()
        await stage.client.delete(STORAGE_CLASSES, "standard")
        annotations = {"storageclass.kubernetes.io/is-default-class": "true"}
        await storage_class(stage, "own", metadata={"name": "own", "annotations": annotations})
        await stage.start()
        await claim(stage)
        await bound(stage)
        assert [each["metadata"]["name"] for each in stage.cluster.scan(CLASSES)] == ["own"]


async def test_without_simulated_images_there_is_neither_class_nor_volume(tmp_path: Path) -> None:
    async with open_stage(PROGRAMS, tmp_path / "node") as stage:
        await claim(stage)
        await stage.pod("other", "serve")
        await stage.ready("other")
        assert list(stage.cluster.scan(CLASSES)) == []
        assert stage.read("data", CLAIMS)["status"]["phase"] == "Pending"
