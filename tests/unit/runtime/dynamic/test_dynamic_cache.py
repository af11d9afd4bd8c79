"""The observer knows what works are about, tells of foreign changes, and asks the cluster as little as it can."""

import asyncio
from typing import Any

import orjson
import pytest

from muster.fleet.in_process import InProcessClient
from muster.machinery.objects import GVR, ObjectKey, ObjectRef
from muster.runtime.cache import dynamic as module
from muster.runtime.cache.collection import CollectionWatch
from muster.runtime.cache.observed import ObservedObject, Presence
from muster.runtime.client.builtin import CONFIG_MAPS, CRDS, NAMESPACES, SECRETS
from muster.runtime.client.errors import Expired, StatusError, Unreachable
from tests.support.holdings import grown, holdings
from tests.unit.runtime.conftest import config_map, eventually
from tests.unit.runtime.dynamic.conftest import WIDGETS, Disturbed, Scene, definition, namespaces, observing, permit, until_made
from tests.unit.runtime.scripted import ScriptedClient, bookmark, event

SERVICE_ACCOUNTS = GVR("v1", "serviceaccounts", "ServiceAccount")


def ref(name: str, namespace: str = "default", resource: GVR = CONFIG_MAPS) -> ObjectRef:
    return ObjectRef(resource, namespace, name)


def data(sight: ObservedObject) -> Any:
    return orjson.loads(sight.raw)["data"]


async def quiet(scene: Scene) -> None:
    """Long enough that whatever was to be told has been told."""
    await asyncio.sleep(2 * module.NOTIFY_DELAY)


async def test_what_is_there_and_what_is_not_is_known_without_telling(admin: InProcessClient, client: Disturbed) -> None:
    created = await admin.create(CONFIG_MAPS, config_map("here", k="1"))
    async with observing(client) as scene:
        here, absent = ref("here"), ref("absent")
        scene.observer.follow("w", frozenset({here, absent}))
        await scene.known(here, absent)
        sight = scene.observer.get(here)
        assert (sight.uid, sight.version) == (created["metadata"]["uid"], created["metadata"]["resourceVersion"])
        assert data(sight) == {"k": "1"}
        assert b"managedFields" not in sight.raw
        assert scene.observer.get(absent).presence is Presence.ABSENT
        await quiet(scene)
        assert (scene.told, client.reads) == ([], [])


async def test_foreign_edits_deletions_and_additions_are_told_and_strangers_are_not(
    admin: InProcessClient, client: Disturbed
) -> None:
    await admin.create(CONFIG_MAPS, config_map("a", k="1"))
    async with observing(client) as scene:
        scene.observer.follow("w", frozenset({ref("a"), ref("b")}))
        await scene.known(ref("a"), ref("b"))
        await admin.create(CONFIG_MAPS, config_map("stranger"))
        await admin.patch(CONFIG_MAPS, "a", {"data": {"k": "2"}}, "default")
        await eventually(lambda: scene.told == ["w"])
        assert data(scene.observer.get(ref("a"))) == {"k": "2"}
        await admin.delete(CONFIG_MAPS, "a", "default")
        await eventually(lambda: scene.told == ["w", "w"])
        assert scene.observer.get(ref("a")).presence is Presence.ABSENT
        await admin.create(CONFIG_MAPS, config_map("b"))
        await eventually(lambda: scene.told == ["w", "w", "w"])
        assert scene.observer.get(ref("stranger")).presence is Presence.UNKNOWN
        assert len(client.watches) == 1


async def test_own_writes_are_known_at_once_and_told_to_nobody(client: Disturbed) -> None:
    async with observing(client) as scene:
        scene.observer.follow("w", frozenset({ref("a")}))
        await scene.known(ref("a"))
        created = await client.create(CONFIG_MAPS, config_map("a", k="1"))
        scene.observer.record_write(ref("a"), created)
        assert data(scene.observer.get(ref("a"))) == {"k": "1"}
        scene.observer.record_write(ref("a"), await client.patch(CONFIG_MAPS, "a", {"data": {"k": "2"}}, "default"))
        await client.delete(CONFIG_MAPS, "a", "default")
        scene.observer.record_write(ref("a"), None)
        await quiet(scene)
        assert scene.observer.get(ref("a")).presence is Presence.ABSENT
        assert scene.told == []


async def test_every_work_that_is_about_an_object_is_told_and_one_that_left_is_not(
    admin: InProcessClient, client: Disturbed
) -> None:
    await admin.create(CONFIG_MAPS, config_map("shared"))
    async with observing(client) as scene:
        for work in ("w1", "w2", "w3"):
            scene.observer.follow(work, frozenset({ref("shared")}))
        await scene.known(ref("shared"))
        scene.observer.follow("w2", frozenset())
        await admin.patch(CONFIG_MAPS, "shared", {"data": {"k": "2"}}, "default")
        await eventually(lambda: sorted(scene.told) == ["w1", "w3"])
        for work in ("w1", "w3"):
            scene.observer.follow(work, frozenset())
        assert scene.observer.get(ref("shared")).presence is Presence.UNKNOWN


async def test_of_what_one_work_wrote_those_that_share_it_are_told(client: Disturbed) -> None:
    async with observing(client) as scene:
        for work in ("w1", "w2"):
            scene.observer.follow(work, frozenset({ref("shared")}))
        await scene.known(ref("shared"))
        created = await client.create(CONFIG_MAPS, config_map("shared"))
        scene.observer.record_write(ref("shared"), created)
        await eventually(lambda: sorted(scene.told) == ["w1", "w2"])
        scene.observer.record_write(ref("shared"), await client.get(CONFIG_MAPS, "shared", "default"))
        await quiet(scene)
        assert sorted(scene.told) == ["w1", "w2"]
        await client.delete(CONFIG_MAPS, "shared", "default")
        scene.observer.record_write(ref("shared"), None)
        await eventually(lambda: sorted(scene.told) == ["w1", "w1", "w2", "w2"])


async def test_a_mark_more_is_no_news_to_those_that_share_an_object(client: Disturbed) -> None:
    async with observing(client) as scene:
        for work in ("w1", "w2"):
            scene.observer.follow(work, frozenset({ref("shared")}))
        made = await client.create(CONFIG_MAPS, config_map("shared"))
        await scene.known(ref("shared"))
        mark = {"apiVersion": "v1", "kind": "ConfigMap", "name": "shared", "uid": made["metadata"]["uid"]}
        marked = await client.patch(CONFIG_MAPS, "shared", {"metadata": {"ownerReferences": [mark]}}, "default")
        scene.observer.record_write(ref("shared"), marked)
        await quiet(scene)
        scene.told.clear()
        marked = await client.patch(CONFIG_MAPS, "shared", {"metadata": {"ownerReferences": None}}, "default")
        scene.observer.record_write(ref("shared"), marked)
        await quiet(scene)
        assert scene.told == []
        scene.observer.record_write(ref("shared"), await client.patch(CONFIG_MAPS, "shared", {"data": {"k": "2"}}, "default"))
        await eventually(lambda: sorted(scene.told) == ["w1", "w2"])


async def test_whoever_starts_again_learns_all_its_objects_from_one_list(admin: InProcessClient, client: Disturbed) -> None:
    owner = {"apiVersion": "example.com/v1", "kind": "Owner", "name": "x", "uid": "u"}
    for name in ("one", "two"):
        document = config_map(name)
        document["metadata"]["ownerReferences"] = [owner]
        await admin.create(CONFIG_MAPS, document)
    async with observing(client, prefetch=lambda metadata: bool(metadata.ownerReferences)) as scene:
        scene.observer.follow("w1", frozenset({ref("one")}))
        await scene.known(ref("one"))
        scene.observer.follow("w2", frozenset({ref("two")}))
        assert scene.observer.get(ref("two")).presence is Presence.PRESENT
        assert (client.reads, len(client.watches)) == ([], 1)


async def test_what_was_dropped_while_the_state_was_taken_in_is_asked_for(
    admin: InProcessClient, client: Disturbed, monkeypatch: pytest.MonkeyPatch
) -> None:
    await admin.create(CONFIG_MAPS, config_map("early"))
    await admin.create(CONFIG_MAPS, config_map("late"))
    async with observing(client) as scene:
        scene.observer.follow("w1", frozenset({ref("early")}))
        takes = CollectionWatch.take

        def take(self: CollectionWatch, raw: bytes, found: set[ObjectKey] | None) -> None:
            takes(self, raw, found)
            if b'"late"' in raw:
                scene.observer.follow("w2", frozenset({ref("late")}))

        monkeypatch.setattr(CollectionWatch, "take", take)
        await scene.known(ref("early"))
        await scene.known(ref("late"))
        assert scene.observer.get(ref("late")).presence is Presence.PRESENT
        assert client.reads == ["/api/v1/namespaces/default/configmaps/late"]


async def test_many_namespaces_share_one_watch_and_nothing_is_lost_on_the_way(admin: InProcessClient, client: Disturbed) -> None:
    names = [f"n{number}" for number in range(module.NAMESPACE_WATCHES_PER_RESOURCE + 2)]
    await namespaces(admin, *names)
    async with observing(client) as scene:
        few = frozenset(ref("a", name) for name in names[:2])
        scene.observer.follow("w", few)
        await scene.known(*few)
        assert len(client.watches) == 2
        for name in names[2:]:
            scene.observer.follow(name, frozenset({ref("a", name)}))
        await scene.known(*(ref("a", name) for name in names))
        assert [path for path, _ in client.watches[2:]] == ["/api/v1/configmaps"]
        running = scene.observer._resources[CONFIG_MAPS].running
        await eventually(lambda: list(running) == [""])
        await admin.create(CONFIG_MAPS, config_map("a", "n0"))
        await admin.create(CONFIG_MAPS, config_map("a", names[-1]))
        await eventually(lambda: sorted(scene.told) == sorted(["w", names[-1]]))


async def test_namespaces_that_come_and_go_under_a_watch_over_all_leave_nothing(admin: InProcessClient, client: Disturbed) -> None:
    stay = frozenset(ref("a", f"stay{number}") for number in range(module.NAMESPACE_WATCHES_PER_RESOURCE + 1))
    async with observing(client) as scene:
        scene.observer.follow("long", stay)
        await scene.known(*stay)
        before = holdings(scene.observer)
        for number in range(50):
            passing = ref("a", f"passing{number}")
            scene.observer.follow("short", frozenset({passing}))
            await scene.known(passing)
        scene.observer.follow("short", frozenset())
        await eventually(lambda: not grown(before, holdings(scene.observer), 5))
        again = ref("a", "passing7")
        scene.observer.follow("short", frozenset({again}))
        await namespaces(admin, "passing7")
        await admin.create(CONFIG_MAPS, config_map("a", "passing7"))
        await eventually(lambda: scene.observer.get(again).presence is Presence.PRESENT)


async def test_many_kinds_in_several_namespaces_have_a_watch_each_over_all(
    admin: InProcessClient, client: Disturbed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "NAMESPACE_WATCHES", 4)
    await namespaces(admin, "n1", "n2")
    refs = [ref("a", name, resource) for name in ("default", "n1", "n2") for resource in (CONFIG_MAPS, SECRETS)]
    alone = ref("a", "n1", SERVICE_ACCOUNTS)
    async with observing(client) as scene:
        scene.observer.follow("w", frozenset([*refs, alone]))
        await scene.known(*refs, alone)
        paths = sorted(path for path, _ in client.watches)
        assert paths == ["/api/v1/configmaps", "/api/v1/namespaces/n1/serviceaccounts", "/api/v1/secrets"]


async def test_a_watch_that_nobody_needs_ends_after_a_while(client: Disturbed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "UNUSED_WATCH_TIMEOUT", 0.2)
    async with observing(client) as scene:
        scene.observer.follow("w", frozenset({ref("a"), ref("s", resource=SECRETS)}))
        await scene.known(ref("a"), ref("s", resource=SECRETS))
        scene.observer.follow("w", frozenset({ref("a")}))
        await eventually(lambda: list(scene.observer._resources) == [CONFIG_MAPS])
        scene.observer.follow("w", frozenset({ref("a"), ref("s", resource=SECRETS)}))
        await scene.known(ref("s", resource=SECRETS))
        assert scene.observer.get(ref("s", resource=SECRETS)).presence is Presence.ABSENT


async def test_changes_during_a_broken_watch_are_told_when_it_is_back(admin: InProcessClient, client: Disturbed) -> None:
    await admin.create(CONFIG_MAPS, config_map("a", k="1"))
    await admin.create(CONFIG_MAPS, config_map("gone"))
    for error in (None, Unreachable("s", "reset"), Expired(410, "Expired", "too old")):
        async with observing(client) as scene:
            scene.observer.follow("w", frozenset({ref("a"), ref("gone")}))
            await scene.known(ref("a"), ref("gone"))
            client.cut(error)
            await admin.patch(CONFIG_MAPS, "a", {"data": {"k": f"{error}"}}, "default")
            await admin.delete(CONFIG_MAPS, "gone", "default")
            await eventually(lambda: scene.observer.get(ref("gone")).presence is Presence.ABSENT)
            await eventually(lambda: data(scene.observer.get(ref("a"))) == {"k": f"{error}"})  # noqa: B023
            await eventually(lambda: scene.told)
        await admin.create(CONFIG_MAPS, config_map("gone"))


async def test_a_failing_server_is_waited_for_no_longer_than_was_said(client: Disturbed) -> None:
    client.refusals = [StatusError(500, "InternalError", "no")] * 100
    async with observing(client) as scene:
        scene.observer.follow("w", frozenset({ref("a")}))
        async with asyncio.timeout(5):
            await scene.observer.settle([ref("a")], 0.2)
        assert scene.observer.get(ref("a")).presence is Presence.UNKNOWN


async def test_who_may_not_watch_all_namespaces_watches_each(admin: InProcessClient, limited: Disturbed) -> None:
    names = [f"n{number}" for number in range(module.NAMESPACE_WATCHES_PER_RESOURCE + 1)]
    await namespaces(admin, *names)
    for name in names:
        await permit(admin, ["get", "list", "watch"], "configmaps", name)
    refs = [ref("a", name) for name in names]
    async with observing(limited) as scene:
        scene.observer.follow("w", frozenset(refs))
        await scene.known(*refs)
        assert {scene.observer.get(one).presence for one in refs} == {Presence.ABSENT}
        await admin.create(CONFIG_MAPS, config_map("a", names[-1]))
        await eventually(lambda: scene.told == ["w"])
        assert limited.reads == []


async def test_what_may_not_be_watched_is_asked_for_now_and_then(admin: InProcessClient, limited: Disturbed) -> None:
    await permit(admin, ["get"], "configmaps", "default")
    await admin.create(CONFIG_MAPS, config_map("a", k="1"))
    async with observing(limited, poll_seconds=0.1) as scene:
        scene.observer.follow("w", frozenset({ref("a"), ref("b")}))
        await scene.known(ref("a"), ref("b"))
        assert data(scene.observer.get(ref("a"))) == {"k": "1"}
        assert scene.observer.get(ref("b")).presence is Presence.ABSENT
        await admin.patch(CONFIG_MAPS, "a", {"data": {"k": "2"}}, "default")
        await eventually(lambda: scene.told == ["w"])
        await admin.delete(CONFIG_MAPS, "a", "default")
        await eventually(lambda: scene.told == ["w", "w"])


async def test_a_watch_that_is_permitted_later_replaces_the_asking(
    admin: InProcessClient, limited: Disturbed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "REFUSED_RETRY_INTERVAL", 0.1)
    async with observing(limited, poll_seconds=0.1) as scene:
        scene.observer.follow("w", frozenset({ref("kube-system", "", NAMESPACES)}))
        await scene.known(ref("kube-system", "", NAMESPACES))
        assert scene.observer.get(ref("kube-system", "", NAMESPACES)).presence is Presence.UNKNOWN
        await permit(admin, ["get", "list", "watch"], "namespaces")
        await eventually(lambda: scene.observer.get(ref("kube-system", "", NAMESPACES)).presence is Presence.PRESENT)
        await eventually(lambda: scene.told == ["w"])


async def test_objects_go_with_their_kind_and_are_followed_again_when_it_is_back(admin: InProcessClient, client: Disturbed) -> None:
    widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a", "namespace": "default"}}
    one = ref("a", resource=WIDGETS)

    await until_made(admin, CRDS, definition())
    await until_made(admin, WIDGETS, widget)
    async with observing(client) as scene:
        scene.observer.follow("w", frozenset({one}))
        await scene.known(one)
        assert scene.observer.get(one).presence is Presence.PRESENT
        await admin.delete(CRDS, "widgets.example.com")
        await eventually(lambda: scene.observer.get(one).presence is Presence.ABSENT)
        await eventually(lambda: scene.told)
        client.cut(Unreachable("s", "closed"))
        await until_made(admin, CRDS, definition())
        await until_made(admin, WIDGETS, widget)
        scene.told.clear()
        # Whoever hears of the kind's return follows its objects again.
        scene.observer.follow("w", frozenset())
        scene.observer.follow("w", frozenset({one}))
        await scene.known(one)
        assert scene.observer.get(one).presence is Presence.PRESENT


TOO_LARGE = StatusError(504, "Timeout", "Too large resource version", {"causes": [{"reason": "ResourceVersionTooLarge"}]})


async def test_a_cluster_restored_from_a_backup_is_believed() -> None:
    client = ScriptedClient()
    client.streams = [
        [
            event("ADDED", "a", 90, k="new"),
            event("ADDED", "b", 91),
            bookmark(100, end=True),
            event("MODIFIED", "a", 105),
            TOO_LARGE,
        ],
        [event("ADDED", "a", 40, k="old"), bookmark(50, end=True)],
        [event("ADDED", "a", 40, k="old"), bookmark(50, end=True), ...],
    ]
    async with observing(client) as scene:
        scene.observer.follow("w", frozenset({ref("a"), ref("b")}))
        await eventually(lambda: scene.observer.get(ref("b")).presence is Presence.ABSENT)
        assert data(scene.observer.get(ref("a"))) == {"k": "old"}
        await eventually(lambda: scene.told)
