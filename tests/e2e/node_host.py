"""A node that knows Muster's own programs and a few small ones, as a process: with an API server of its own, or for one elsewhere.

python -m tests.e2e.node_host --data-dir D --port P [--token-auth-file F] [--cluster NAME]…
python -m tests.e2e.node_host node --kubeconfig K …      (the options of `muster node`)
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import ssl
import sys
from collections.abc import Sequence
from pathlib import Path

import uvloop

from muster.apiserver.adminkubeconfig import write_kubeconfig
from muster.apiserver.auth.statictokens import load_token_file
from muster.apiserver.server import ApiServer, ServerConfig
from muster.cli import node as node_command
from muster.cli import programs as muster_programs
from muster.fleet.node import NodeRuntime, PodEnvironment
from muster.machinery.clock import SYSTEM
from muster.machinery.logs import get_logger
from muster.runtime.client.builtin import CONFIG_MAPS
from muster.runtime.client.http import HttpClient

log = get_logger("tests.node_host")


async def tick(args: Sequence[str], env: PodEnvironment) -> int:
    """A line every tenth of a second, from the log that all modules use."""
    number = 0
    while True:
        number += 1
        log.info("tick", number=number, greeting=env.environ.get("GREETING", ""))
        await asyncio.sleep(0.1)


async def fail(args: Sequence[str], env: PodEnvironment) -> int:
    env.print(f"about to end with {args[0]}")
    return int(args[0])


async def record(args: Sequence[str], env: PodEnvironment) -> int:
    """Writes a ConfigMap in its own name, over TLS with its own token, and stays."""
    client = HttpClient(env.client_config, agent="record")
    try:
        await client.apply(
            CONFIG_MAPS, {"metadata": {"name": "record", "namespace": env.namespace}, "data": {"pod": env.pod}}, manager="record"
        )
        env.print("recorded")
        await asyncio.Event().wait()
    finally:
        await client.close()
    return 0


async def hook(args: Sequence[str], env: PodEnvironment) -> int:
    """An admission webhook that refuses everything, on the pod's own address."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(env.path("/certs/tls.crt"), env.path("/certs/tls.key"))

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = next((int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0)
        body = b"ok"
        if length:
            review = json.loads(await reader.readexactly(length))
            refusal = {"uid": review["request"]["uid"], "allowed": False, "status": {"message": "a pod says no"}}
            body = json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": refusal}).encode()
        fields = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        writer.write(fields.encode() + body)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, env.ip, 9443, ssl=context) as server:
        with env.listening(9443):
            env.print(f"listening on {env.ip}")
            await server.serve_forever()
    return 0


PROGRAMS = {**muster_programs.programs(), ("tick",): tick, ("fail",): fail, ("record",): record, ("hook",): hook}


async def serve(arguments: argparse.Namespace) -> None:
    tokens = load_token_file(arguments.token_auth_file) if arguments.token_auth_file else {}
    data: Path = arguments.data_dir
    server = ApiServer(ServerConfig(data_dir=data, port=arguments.port, clusters=arguments.cluster, static_tokens=tokens))
    await server.start()
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    runtime = NodeRuntime(server, PROGRAMS, data / "nodes", grace=5.0)
    for name in server.clusters:
        runtime.attach(name)
    running = asyncio.create_task(runtime.run())
    await write_kubeconfig(server, data / "kubeconfig")
    print("ready", flush=True)
    await stop.wait()
    running.cancel()
    await asyncio.wait({running})
    await server.stop()


def main() -> None:
    if sys.argv[1:2] == ["node"]:
        muster_programs.programs = lambda clock=SYSTEM: PROGRAMS
        node_command.command(sys.argv[2:])
    parser = argparse.ArgumentParser()
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--token-auth-file", type=Path)
    parser.add_argument("--cluster", action="append", default=[])
    arguments = parser.parse_args()
    arguments.data_dir.mkdir(parents=True, exist_ok=True)
    uvloop.run(serve(arguments))


if __name__ == "__main__":
    main()
