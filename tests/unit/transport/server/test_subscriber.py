"""What waits for a reader: the latest of each object, in bounded memory, and no deletion is lost."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.transport.contract.rows import WORKS
from muster.transport.rpc.status import Code, RpcError
from muster.transport.server import subscriber as module
from muster.transport.server.subscriber import MADE_PER_TURN, SEND_AHEAD, Subscriber
from tests.support.fake_clock import settle
from tests.unit.transport.server.fakes import FakeCall, FakeStream, agent

BIG = b"x" * SEND_AHEAD


class Reader:
    """A subscriber that is flushed by the test."""

    def __init__(self) -> None:
        self.stream = FakeStream()
        self.state: dict[str, bytes] = {}
        self.flushes = 0
        who = agent("cluster1")
        self.subscriber = Subscriber(
            "id", FakeCall(who), who, WORKS, "cluster1", self.stream, make=self.state.get, dirty=self._dirty
        )

    def _dirty(self, subscriber: Subscriber) -> None:
        self.flushes += 1

    def pause(self) -> None:
        """The reader stops, and what may be with the wire is."""
        self.stream.pause()
        self.stream.send(BIG)
        self.subscriber.offer("second", b"second")
        self.subscriber.flush()


async def test_of_an_object_only_the_latest_is_sent() -> None:
    reader = Reader()
    for message in (b"1", b"2", b"3"):
        reader.subscriber.offer("a", message)
    reader.subscriber.offer("b", b"4")
    assert reader.flushes == 1, "once per turn"
    reader.subscriber.flush()
    assert reader.stream.messages == [b"3", b"4"]
    assert reader.subscriber.waiting_bytes == 0


async def test_an_answer_takes_the_place_of_a_change_and_no_change_takes_the_answers() -> None:
    reader = Reader()
    reader.subscriber.offer("a", b"1")
    reader.subscriber.answer("a", lambda resource_id: b"answer")
    reader.subscriber.offer("a", b"2")
    reader.subscriber.flush()
    assert reader.stream.messages == [b"answer"]
    assert reader.subscriber.waiting_bytes == 0


async def test_a_deletion_takes_the_place_of_an_answer_and_no_answer_that_of_a_deletion() -> None:
    reader = Reader()
    reader.subscriber.answer("a", lambda resource_id: b"answer")
    reader.subscriber.offer("a", b"gone", keep=True)
    reader.subscriber.answer("a", lambda resource_id: b"answer")
    reader.subscriber.flush()
    assert reader.stream.messages == [b"gone"]
    assert reader.subscriber.waiting_bytes == 0


async def test_a_deletion_is_never_replaced() -> None:
    reader = Reader()
    reader.subscriber.offer("a", b"gone", keep=True)
    reader.subscriber.offer("a", b"back")
    reader.subscriber.flush()
    assert reader.stream.messages == [b"gone", b"back"]
    assert reader.subscriber.waiting_bytes == 0


async def test_a_deletion_takes_the_place_of_what_was_to_be_told_before() -> None:
    reader = Reader()
    reader.subscriber.offer("a", b"new")
    reader.subscriber.offer("a", b"gone", keep=True)
    reader.subscriber.flush()
    assert reader.stream.messages == [b"gone"]


async def test_a_reader_that_catches_up_gets_what_waited() -> None:
    reader = Reader()
    serving = asyncio.create_task(reader.subscriber.serve())
    reader.pause()
    reader.subscriber.offer("second", b"newer")
    await settle()
    assert reader.stream.messages == []
    reader.stream.resume()
    await settle()
    assert reader.stream.messages == [BIG, b"newer"]
    serving.cancel()


async def test_a_heartbeat_waits_for_a_reader_that_is_behind_and_goes_first() -> None:
    reader = Reader()
    serving = asyncio.create_task(reader.subscriber.serve())
    reader.pause()
    reader.subscriber.beat(b"beat1")
    reader.subscriber.beat(b"beat2")
    await settle()
    reader.stream.resume()
    await settle()
    assert reader.stream.messages == [BIG, b"beat2", b"second"]
    serving.cancel()


async def test_a_reader_that_never_reads_costs_bounded_bytes_and_gets_the_state_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_WAITING_BYTES", 1000)
    reader = Reader()
    serving = asyncio.create_task(reader.subscriber.serve())
    reader.pause()
    for index in range(10_000):
        name = f"work{index % 100}"
        reader.state[name] = f"{index:0100}".encode()
        reader.subscriber.offer(name, reader.state[name])
        assert reader.subscriber.waiting_bytes <= 1000
    assert reader.subscriber.waiting == 101
    reader.stream.resume()
    while reader.subscriber.waiting:
        await settle()
        reader.subscriber.flush()
    assert set(reader.state.values()) <= set(reader.stream.messages)
    assert len(reader.stream.messages) == 102
    serving.cancel()


async def test_what_can_be_had_again_makes_room_for_deletions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_WAITING_BYTES", 1000)
    reader = Reader()
    reader.pause()
    reader.state["a"] = b"now"
    reader.subscriber.offer("a", b"x" * 900)
    reader.subscriber.offer("b", b"g" * 900, keep=True)
    assert reader.subscriber.error is None
    reader.stream.resume()
    reader.subscriber.flush()
    assert reader.stream.messages == [BIG, b"now", b"g" * 900]


async def test_deletions_beyond_the_bound_end_the_stream_so_that_the_agent_resyncs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_WAITING_BYTES", 1000)
    reader = Reader()
    serving = asyncio.create_task(reader.subscriber.serve())
    reader.pause()
    for index in range(20):
        reader.subscriber.offer(f"w{index}", b"g" * 100, keep=True)
    with pytest.raises(RpcError) as ended:
        await serving
    assert ended.value.code is Code.UNAVAILABLE
    assert (reader.subscriber.waiting, reader.subscriber.waiting_bytes) == (0, 0)
    reader.subscriber.offer("later", b"message")
    reader.subscriber.enqueue("later")
    assert reader.subscriber.waiting == 0


async def test_a_stream_that_is_ended_while_its_reader_is_behind_ends_at_once() -> None:
    reader = Reader()
    serving = asyncio.create_task(reader.subscriber.serve())
    reader.pause()
    await settle()
    reader.subscriber.end(RpcError(Code.PERMISSION_DENIED))
    with pytest.raises(RpcError) as ended:
        await serving
    assert ended.value.code is Code.PERMISSION_DENIED


async def test_answers_that_have_to_be_made_are_spread_over_turns() -> None:
    reader = Reader()
    for index in range(3 * MADE_PER_TURN):
        reader.state[f"w{index}"] = b"now"
        reader.subscriber.enqueue(f"w{index}")
    assert reader.flushes == 1
    reader.subscriber.flush()
    assert (len(reader.stream.messages), reader.flushes) == (MADE_PER_TURN, 2)


async def test_what_waits_already_is_not_asked_for_again_and_news_replace_what_was_asked_for() -> None:
    reader = Reader()
    reader.state |= {"a": b"old", "b": b"old"}
    reader.subscriber.offer("a", b"news")
    reader.subscriber.enqueue("a")
    reader.subscriber.enqueue("b")
    reader.subscriber.offer("b", b"news")
    reader.subscriber.flush()
    assert reader.stream.messages == [b"news", b"news"]


STEPS = st.lists(st.tuples(st.sampled_from(["offer", "delete", "ask", "flush", "pause", "resume"]), st.integers(0, 3)), max_size=60)


@given(STEPS)
async def test_a_reader_ends_with_the_latest_of_every_object(steps: list[tuple[str, int]]) -> None:
    """Whatever happens in between, the last that is told of an object is its last state, and every deletion is told."""
    reader = Reader()
    latest: dict[str, bytes] = {}
    deletions: list[bytes] = []
    for number, (step, index) in enumerate(steps):
        name, message = f"w{index}", f"w{index}:{number}".encode()
        match step:
            case "offer":
                reader.state[name] = latest[name] = message
                reader.subscriber.offer(name, message)
            case "delete":
                reader.state.pop(name, None)
                latest[name] = message
                deletions.append(message)
                reader.subscriber.offer(name, message, keep=True)
            case "ask":
                reader.subscriber.enqueue(name)
            case "flush":
                reader.subscriber.flush()
            case "pause":
                reader.stream.pause()
            case "resume":
                reader.stream.resume()
    reader.stream.resume()
    reader.subscriber.flush()
    told = reader.stream.messages
    for name, message in latest.items():
        assert [one for one in told if one.startswith(f"{name}:".encode())][-1:] == [message]
    assert set(deletions) <= set(told)
    assert reader.subscriber.waiting_bytes == 0
