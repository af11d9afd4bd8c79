"""ServerSideApply, CreateOnly and ReadOnly."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from muster.api.work.v1 import IgnoreField, ServerSideApply
from muster.apiserver.server import ApiServer
from muster.machinery.authentication import UserInfo
from muster.runtime.cache.observed import ABSENT, UNKNOWN
from muster.runtime.client.errors import Forbidden
from muster.work.agent.applying.serverside import config_hash
from muster.work.agent.interfaces import ApplyProblem
from muster.work.names import CONFIG_HASH
from tests.support.manifests import manifest, of
from tests.unit.work.applying.conftest import OTHER, OWNER, Cluster, Recorder, live
from tests.unit.work.applying.test_kinds import established
from tests.unit.work.applying.test_update import REFERENCE, config, web

SERVER_SIDE: dict[str, Any] = {"type": "ServerSideApply"}


def ignoring(condition: str = "OnSpokePresent", **selectors: Any) -> dict[str, Any]:
    fields = (IgnoreField(condition=condition, **{key: tuple(value) for key, value in selectors.items()}),)
    return {"type": "ServerSideApply", "server_side_apply": ServerSideApply(force=True, ignore_fields=fields)}


async def test_server_side_apply_takes_one_request_and_then_none(cluster: Cluster, client: Recorder) -> None:
    made, asked = await cluster.apply(web(), **SERVER_SIDE)
    assert asked == ["PATCH web"]
    assert made["metadata"]["ownerReferences"] == [REFERENCE]
    assert {entry["manager"] for entry in made["metadata"]["managedFields"]} == {"work-agent"}
    assert (await cluster.apply(web(), **SERVER_SIDE))[1] == []


async def test_an_object_that_nobody_has_seen_is_read_so_that_no_owner_is_lost(cluster: Cluster, client: Recorder) -> None:
    await cluster.apply(web(), owner=OTHER, **SERVER_SIDE)
    await cluster.applier.apply(manifest(web(), **SERVER_SIDE), OWNER, UNKNOWN)
    assert client.taken() == ["GET web", "PATCH web"]
    owners = (await live(client, web()))["metadata"]["ownerReferences"]
    assert {entry["name"] for entry in owners} == {OWNER.name, OTHER.name}


async def test_a_new_process_makes_sure_once_that_the_fields_are_ours(cluster: Cluster) -> None:
    made, _ = await cluster.apply(web(), **SERVER_SIDE)
    again = cluster.restarted()
    confirmed, asked = await again.apply(web(), **SERVER_SIDE)
    assert asked == ["PATCH web"]
    assert confirmed["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
    assert (await again.apply(web(), **SERVER_SIDE))[1] == []


async def test_what_the_manifest_no_longer_says_is_taken_away_by_the_server(cluster: Cluster) -> None:
    await cluster.apply(web(minReadySeconds=3), **SERVER_SIDE)
    changed, _ = await cluster.apply(web(), **SERVER_SIDE)
    assert changed["spec"].get("minReadySeconds", 0) == 0


async def test_drift_is_a_conflict_with_a_reason_of_its_own_unless_forced(cluster: Cluster) -> None:
    await cluster.apply(config(a="1"), **SERVER_SIDE)
    await cluster.edit(config(), data={"a": "theirs"})
    with pytest.raises(ApplyProblem, match='conflict with "somebody"') as caught:
        await cluster.apply(config(a="1"), **SERVER_SIDE)
    assert caught.value.reason == "ApplyConflict"
    forced: dict[str, Any] = {"type": "ServerSideApply", "server_side_apply": ServerSideApply(force=True)}
    repaired, _ = await cluster.apply(config(a="1"), **forced)
    assert repaired["data"] == {"a": "1"}


async def test_the_field_manager_is_the_configs(cluster: Cluster) -> None:
    managed: dict[str, Any] = {"type": "ServerSideApply", "server_side_apply": ServerSideApply(field_manager="work-agent-other")}
    made, _ = await cluster.apply(config(a="1"), **managed)
    assert [entry["manager"] for entry in made["metadata"]["managedFields"]] == ["work-agent-other"]


async def test_fields_of_others_stay(cluster: Cluster) -> None:
    await cluster.apply(config(a="1"), **SERVER_SIDE)
    await cluster.edit(config(), data={"b": "theirs"}, metadata={"labels": {"x": "y"}})
    assert (await cluster.apply(config(a="1"), **SERVER_SIDE))[1] == []
    changed, _ = await cluster.apply(config(a="2"), **SERVER_SIDE)
    assert changed["data"] == {"a": "2", "b": "theirs"}


async def test_ownership_follows_under_server_side_apply(cluster: Cluster) -> None:
    await cluster.apply(config(a="1"), **SERVER_SIDE)
    await cluster.apply(config(a="1"), owner=OTHER, **SERVER_SIDE)
    left, _ = await cluster.apply(config(a="1"), owned=False, **SERVER_SIDE)
    assert [entry["name"] for entry in left["metadata"]["ownerReferences"]] == [OTHER.name]


async def test_a_reference_from_another_strategy_is_taken_away_too(cluster: Cluster) -> None:
    await cluster.apply(config(a="1"))
    left, asked = await cluster.apply(config(a="1"), owned=False, **SERVER_SIDE)
    assert asked == ["PATCH cm", "PATCH cm"]
    assert "ownerReferences" not in left["metadata"]


# Fields to ignore ------------------------------------------------------------------------------------------------------------


async def test_ignored_fields_are_in_what_is_created(cluster: Cluster, client: Recorder) -> None:
    made, asked = await cluster.apply(web(replicas=3), **ignoring(json_paths=[".spec.replicas"]))
    assert asked == ["PATCH web"]
    assert made["spec"]["replicas"] == 3
    await cluster.client.delete(manifest(web()).ref.resource, "web", "default")
    client.taken()
    unseen = await cluster.applier.apply(manifest(web(replicas=3), **ignoring(json_paths=[".spec.replicas"])), OWNER, UNKNOWN)
    assert client.taken() == ["GET web", "PATCH web"]
    assert unseen.document is not None
    assert unseen.document["spec"]["replicas"] == 3


async def test_fields_ignored_when_present_are_never_written_back(cluster: Cluster) -> None:
    how = ignoring(json_paths=[".spec.replicas"])
    await cluster.apply(web(replicas=3), **how)
    await cluster.edit(web(), spec={"replicas": 7})
    assert (await cluster.apply(web(replicas=3), **how))[1] == []
    assert (await cluster.apply(web(replicas=4), **how))[1] == []
    changed, asked = await cluster.apply(web(replicas=4, minReadySeconds=1), **how)
    assert asked == ["PATCH web"]
    assert (changed["spec"]["replicas"], changed["spec"]["minReadySeconds"]) == (7, 1)


async def test_fields_ignored_when_changed_are_written_back_with_the_next_manifest(cluster: Cluster) -> None:
    how = ignoring("OnSpokeChange", json_paths=[".spec.replicas"])
    await cluster.apply(web(replicas=3), **how)
    await cluster.edit(web(), spec={"replicas": 7})
    assert (await cluster.apply(web(replicas=3), **how))[1] == []
    changed, _ = await cluster.apply(web(replicas=3, minReadySeconds=1), **how)
    assert changed["spec"]["replicas"] == 3


async def test_the_same_hash_still_follows_ownership(cluster: Cluster) -> None:
    how = ignoring(json_paths=[".spec.replicas"])
    await cluster.apply(web(), **how)
    left, asked = await cluster.apply(web(), owned=False, **how)
    assert asked == ["PATCH web"]
    assert "ownerReferences" not in left["metadata"]


async def test_an_object_hashed_by_upstreams_agent_is_not_applied_again(cluster: Cluster) -> None:
    how = ignoring("OnSpokeChange", json_paths=[".data.a"])
    theirs = config(metadata={"namespace": "default"}, a="1")
    theirs["metadata"]["annotations"] = {CONFIG_HASH: config_hash(config(metadata={"namespace": "default"}, a="1"))}
    await cluster.client.create(manifest(theirs).ref.resource, theirs, "default")
    assert (await cluster.apply(config(a="1"), owned=False, **how))[1] == []


async def test_selectors_that_cannot_be_understood_have_a_reason_of_their_own(cluster: Cluster) -> None:
    with pytest.raises(ApplyProblem, match=r"^Failed to process ignoreFields: JQ expression error in 'input'") as caught:
        await cluster.apply(config(a="1"), **ignoring(jq_path_expressions=["input"]))
    assert caught.value.reason == "AppliedManifestSSAIgnoreFieldError"
    assert await cluster.live(config()) is None


# Vectors printed by Go: &{map[…]} of an unstructured object, and its MD5.
@pytest.mark.parametrize(
    ("text", "digest"),
    [
        ('{"a":1,"b":["x","y"]}', "071a2404b862940c5bea8efac6ce11b5"),
        (
            '{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","namespace":"default","labels":{"b":"2","a":"1"}},'
            '"spec":{"replicas":3,"template":{"spec":{"containers":[{"name":"c","image":"i:1","resources":{}}]}},"paused":false}}',
            "396764e4814ca83460a18fc9f8b0d81d",
        ),
        (
            '{"n":null,"e":{},"l":[],"t":true,"f":1.5,"g":1.0,"h":1e21,"i":0.00001,"j":1e20,"k":123456789012345678,"m":-0.5,'
            '"q":1.2345678901234567e20,"r":1e-7,"s":100000.25,"u":12345678.5}',
            "89734fe88fc6c34bb9cadfa0fb5c8d44",
        ),
        ('{"Z":1,"a":"ä ü","é":"x","_":"","1":[[1,2],[]],"A":{"b":null}}', "27671ed835639065750aa5a263b7502b"),
        ('{"x":1e6,"y":21000000.0,"z":123456789.123,"w":4.0e-5,"big":18446744073709551615}', "2393547fe0b46e04685a6f047905c070"),
    ],
)
def test_the_hash_is_that_of_gos_print(text: str, digest: str) -> None:
    assert config_hash(orjson.loads(text)) == digest


# The other strategies --------------------------------------------------------------------------------------------------------


async def test_create_only_never_changes_content(cluster: Cluster) -> None:
    _, asked = await cluster.apply(config(a="1"), type="CreateOnly")
    assert asked == ["POST configmaps"]
    kept, asked = await cluster.apply(config(metadata={"labels": {"x": "y"}}, a="2"), type="CreateOnly")
    assert asked == []
    assert kept["data"] == {"a": "1"}


async def test_create_only_follows_ownership(cluster: Cluster) -> None:
    await cluster.apply(config(a="1"), type="CreateOnly")
    left, asked = await cluster.apply(config(a="2"), owned=False, type="CreateOnly")
    assert asked == ["PATCH cm"]
    assert "ownerReferences" not in left["metadata"]
    taken, _ = await cluster.apply(config(a="2"), type="CreateOnly")
    assert taken["metadata"]["ownerReferences"] == [REFERENCE]
    assert taken["data"] == {"a": "1"}


async def test_a_server_that_makes_nothing_of_an_emptied_map_is_told_twice(cluster: Cluster, client: Recorder) -> None:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "gadgets", "kind": "Gadget"}
    spec = {"group": "example.com", "names": names, "scope": "Namespaced", "versions": [version]}
    await cluster.apply(of("apiextensions.k8s.io/v1", "CustomResourceDefinition", "gadgets.example.com", spec=spec))
    await established(cluster)
    await cluster.apply(of("example.com/v1", "Gadget", "g", spec={"a": "1"}), **SERVER_SIDE)
    changed, _ = await cluster.apply(of("example.com/v1", "Gadget", "g", spec={}), **SERVER_SIDE)
    assert changed["spec"] == {}
    assert (await cluster.apply(of("example.com/v1", "Gadget", "g", spec={}), **SERVER_SIDE))[1] == []


async def test_what_was_said_when_it_was_created_goes_once_the_work_keeps_it_and_says_it_no_longer(cluster: Cluster) -> None:
    ports = [{"name": "web", "port": 80}]
    sticky = of("v1", "Service", "svc", spec={"ports": ports, "sessionAffinity": "ClientIP"})
    await cluster.apply(sticky, type="CreateOnly")
    plain = of("v1", "Service", "svc", spec={"ports": ports})
    kept, _ = await cluster.apply(plain, type="CreateOnly")
    assert kept["spec"]["sessionAffinity"] == "ClientIP"
    changed, _ = await cluster.apply(plain)
    assert changed["spec"]["sessionAffinity"] == "None"


async def test_read_only_writes_nothing_and_does_not_mind_absence(cluster: Cluster, client: Recorder) -> None:
    reading = manifest(config(a="2"), type="ReadOnly")
    absent = await cluster.applier.apply(reading, OWNER, ABSENT)
    assert (absent.document, absent.wrote, client.taken()) == (None, False, [])
    assert (await cluster.applier.apply(reading, OWNER, UNKNOWN)).document is None
    await cluster.apply(config(a="1"), owner=OTHER)
    present = await cluster.applier.apply(reading, OWNER, UNKNOWN)
    assert client.taken() == ["GET cm"]
    assert present.document is not None
    assert present.document["data"] == {"a": "1"}
    assert (await cluster.apply(config(a="2"), type="ReadOnly"))[1] == []


async def test_what_becomes_read_only_is_no_longer_the_works_own(cluster: Cluster) -> None:
    await cluster.apply(config(a="1"), owner=OTHER)
    await cluster.apply(config(a="1"))
    read, asked = await cluster.apply(config(a="2"), type="ReadOnly")
    assert asked == ["PATCH cm"]
    assert read["data"] == {"a": "1"}
    assert [one["name"] for one in read["metadata"]["ownerReferences"]] == [OTHER.name]
    assert (await cluster.apply(config(a="2"), type="ReadOnly"))[1] == []


async def test_a_strategy_of_a_newer_api_is_reported(cluster: Cluster) -> None:
    with pytest.raises(ApplyProblem, match="'Merge' is not known"):
        await cluster.apply(config(), type="Merge")


# Whose permission ------------------------------------------------------------------------------------------------------------


async def test_the_agents_own_missing_permission_is_called_that(server: ApiServer) -> None:
    powerless = Recorder(server.client(server.clusters["default"], UserInfo("agent", groups=("system:authenticated",))))
    with pytest.raises(Forbidden, match="the work agent itself lacks the permission to create, update, patch, get configmaps"):
        await Cluster(powerless).applier.apply(manifest(config(a="1")), OWNER, UNKNOWN)


async def test_other_refusals_are_not_blamed_on_the_agents_permissions(cluster: Cluster) -> None:
    async def full(method: str, path: str) -> None:
        if method == "POST" and path.endswith("/configmaps"):
            raise Forbidden(403, "Forbidden", "exceeded quota: none")

    cluster.client.before = full  # type: ignore[method-assign]
    with pytest.raises(Forbidden, match=r"^exceeded quota: none$"):
        await cluster.apply(config(a="1"))
