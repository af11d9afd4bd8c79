"""The Update strategy: what is said is made so, what is not said stays, and nothing is written for nothing."""

from __future__ import annotations

from typing import Any

import pytest

from muster.runtime.cache.observed import UNKNOWN
from muster.runtime.client.builtin import CONFIG_MAPS
from muster.runtime.client.errors import Conflict, Forbidden, Invalid, NotFound
from tests.support.manifests import manifest, sight_of
from tests.unit.work.applying.conftest import OTHER, OWNER, Cluster, Recorder, live

REFERENCE = {
    "apiVersion": "work.open-cluster-management.io/v1",
    "kind": "AppliedManifestWork",
    "name": OWNER.name,
    "uid": OWNER.uid,
}


def config(name: str = "cm", metadata: dict[str, Any] | None = None, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **(metadata or {})}, "data": data}


async def test_an_absent_object_is_created_by_one_request(cluster: Cluster) -> None:
    made, asked = await cluster.apply(config(a="1"))
    assert asked == ["POST configmaps"]
    assert made["data"] == {"a": "1"}
    assert made["metadata"]["ownerReferences"] == [REFERENCE]


async def test_an_object_that_nobody_has_seen_is_created_without_being_read(cluster: Cluster, client: Recorder) -> None:
    result = await cluster.applier.apply(manifest(config(a="1")), OWNER, UNKNOWN)
    assert result.wrote
    assert client.taken() == ["POST configmaps"]


async def test_an_unseen_object_that_exists_is_read_and_updated(cluster: Cluster, client: Recorder) -> None:
    await cluster.apply(config(a="1"))
    result = await cluster.applier.apply(manifest(config(a="2")), OWNER, UNKNOWN)
    assert client.taken() == ["POST configmaps", "GET cm", "PUT cm"]
    assert result.document is not None
    assert result.document["data"] == {"a": "2"}


async def test_a_refused_creation_is_an_update_where_the_object_exists(cluster: Cluster, client: Recorder) -> None:
    await cluster.apply(config(a="1"))
    client.taken()

    async def full(method: str, path: str) -> None:
        if method == "POST" and path.endswith("/configmaps"):
            raise Forbidden(403, "Forbidden", "exceeded quota")

    client.before = full  # type: ignore[method-assign]
    result = await cluster.applier.apply(manifest(config(a="2")), OWNER, UNKNOWN)
    assert client.taken() == ["POST configmaps", "GET cm", "PUT cm"]
    assert result.document is not None
    assert result.document["data"] == {"a": "2"}


async def test_a_refused_creation_is_reported_as_refused_where_nothing_exists(cluster: Cluster) -> None:
    bad = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "Not_A_Name"}, "data": {}}
    with pytest.raises(Invalid, match="Not_A_Name"):
        await cluster.applier.apply(manifest(bad), OWNER, UNKNOWN)


async def test_a_missing_namespace_is_reported_at_once(cluster: Cluster, client: Recorder) -> None:
    with pytest.raises(NotFound, match="nowhere"):
        await cluster.applier.apply(manifest(config(metadata={"namespace": "nowhere"})), OWNER, UNKNOWN)
    assert client.taken() == ["POST configmaps"]


async def test_what_is_so_already_takes_no_request(cluster: Cluster) -> None:
    await cluster.apply(config(a="1"))
    assert (await cluster.apply(config(a="1")))[1] == []
    assert (await cluster.restarted().apply(config(a="1")))[1] == []


async def test_metadata_that_belongs_to_another_cluster_is_not_sent(cluster: Cluster) -> None:
    exported = {
        "uid": "1234",
        "resourceVersion": "99",
        "creationTimestamp": "2020-01-01T00:00:00Z",
        "generation": 7,
        "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "gone"}],
        "managedFields": [],
    }
    made, _ = await cluster.apply(config(metadata=exported, a="1"))
    assert made["metadata"]["ownerReferences"] == [REFERENCE]
    assert (await cluster.apply(config(metadata=exported, a="1")))[1] == []


async def test_labels_and_annotations_of_others_stay(cluster: Cluster) -> None:
    await cluster.apply(config(metadata={"labels": {"mine": "1"}}))
    await cluster.edit(config(), metadata={"labels": {"theirs": "1"}, "annotations": {"theirs": "2"}})
    assert (await cluster.apply(config(metadata={"labels": {"mine": "1"}})))[1] == []
    changed, asked = await cluster.apply(config(metadata={"labels": {"new": "1"}}))
    assert asked == ["PUT cm"]
    assert changed["metadata"]["labels"] == {"mine": "1", "theirs": "1", "new": "1"}
    assert changed["metadata"]["annotations"] == {"theirs": "2"}


async def test_a_key_that_ends_in_a_dash_takes_the_key_away(cluster: Cluster) -> None:
    made, _ = await cluster.apply(config(metadata={"labels": {"a": "1", "gone-": ""}}))
    assert made["metadata"]["labels"] == {"a": "1"}
    changed, _ = await cluster.apply(config(metadata={"labels": {"b": "1", "a-": "whatever"}, "annotations": {"x-": ""}}))
    assert changed["metadata"]["labels"] == {"b": "1"}
    assert (await cluster.apply(config(metadata={"labels": {"b": "1", "a-": ""}})))[1] == []


async def test_finalizers_of_the_live_object_stay(cluster: Cluster) -> None:
    await cluster.apply(config(a="1"))
    await cluster.edit(config(), metadata={"finalizers": ["example.com/hold"]})
    changed, _ = await cluster.apply(config(a="2"))
    assert changed["metadata"]["finalizers"] == ["example.com/hold"]
    await cluster.edit(config(), metadata={"finalizers": None})


async def test_drift_is_written_back(cluster: Cluster) -> None:
    await cluster.apply(config(a="1"))
    await cluster.edit(config(), data={"a": "changed", "b": "added"})
    repaired, asked = await cluster.apply(config(a="1"))
    assert asked == ["PUT cm"]
    assert repaired["data"] == {"a": "1"}


async def test_ownership_follows_what_becomes_of_the_object_when_the_work_goes(cluster: Cluster) -> None:
    await cluster.apply(config(a="1"))
    await cluster.apply(config(a="1"), owner=OTHER)
    left, asked = await cluster.apply(config(a="1"), owned=False)
    assert asked == ["PUT cm"]
    assert [entry["name"] for entry in left["metadata"]["ownerReferences"]] == [OTHER.name]
    assert (await cluster.apply(config(a="1"), owned=False))[1] == []


async def test_a_record_that_was_made_anew_takes_the_place_of_the_old_one(cluster: Cluster) -> None:
    stale = {**REFERENCE, "uid": "old"}
    foreign = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "other"}
    await cluster.client.create(CONFIG_MAPS, config(metadata={"namespace": "default", "ownerReferences": [stale, foreign]}, a="1"))
    owned, _ = await cluster.apply(config(a="1"))
    assert owned["metadata"]["ownerReferences"] == [REFERENCE, foreign]


async def test_somebody_who_wrote_meanwhile_is_not_overwritten_blindly(cluster: Cluster, client: Recorder) -> None:
    await cluster.apply(config(a="1"))
    stale = await cluster.live(config())
    await cluster.edit(config(), metadata={"labels": {"theirs": "1"}})
    client.taken()
    result = await cluster.applier.apply(manifest(config(a="2")), OWNER, sight_of(stale))
    assert client.taken() == ["PUT cm", "GET cm", "PUT cm"]
    assert result.document is not None
    assert result.document["metadata"]["labels"] == {"theirs": "1"}


async def test_an_object_that_went_meanwhile_is_created_anew(cluster: Cluster, client: Recorder) -> None:
    await cluster.apply(config(a="1"))
    stale = await cluster.live(config())
    await cluster.client.delete(CONFIG_MAPS, "cm", "default")
    client.taken()
    result = await cluster.applier.apply(manifest(config(a="2")), OWNER, sight_of(stale))
    assert client.taken() == ["PUT cm", "GET cm", "POST configmaps"]
    assert result.wrote


async def test_endless_conflicts_end_in_the_servers_own_error(cluster: Cluster, client: Recorder) -> None:
    await cluster.apply(config(a="1"))

    async def busy(method: str, path: str) -> None:
        if method == "PUT":
            raise Conflict(409, "Conflict", "the object has been modified")

    client.before = busy  # type: ignore[method-assign]
    with pytest.raises(Conflict, match="has been modified"):
        await cluster.apply(config(a="2"))


async def test_what_the_manifest_no_longer_says_goes_and_what_it_never_said_stays(cluster: Cluster) -> None:
    deployment = web(containers=[{"name": "app", "image": "app:1", "env": [{"name": "A", "value": "1"}], "workingDir": "/a"}])
    await cluster.apply(deployment)
    await cluster.edit(deployment, spec={"minReadySeconds": 7})
    without = web(containers=[{"name": "app", "image": "app:1"}])
    changed, _ = await cluster.apply(without)
    container = changed["spec"]["template"]["spec"]["containers"][0]
    assert "env" not in container
    assert "workingDir" not in container
    assert changed["spec"]["minReadySeconds"] == 7


async def test_replicas_that_are_no_longer_said_are_left_to_whoever_scales(cluster: Cluster) -> None:
    await cluster.apply(web(replicas=3))
    changed, asked = await cluster.apply(web())
    assert changed["spec"]["replicas"] == 3
    assert asked == []


async def test_an_alternative_comes_instead_of_the_defaulted_one(cluster: Cluster) -> None:
    await cluster.apply(web())
    changed, _ = await cluster.restarted().apply(web(strategy={"type": "Recreate"}, replicas=2))
    assert changed["spec"]["strategy"] == {"type": "Recreate"}


async def test_one_volume_comes_instead_of_another_after_a_restart(cluster: Cluster) -> None:
    containers = [{"name": "app", "image": "app:1"}]
    await cluster.apply(web(containers=containers, volumes=[{"name": "v", "configMap": {"name": "cm"}}]))
    await cluster.edit(web(), spec={"replicas": 5})
    changed, _ = await cluster.restarted().apply(web(containers=containers, volumes=[{"name": "v", "secret": {"secretName": "s"}}]))
    assert changed["spec"]["template"]["spec"]["volumes"] == [{"name": "v", "secret": {"secretName": "s", "defaultMode": 420}}]
    assert changed["spec"]["replicas"] == 5


async def test_a_server_that_answers_with_something_else_is_not_asked_for_ever(cluster: Cluster, client: Recorder) -> None:
    """As where a webhook adds a container."""
    await cluster.apply(web())
    sidecar = [{"name": "app", "image": "app:1"}, {"name": "sidecar", "image": "side:1"}]

    async def update(resource: Any, obj: Any, **_: Any) -> Any:
        return await client.patch(resource, "web", {"spec": {"template": {"spec": {"containers": sidecar}}}}, "default")

    client.update = update  # type: ignore[method-assign]
    changed = web(replicas=2)
    assert (await cluster.apply(changed))[1] != []
    assert (await cluster.apply(changed))[1] == []
    await cluster.edit(changed, metadata={"annotations": {"deployment.kubernetes.io/revision": "2"}})
    assert (await cluster.apply(changed))[1] != []


async def test_two_works_with_one_object_do_not_take_away_each_others_fields(cluster: Cluster) -> None:
    await cluster.apply(web(minReadySeconds=3))
    await cluster.apply(web(paused=True), owner=OTHER)
    assert (await cluster.apply(web(minReadySeconds=3)))[1] == []
    both = await live(cluster.client, web())
    assert (both["spec"]["minReadySeconds"], both["spec"]["paused"]) == (3, True)


def web(containers: list[Any] | None = None, volumes: list[Any] | None = None, **spec: Any) -> dict[str, Any]:
    pod = {"containers": containers or [{"name": "app", "image": "app:1"}], **({"volumes": volumes} if volumes else {})}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "creationTimestamp": None},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}, "creationTimestamp": None}, "spec": pod},
            **spec,
        },
        "status": {},
    }
