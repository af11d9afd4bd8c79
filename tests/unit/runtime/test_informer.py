"""The cache follows the server: through restarts of streams, lost history, malformed objects and slow handlers."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import orjson
import pytest

from muster.fleet.in_process import InProcessClient
from muster.kube.selectors import parse_label_selector
from muster.machinery.objects import ObjectKey
from muster.runtime.cache import informer as informer_module
from muster.runtime.cache import reflector as reflector_module
from muster.runtime.cache.informer import Informer, Informers
from muster.runtime.cache.store import Snapshot, label_index
from muster.runtime.client.builtin import CONFIG_MAPS
from muster.runtime.client.errors import BadRequest, Expired, Forbidden, StatusError, Unreachable
from tests.support.fake_clock import FakeClock, settle
from tests.unit.runtime.conftest import config_map, eventually
from tests.unit.runtime.scripted import ScriptedClient, bookmark, event


@asynccontextmanager
async def running(*informers: Informer[Any] | Informers) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(informer.run()) for informer in informers]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def value_of(snapshot: Snapshot | None, key: str) -> str | None:
    return snapshot.data["data"].get(key) if snapshot else None


class Log:
    """Collects what an informer writes."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []

    def debug(self, event: str, **fields: object) -> None:
        pass

    def info(self, event: str, **fields: object) -> None:
        self.lines.append(("info", event))

    def warning(self, event: str, **fields: object) -> None:
        self.lines.append(("warning", event))

    def error(self, event: str, **fields: object) -> None:
        self.lines.append(("error", event))


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    log = Log()
    monkeypatch.setattr(informer_module, "log", log)
    monkeypatch.setattr(reflector_module, "log", log)
    return log.lines


async def test_the_cache_holds_what_was_there_and_follows_what_happens(client: InProcessClient) -> None:
    await client.create(CONFIG_MAPS, config_map("before", k="1"))
    informer: Informer[Snapshot] = Informer(client, CONFIG_MAPS, "default")
    seen: list[tuple[str | None, str | None]] = []
    informer.on_change(lambda old, new: seen.append((value_of(old, "k"), value_of(new, "k"))))
    async with running(informer):
        await informer.synced()
        before = informer.cache.named("before", "default")
        assert before is not None
        assert before.data["kind"] == "ConfigMap"
        seen.clear()
        await client.patch(CONFIG_MAPS, "before", {"data": {"k": "2"}}, "default")
        await client.delete(CONFIG_MAPS, "before", "default")
        await eventually(lambda: len(seen) == 2)
    assert seen == [("1", "2"), ("2", None)]
    assert ObjectKey("default", "before") not in informer.cache


async def test_a_paged_list_gives_the_same_as_a_watch_list(client: InProcessClient) -> None:
    for number in range(7):
        await client.create(CONFIG_MAPS, config_map(f"c{number}"))
    listing: Informer[Snapshot] = Informer(client, CONFIG_MAPS, watch_list=False)
    streaming: Informer[Snapshot] = Informer(client, CONFIG_MAPS)
    async with running(listing, streaming):
        await listing.synced()
        await streaming.synced()
    assert set(listing.cache.all_keys()) == set(streaming.cache.all_keys())
    assert len(listing.cache) >= 7


async def test_a_server_without_watch_list_is_listed_instead(clock: FakeClock) -> None:
    client = ScriptedClient()
    client.streams = [[BadRequest(400, "BadRequest", "sendInitialEvents is forbidden")], [...]]
    client.answers = [{"metadata": {"resourceVersion": "7"}, "items": [event("", "a", 5)["object"]]}]
    informer: Informer[Snapshot] = Informer(client, CONFIG_MAPS, clock=clock)
    async with running(informer):
        await asyncio.wait_for(informer.synced(), 1)
        await settle()
    assert informer.cache.all_keys() == [ObjectKey("default", "a")]
    assert client.asked[-1]["resourceVersion"] == "7"


async def test_a_watch_that_ends_is_resumed_at_the_last_bookmark(clock: FakeClock) -> None:
    client = ScriptedClient()
    client.streams = [[event("ADDED", "a", 5), bookmark(6, end=True), bookmark(90)], [...]]
    informer: Informer[Snapshot] = Informer(client, CONFIG_MAPS, clock=clock)
    async with running(informer):
        await settle()
        assert client.asked[-1]["resourceVersion"] == "90"
        assert "sendInitialEvents" not in client.asked[-1]
        assert informer.lists == 1


async def test_lost_history_is_listed_again_and_the_difference_told_as_changes(clock: FakeClock) -> None:
    client = ScriptedClient()
    client.streams = [
        [event("ADDED", "gone", 1), event("ADDED", "kept", 2), event("ADDED", "new", 3, k="old"), bookmark(3, end=True)],
        [{"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}}],
        [event("ADDED", "kept", 2), event("ADDED", "new", 9, k="new"), bookmark(10, end=True), ...],
    ]
    informer: Informer[Snapshot] = Informer(client, CONFIG_MAPS, clock=clock)
    seen: list[tuple[str, bool, bool]] = []
    informer.on_change(lambda old, new: seen.append(((old or new).name, old is not None, new is not None)))  # type: ignore[union-attr]
    async with running(informer):
        await settle()
        assert informer.lists == 2
    assert seen[3:] == [("new", True, True), ("gone", True, False)]


async def test_a_list_cut_off_in_the_middle_removes_nothing_and_is_begun_again(clock: FakeClock) -> None:
    client = ScriptedClient()
    client.streams = [
        [event("ADDED", "a", 1), event("ADDED", "b", 2), bookmark(3, end=True)],
        [Expired(410, "Expired", "gone")],
        [event("ADDED", "a", 1), event("DELETED", "a", 4), Unreachable("scripted", "reset")],
        [event("ADDED", "b", 2), bookmark(5, end=True), ...],
    ]
    informer: Informer[Snapshot] = Informer(client, CONFIG_MAPS, clock=clock, random=lambda: 0.0)
    async with running(informer):
        await settle()
        assert ObjectKey("default", "b") in informer.cache
        await clock.advance(60)
        assert informer.cache.all_keys() == [ObjectKey("default", "b")]
        assert "resourceVersion" not in client.asked[-1]


async def test_an_outage_costs_one_line_and_its_end_another(clock: FakeClock, written: list[tuple[str, str]]) -> None:
    client = ScriptedClient()
    away = [Unreachable("scripted", "connection refused")]
    client.streams = [[bookmark(1, end=True)], *([away] * 8), [event("ADDED", "a", 2), ...]]
    informer: Informer[Snapshot] = Informer(client, CONFIG_MAPS, clock=clock)
    async with running(informer):
        await settle()
        await clock.advance(600)
        assert len(informer.cache) == 1
    assert written == [("warning", "cannot follow"), ("info", "following again")]


async def test_a_quiet_collection_is_known_to_be_followed_again_as_soon_as_the_server_answers(
    clock: FakeClock, written: list[tuple[str, str]]
) -> None:
    client = ScriptedClient()
    away = [Unreachable("scripted", "connection refused")]
    client.streams = [[bookmark(1, end=True)], away, away, ["opened", ...]]
    informer: Informer[Snapshot] = Informer(client, CONFIG_MAPS, clock=clock)
    async with running(informer):
        await settle()
        await clock.advance(10)
    assert written == [("warning", "cannot follow"), ("info", "following again")]


async def test_news_that_the_server_answers_others_ends_the_pause_and_only_that(clock: FakeClock) -> None:
    client = ScriptedClient()
    client.streams = [[Unreachable("scripted", "refused")]] * 6 + [[bookmark(1, end=True), ...]]
    informer: Informer[Snapshot] = Informer(client, CONFIG_MAPS, clock=clock, random=lambda: 0.0)
    informer.hurry()
    async with running(informer):
        await clock.advance(12)
        before = len(client.asked)
        assert clock.pending[0] > 5
        informer.hurry()
        await settle()
        assert len(client.asked) == before + 1
        await settle()
        assert len(client.asked) == before + 1


async def test_a_server_that_accepts_watches_and_ends_them_at_once_is_asked_less_and_less(clock: FakeClock) -> None:
    client = ScriptedClient()
    client.streams = [[bookmark(1, end=True)], *([["opened"]] * 100)]
    informer: Informer[Snapshot] = Informer(client, CONFIG_MAPS, clock=clock, random=lambda: 0.0)
    async with running(informer):
        await clock.advance(120)
        assert 5 <= len(client.asked) <= 12


async def test_a_server_that_has_no_history_at_all_is_not_asked_without_pause(clock: FakeClock) -> None:
    client = ScriptedClient()
    gone = [Expired(410, "Expired", "gone")]
    client.streams = [[bookmark(1, end=True)], gone] * 200
    informer: Informer[Snapshot] = Informer(client, CONFIG_MAPS, clock=clock, random=lambda: 0.0)
    async with running(informer):
        await clock.advance(60)
        assert 4 <= informer.lists <= 10


async def test_the_pauses_of_an_outage_grow_and_are_jittered(clock: FakeClock) -> None:
    client = ScriptedClient()
    client.streams = [[Unreachable("scripted", "refused")]] * 8
    informer: Informer[Snapshot] = Informer(client, CONFIG_MAPS, clock=clock, random=lambda: 0.5)
    pauses = []
    async with running(informer):
        for _ in range(7):
            await settle()
            pauses.append(clock.pending[0])
            await clock.advance(pauses[-1])
    assert pauses == pytest.approx([0.6, 1.2, 2.4, 4.8, 9.6, 19.2, 22.5])


async def test_a_refusal_is_tried_again_sooner_than_an_outage_until_it_lasts(clock: FakeClock) -> None:
    client = ScriptedClient()
    client.streams = [[Forbidden(403, "Forbidden", "not yet")]] * 11
    informer: Informer[Snapshot] = Informer(client, CONFIG_MAPS, clock=clock, random=lambda: 0.0)
    pauses = []
    async with running(informer):
        for _ in range(10):
            await settle()
            pauses.append(clock.pending[0])
            await clock.advance(pauses[-1])
    assert pauses == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0])


async def test_one_malformed_object_stays_out_and_disturbs_nobody(client: InProcessClient, written: list[tuple[str, str]]) -> None:
    def strict(raw: bytes) -> int:
        return int(orjson.loads(raw)["data"]["n"])

    await client.create(CONFIG_MAPS, config_map("good", labels={"watched": "y"}, n="1"))
    await client.create(CONFIG_MAPS, config_map("bad", labels={"watched": "y"}, n="one"))
    informer = Informer(client, CONFIG_MAPS, label_selector="watched", decode=strict)
    async with running(informer):
        await informer.synced()
        assert list(informer.cache) == [1]
        assert "ValueError" in informer.malformed[ObjectKey("default", "bad")]
        await client.patch(CONFIG_MAPS, "good", {"data": {"n": "broken"}}, "default")
        await client.patch(CONFIG_MAPS, "bad", {"data": {"n": "2"}}, "default")
        await eventually(lambda: informer.cache.named("bad", "default") == 2)
        assert informer.cache.named("good", "default") == 1
    assert list(informer.malformed) == [ObjectKey("default", "good")]
    assert written == [("error", "cannot read object; keeping its last good version")] * 2


async def test_a_handler_that_raises_keeps_nobody_from_hearing(client: InProcessClient, written: list[tuple[str, str]]) -> None:
    informer: Informer[Snapshot] = Informer(client, CONFIG_MAPS, "default")
    heard: list[str] = []

    def broken(old: Snapshot | None, new: Snapshot | None) -> None:
        raise ValueError("boom")

    informer.on_change(broken)
    informer.on_change(lambda old, new: heard.append(new.name if new else ""))
    async with running(informer):
        await informer.synced()
        await client.create(CONFIG_MAPS, config_map("later"))
        await eventually(lambda: "later" in heard)
    assert ("error", "handler failed") in written


async def test_a_slow_handler_skips_versions_but_never_the_last_and_delays_nobody(client: InProcessClient) -> None:
    informer: Informer[Snapshot] = Informer(client, CONFIG_MAPS, "default", label_selector="slow")
    gate = asyncio.Event()
    slow: list[tuple[str | None, str | None]] = []
    quick: list[str] = []

    async def take_time(old: Snapshot | None, new: Snapshot | None) -> None:
        await gate.wait()
        slow.append((value_of(old, "n"), value_of(new, "n")))

    subscription = informer.subscribe(take_time)
    informer.on_change(lambda old, new: quick.append(new.data["data"]["n"] if new else "-"))
    runner = asyncio.create_task(subscription.run())
    async with running(informer):
        await informer.synced()
        await client.create(CONFIG_MAPS, config_map("a", labels={"slow": "y"}, n="0"))
        await eventually(lambda: quick == ["0"])
        await settle()
        for number in range(1, 50):
            await client.patch(CONFIG_MAPS, "a", {"data": {"n": str(number)}}, "default")
        await eventually(lambda: len(quick) == 50)
        assert subscription.behind == 1
        gate.set()
        await eventually(lambda: len(slow) == 2)
    runner.cancel()
    assert slow == [(None, "0"), ("0", "49")]


async def test_what_appears_and_vanishes_unseen_is_not_told_to_a_slow_handler() -> None:
    informer: Informer[Snapshot] = Informer(ScriptedClient(), CONFIG_MAPS)

    async def never(old: Snapshot | None, new: Snapshot | None) -> None:
        raise AssertionError

    subscription = informer.subscribe(never)
    thing: Any = object()
    subscription.offer(ObjectKey("", "a"), None, thing)
    subscription.offer(ObjectKey("", "a"), thing, None)
    assert subscription.behind == 0


async def test_indexes_follow_every_change(client: InProcessClient) -> None:
    informer: Informer[Snapshot] = Informer(
        client,
        CONFIG_MAPS,
        "default",
        label_selector="team",
        indexes={"team": label_index("team"), "colours": lambda snapshot: snapshot.data["data"]["colours"].split(",")},
    )
    await client.create(CONFIG_MAPS, config_map("a", labels={"team": "x"}, colours="red,blue"))
    await client.create(CONFIG_MAPS, config_map("b", labels={"team": "y"}, colours="red"))

    def named(found: list[Snapshot]) -> set[str]:
        return {snapshot.name for snapshot in found}

    async with running(informer):
        await informer.synced()
        assert named(informer.cache.by_index("colours", "red")) == {"a", "b"}
        assert named(informer.cache.by_index("team", "x")) == {"a"}
        assert named(informer.cache.select(parse_label_selector("team in (y,z)"))) == {"b"}
        assert named(informer.cache.in_namespace("default")) == {"a", "b"}
        await client.patch(CONFIG_MAPS, "a", {"metadata": {"labels": {"team": "y"}}, "data": {"colours": "green"}}, "default")
        await client.delete(CONFIG_MAPS, "b", "default")
        await eventually(lambda: len(informer.cache) == 1 and informer.cache.by_index("colours", "green"))
        assert informer.cache.by_index("colours", "red") == []
        assert informer.cache.index_values("team") == ["y"]
        informer.cache.add_index("length", lambda snapshot: [str(len(snapshot.name))])
        assert named(informer.cache.by_index("length", "1")) == {"a"}


async def test_readers_share_one_tree_and_an_offender_is_found(client: InProcessClient) -> None:
    await client.create(CONFIG_MAPS, config_map("a", k="1"))
    informer: Informer[Snapshot] = Informer(client, CONFIG_MAPS, "default")
    async with running(informer):
        await informer.synced()
        snapshot = informer.cache.named("a", "default")
        assert snapshot is not None
        assert snapshot.data is snapshot.data
        assert not snapshot.altered
        snapshot.data["data"]["k"] = "changed"
        assert snapshot.altered


async def test_whoever_asks_for_the_same_collection_shares_its_informer(client: InProcessClient) -> None:
    informers = Informers(client)
    first = informers.of(CONFIG_MAPS, "default")
    assert informers.of(CONFIG_MAPS, "default") is first
    async with running(informers):
        await informers.synced()
        assert informers.has_synced
        sizes = informers.of(CONFIG_MAPS, "default", decode=len)
        assert informers.of(CONFIG_MAPS, "default", decode=len) is sizes
        await asyncio.wait_for(sizes.synced(), 5)
        assert list(sizes.cache) == [len(snapshot.raw) for snapshot in first.cache]
        late = informers.of(CONFIG_MAPS, "kube-system")
        await asyncio.wait_for(late.synced(), 5)


async def test_who_needs_little_of_large_objects_keeps_only_that(client: InProcessClient) -> None:
    def names_only(raw: bytes) -> bytes:
        metadata = orjson.loads(raw)["metadata"]
        return orjson.dumps({"metadata": {key: metadata[key] for key in ("name", "namespace", "uid", "resourceVersion")}})

    await client.create(CONFIG_MAPS, config_map("a", big="x" * 10_000))
    informer: Informer[Snapshot] = Informer(client, CONFIG_MAPS, "default", reduce=names_only)
    async with running(informer):
        await informer.synced()
        kept = informer.cache.snapshot(ObjectKey("default", "a"))
        assert kept is not None
        assert len(kept.raw) < 500
        await client.delete(CONFIG_MAPS, "a", "default")
        await eventually(lambda: ObjectKey("default", "a") not in informer.cache)


async def test_a_server_that_does_not_have_our_revision_yet_is_listed_anew(clock: FakeClock) -> None:
    client = ScriptedClient()
    restored = StatusError(504, "Timeout", "Too large resource version", {"causes": [{"reason": "ResourceVersionTooLarge"}]})
    client.streams = [
        [event("ADDED", "a", 90, k="new"), bookmark(100, end=True), restored],
        [event("ADDED", "a", 40, k="old"), bookmark(50, end=True), ...],
    ]
    informer: Informer[Snapshot] = Informer(client, CONFIG_MAPS, clock=clock)
    async with running(informer):
        await eventually(lambda: value_of(informer.cache.named("a", "default"), "k") == "old")
    assert informer.lists == 2
