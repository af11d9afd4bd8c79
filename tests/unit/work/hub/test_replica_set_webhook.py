"""Who may write replica sets: their works land anywhere, so the writer needs the executor everywhere."""

import pytest

from muster.runtime.client.errors import BadRequest
from muster.work.hub.install import REPLICA_SET_VALIDATOR
from muster.work.hub.options import WorkHubOptions
from muster.work.kinds import REPLICA_SETS
from tests.unit.work.hub.conftest import EXEC1, Hub, config_map, replica_set, serving, spec

PREFIX = f'admission webhook "{REPLICA_SET_VALIDATOR}" denied the request: '


async def test_the_executor_is_needed_in_all_namespaces(hub: Hub) -> None:
    bob = await hub.writer("bob")
    await hub.let_execute("bob", EXEC1, "cluster1")
    await hub.let_execute("bob", EXEC1, "apps")
    with pytest.raises(BadRequest) as refused:
        await bob.create(REPLICA_SETS, replica_set("r", spec(runs_as=EXEC1)))
    assert refused.value.message == (
        f"{PREFIX}user bob cannot manipulate the ManifestWorkReplicaSet with executor sa-ns/exec1 in all namespaces"
    )
    assert "namespace" not in hub.own.reviews[-1]["resourceAttributes"]
    await hub.let_execute("bob", EXEC1, "")
    await bob.create(REPLICA_SETS, replica_set("r", spec(runs_as=EXEC1)))


async def test_changes_of_template_and_placements_need_the_executor_and_others_do_not(hub: Hub) -> None:
    await hub.admin.create(REPLICA_SETS, replica_set("r", spec(runs_as=EXEC1)))
    bob = await hub.writer("bob")
    template = {"manifestWorkTemplate": {"workload": {"manifests": [config_map("other")]}}}
    for change in ({"placementRefs": [{"name": "more"}]}, template, {"manifestWorkTemplate": {"executor": None}}):
        with pytest.raises(BadRequest, match="executor sa-ns/exec1"):
            await bob.patch(REPLICA_SETS, "r", {"spec": change}, "apps")
    await bob.patch(REPLICA_SETS, "r", {"metadata": {"finalizers": ["example.com/held"]}}, "apps")
    await bob.patch(REPLICA_SETS, "r", {"metadata": {"finalizers": None}}, "apps")


async def test_without_executor_it_takes_a_right_only_with_the_gate(hub: Hub) -> None:
    bob = await hub.writer("bob")
    await bob.create(REPLICA_SETS, replica_set("r"))
    async with serving(WorkHubOptions(nil_executor_validating=True)) as strict:
        bob = await strict.writer("bob")
        with pytest.raises(BadRequest, match="executor /klusterlet-work-sa in all namespaces"):
            await bob.create(REPLICA_SETS, replica_set("r"))


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ({"workload": {"manifests": []}}, "Workload manifests should not be empty"),
        (
            spec(config_map(), config_map()),
            "duplicate manifest for resource app/cm1 with resource type v1.ConfigMap: "
            "spec.manifestWorkTemplate.workload.manifests[0] and spec.manifestWorkTemplate.workload.manifests[1]",
        ),
        (spec(executor={}), "the executor is malformed: spec.manifestWorkTemplate.executor.subject is missing"),
    ],
)
async def test_its_template_is_judged_as_a_work_is(hub: Hub, content: dict[str, object], text: str) -> None:
    with pytest.raises(BadRequest) as refused:
        await hub.admin.create(REPLICA_SETS, replica_set("r", content))
    assert refused.value.message == PREFIX + text
