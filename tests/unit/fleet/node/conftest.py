"""Tiny programs, and a stage to run them on."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from muster.fleet.node import PodEnvironment
from muster.machinery.logs import get_logger
from muster.runtime.client.builtin import NAMESPACES
from tests.support.stage import Stage, open_stage

log = get_logger("test.program")


async def serve(args: Sequence[str], env: PodEnvironment) -> int:
    env.print(f"serving with {' '.join(args)}".strip())
    log.info("hello from the program", pod=env.pod)
    try:
        await asyncio.Event().wait()
    finally:
        env.print("tidied up")
    return 0


async def exit_with(args: Sequence[str], env: PodEnvironment) -> int:
    env.print(f"leaving with {args[0]}")
    return int(args[0])


async def crash(args: Sequence[str], env: PodEnvironment) -> int:
    raise RuntimeError("boiled over")


async def leave(args: Sequence[str], env: PodEnvironment) -> int:
    raise SystemExit(3)


async def stubborn(args: Sequence[str], env: PodEnvironment) -> int:
    """Does not listen to the first request to end."""
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        env.print("not yet")
        await asyncio.Event().wait()
    return 0


async def show(args: Sequence[str], env: PodEnvironment) -> int:
    """Prints variables (NAME) and files (/path) and stays."""
    for wanted in args:
        env.print(f"{wanted}={env.path(wanted).read_text() if wanted.startswith('/') else env.environ.get(wanted)}")
    await asyncio.Event().wait()
    return 0


async def listen(args: Sequence[str], env: PodEnvironment) -> int:
    """An HTTP server on the pod's own address; answers 200 for as long as the file says nothing else."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = await reader.readline()
        if not line:  # a TCP probe
            writer.close()
            return
        path = line.split()[1].decode()
        code = 500 if path == "/healthz" and await asyncio.to_thread(env.path("/state/sick").exists) else 200
        writer.write(f"HTTP/1.1 {code} X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, env.ip, int(args[0])) as server:
        with env.listening(int(args[0])):
            await server.serve_forever()
    return 0


async def namespaces(args: Sequence[str], env: PodEnvironment) -> int:
    """Lists namespaces in the pod's own name."""
    listed = await env.connect().list(NAMESPACES)
    env.print(" ".join(sorted(each["metadata"]["name"] for each in listed.items)))
    return 0


PROGRAMS = {
    ("serve",): serve,
    ("exit",): exit_with,
    ("crash",): crash,
    ("leave",): leave,
    ("stubborn",): stubborn,
    ("show",): show,
    ("listen",): listen,
    ("list", "namespaces"): namespaces,
}


@pytest.fixture(params=[False, True], ids=["embedded", "remote"])
async def stage(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Stage]:
    """Twice: with a node that reads the server's store, and with one that knows the server by a client only."""
    async with open_stage(PROGRAMS, tmp_path / "node", remote=request.param) as opened:
        yield opened
