"""Tunnels whose other end says anything at all, as WebSocket frames and as HTTP/2 frames in them: at worst the tunnel ends.

Whatever is said to the gateway's end, other tunnels go on; whatever is said to the agent's end, it leads to its own API server and
nowhere else. MUSTER_TUNNEL_FUZZ is how many examples of each are tried.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import Any, cast
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from muster.gateway.tunnel import wire
from muster.gateway.tunnel.agent import AgentOptions, TunnelAgent
from muster.http import RawConnection
from muster.http.http2 import fields as http2
from muster.http.http2 import frames
from muster.http.pool import open_connection
from muster.http.websocket import WebSocketCodec
from muster.runtime.client.transport import Upgraded
from tests.unit.gateway.tunnel.test_tunnels import CLUSTER, Client, Pipe, TunnelHarness, pipes, scenes, until

EXAMPLES = int(os.environ.get("MUSTER_TUNNEL_FUZZ", "60"))
HOSTILE = "hostile"

_CONNECT = http2.encode([(b":method", b"CONNECT"), (b":authority", wire.AUTHORITY.encode())])
_DOT_SEGMENTS = http2.encode([(b":method", b"CONNECT"), (b":authority", b"169.254.169.254:80")])
_STREAMS = st.sampled_from([0, 1, 2, 3, 5, 7, 2**31 - 1])
_PAYLOADS = st.one_of(
    st.binary(max_size=64),
    st.sampled_from([_CONNECT, _DOT_SEGMENTS, http2.encode([(b":status", b"200")]), b"\x00\x00\x00\x00", b"\x7f\xff\xff\xff", b""]),
)
_LAWFUL = [
    frames.settings([(frames.INITIAL_WINDOW_SIZE, 0)]),
    frames.settings([(frames.MAX_CONCURRENT_STREAMS, 0), (frames.HEADER_TABLE_SIZE, 0)]),
    frames.SETTINGS_ACK,
    frames.ping(b"12345678"),
    frames.ping(b"12345678", ack=True),
    frames.goaway(0, 0),
    frames.window_update(0, 2**31 - 1),
    frames.window_update(1, 2**31 - 1),
    frames.reset(1, 8),
    frames.headers(1, _CONNECT, end=False),
    frames.headers(1, _DOT_SEGMENTS, end=False),
    frames.headers(3, http2.encode([(b":status", b"200")]), end=True),
    frames.PREFACE,
]
"""What means something in its place, and is said out of it here."""
_FRAMES = st.one_of(
    st.sampled_from(_LAWFUL),
    st.builds(frames.frame, st.integers(0, 12), st.integers(0, 255), _STREAMS, _PAYLOADS),
    # Of a size that is not its own.
    st.builds(
        lambda size, kind, flags, stream, payload: frames.frame_header(size, kind, flags, stream) + payload,
        st.sampled_from([0, 1, 8, 100, frames.FRAME_LIMIT, frames.FRAME_LIMIT + 1, frames.LARGEST_FRAME]),
        st.integers(0, 9),
        st.integers(0, 255),
        _STREAMS,
        _PAYLOADS,
    ),
)


@st.composite
def _said(draw: st.DrawFn, client: bool) -> bytes:
    """HTTP/2 frames inside WebSocket frames, some of either broken, in pieces that fit nothing."""
    codec = WebSocketCodec(client=client, mask=lambda: b"mask")
    opening = draw(st.sampled_from([b"", frames.settings([]), frames.PREFACE, frames.PREFACE + frames.settings([])]))
    inside = opening + b"".join(draw(st.lists(_FRAMES, max_size=12)))
    cut = draw(st.integers(0, len(inside)))
    outside = [codec.data(inside[:cut]), codec.data(inside[cut:])]
    for _ in range(draw(st.integers(0, 3))):
        lawful = [codec.ping(b"x"), codec.pong(b""), codec.data(b""), codec.close(1000, "bye"), b"\x82", b"\x00\x80mask"]
        strange = st.one_of(st.sampled_from(lawful), st.binary(max_size=20))
        outside.insert(draw(st.integers(0, len(outside))), draw(strange))
    return b"".join(outside)


async def tried(run: Callable[[Pipe], Awaitable[None]], said: bytes) -> None:
    """An end of a tunnel that is told this, and then nothing more: it ends, and raises nothing."""
    here, there = pipes()
    task = asyncio.ensure_future(run(here))
    there.write(said)
    # It reads all of it, as far as it goes on at all.
    await until(lambda: task.done() or not here._arrived)
    there.close()
    async with asyncio.timeout(10):
        await task


@settings(max_examples=EXAMPLES)
@given(_said(client=True))
def test_whatever_an_agent_says_only_its_own_tunnel_ends(said: bytes) -> None:
    @scenes
    async def run(harness: TunnelHarness) -> None:
        await harness.open()
        other = Client.of(await harness.tunnels.stream(CLUSTER))
        await tried(lambda pipe: harness.tunnels.serve(HOSTILE, "", cast(RawConnection, pipe)), said)
        assert harness.tunnels.count(HOSTILE) == 0
        assert harness.tunnels.count(CLUSTER) == 1
        other.stream.send(b"still here")
        await until(lambda: bytes(other.__dict__.get("received", b"")) == b"still here")

    run()


@settings(max_examples=EXAMPLES)
@given(_said(client=False))
def test_whatever_is_said_to_an_agent_it_leads_to_its_own_api_server_alone(said: bytes) -> None:
    async def run() -> None:
        async def meet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.close()

        server = await asyncio.start_server(meet, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        agent = TunnelAgent(cast(Any, None), AgentOptions(CLUSTER, "", "127.0.0.1", port))
        with patch("muster.gateway.tunnel.agent.open_connection", side_effect=open_connection) as opened:
            await tried(lambda pipe: agent._serve(cast(Upgraded, pipe)), said)
        assert {call.args[0] for call in opened.call_args_list} <= {("127.0.0.1", port, None, None)}
        assert agent._server.streams == 0
        await agent._server.stop()
        server.close()

    asyncio.run(run())


def test_the_frames_that_are_varied_do_open_streams() -> None:
    """Else nothing of the above would say anything: told in order, the agent leads to its API server."""

    async def run() -> None:
        met = asyncio.Event()

        async def meet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            met.set()
            writer.close()

        server = await asyncio.start_server(meet, "127.0.0.1", 0)
        agent = TunnelAgent(cast(Any, None), AgentOptions(CLUSTER, "", "127.0.0.1", server.sockets[0].getsockname()[1]))
        here, there = pipes()
        task = asyncio.create_task(agent._serve(cast(Upgraded, here)))
        inside = frames.PREFACE + frames.settings([]) + frames.headers(1, _CONNECT, end=False)
        there.write(WebSocketCodec(client=False).data(inside))
        async with asyncio.timeout(10):
            await met.wait()
            there.close()
            await task
        await agent._server.stop()
        server.close()

    asyncio.run(run())
