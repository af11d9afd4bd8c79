"""Upstream's installation on a real kube-apiserver: its operators' manifests, and a node that runs its images.

The node is ours (`RemoteNode`). It knows upstream's images besides Muster's own: a container of them is upstream's Go program as a
process, with the arguments of its pod, the files of the pod's volumes, the token of the pod's account and the pod's own address. So
Deployments, pods, Secrets and rights are what the operators make of them, whoever's operators they are. Only upstream's webhook
servers are played, with the certificates that its operator gives them: they listen at one fixed port of all addresses of a machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import re
import ssl
import subprocess
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

import yaml

from muster.cli.programs import programs
from muster.fleet.node import PodEnvironment, RemoteNode
from muster.fleet.node.programs import IMAGES, Program
from muster.machinery.clock import SYSTEM
from muster.machinery.objects import GVR, Object
from muster.operator.names import OPERATOR_NAMESPACE
from muster.operator.pod_namespaces import RUN
from muster.runtime.client.base import KubeClient
from muster.runtime.client.builtin import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, CRDS, DEPLOYMENTS, NAMESPACES, SERVICE_ACCOUNTS
from muster.runtime.client.http import HttpClient
from muster.runtime.client.kubeconfig import load_kubeconfig
from muster.runtime.install import await_definitions
from tests.support import peers
from tests.support.operating import Observed, running
from tests.support.planes import KubeOptions, KubePlane
from tests.support.sites import Site

KINDS: Final[Mapping[str, GVR]] = {
    one.kind: one for one in (CRDS, NAMESPACES, SERVICE_ACCOUNTS, CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS, DEPLOYMENTS)
}
_PROGRAMS: Final = {"registration": "registration", "work": "work", "placement": "placement", "addon-manager": "addon"}
UPSTREAM_IMAGES: Final = (*_PROGRAMS, "registration-operator")
GRACE: Final = 5.0


@functools.cache
def module() -> Path:
    """Where the sources of upstream's programs are."""
    command = ["go", "-C", str(peers.ROOT / "peers/ocm"), "list", "-m", "-f", "{{.Dir}}", "open-cluster-management.io/ocm"]
    place = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.strip()
    assert place, "the module is not there: run `make -C peers`"
    return Path(place)


@functools.cache
def operator_manifests(operator: str) -> list[Object]:
    """What `kubectl apply -k` applies for upstream's operator `cluster-manager` or `klusterlet`, without its sample."""
    config = module() / "deploy" / operator / "config"
    found: list[Object] = []
    for directory in ("crds", "operator", "rbac"):
        for path in sorted((config / directory).glob("*.yaml")):
            found += [one for one in yaml.safe_load_all(path.read_text()) if one and one.get("kind") in KINDS]
    return sorted(found, key=lambda one: list(KINDS).index(one["kind"]))


async def install_operator(admin: KubeClient, operator: str) -> None:
    """As `kubectl apply --server-side --force-conflicts` would; one replica does."""
    manifests = operator_manifests(operator)
    for document in manifests:
        if document["kind"] == DEPLOYMENTS.kind:
            document = {**document, "spec": {**document["spec"], "replicas": 1}}
        if document["kind"] == NAMESPACES.kind:
            document = {**document, "metadata": {**document["metadata"], "labels": RUN}}
        await admin.apply(KINDS[document["kind"]], document, manager="kubectl")
    await await_definitions(admin, [one["metadata"]["name"] for one in manifests if one["kind"] == CRDS.kind], SYSTEM)


async def remove_operator(cluster: Observed, operator: str) -> None:
    """Its Deployment, whosever it is; and wait until its last pod is gone."""
    await cluster.admin.delete(DEPLOYMENTS, operator, OPERATOR_NAMESPACE, propagation="Foreground")
    await cluster.until_gone(DEPLOYMENTS, operator, OPERATOR_NAMESPACE, seconds=60)


def _program(name: str) -> Program:
    async def run(args: Sequence[str], pod: PodEnvironment) -> int:
        kubeconfig = pod.scratch / "kubeconfig"
        kubeconfig.write_text(yaml.safe_dump(_kubeconfig(pod)))
        words = [_translated(pod, word) for word in args]
        if "webhook-server" in words:
            return await _admit(pod)
        words += [
            f"--kubeconfig={kubeconfig}",
            f"--listen={pod.ip}:8443",
            f"--namespace={pod.namespace}",
            "--disable-leader-election",
        ]
        if name == "registration" and words[0] == "agent":
            words.append(f"--hub-kubeconfig-dir={pod.path('/spoke/hub-kubeconfig')}")
        with pod.listening(8443):
            return await _process([str(peers.need(name)), *words], pod)

    return run


def _kubeconfig(pod: PodEnvironment) -> Object:
    config = pod.client_config
    cluster = {"server": config.server, "certificate-authority": str(config.ca)}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "own", "cluster": cluster}],
        "users": [{"name": "own", "user": {"tokenFile": str(config.identity.token_file)}}],
        "contexts": [{"name": "own", "context": {"cluster": "own", "user": "own"}}],
        "current-context": "own",
    }


def _translated(pod: PodEnvironment, word: str) -> str:
    """Paths of the container as paths of this machine."""
    return re.sub(r"(?<==)/[\w./-]+", lambda path: str(pod.path(path[0])), word)


async def _admit(pod: PodEnvironment) -> int:
    """What stands for upstream's webhook servers: it admits and converts whatever it is asked about."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    directory = pod.path("/tmp/k8s-webhook-server/serving-certs")
    context.load_cert_chain(directory / "tls.crt", directory / "tls.key")
    async with (
        await asyncio.start_server(_answer_reviews, pod.ip, 9443, ssl=context),
        await asyncio.start_server(_answer_reviews, pod.ip, 8000),
    ):
        with pod.listening(9443), pod.listening(8000):
            await asyncio.Event().wait()
    return 0


async def _answer_reviews(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(asyncio.IncompleteReadError, OSError):
        while head := await reader.readuntil(b"\r\n\r\n"):
            lengths = [int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
            body = await reader.readexactly(lengths[0]) if lengths else b""
            answer = json.dumps(_reviewed(json.loads(body))).encode() if body else b"ok"
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(answer) + answer)
            await writer.drain()
    writer.close()


def _reviewed(review: Object) -> Object:
    asked = review["request"]
    response: Object = {"uid": asked["uid"], "allowed": True}
    if review["kind"] == "ConversionReview":
        version = {"apiVersion": asked["desiredAPIVersion"]}
        converted = [{**one, **version} for one in asked["objects"]]
        response = {"uid": asked["uid"], "convertedObjects": converted, "result": {"status": "Success"}}
    return {"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response}


async def _process(command: Sequence[str], pod: PodEnvironment) -> int:
    """It ends as the container does: asked first, then killed."""
    environ = {key: value for key, value in pod.environ.items() if not key.startswith("KUBERNETES_")}
    process = await asyncio.create_subprocess_exec(
        *command, env=environ, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    assert process.stdout is not None
    try:
        async for line in process.stdout:
            pod.print(line.decode(errors="replace"))
        return await process.wait()
    finally:
        if process.returncode is None:
            process.terminate()
            try:
                await asyncio.wait_for(process.wait(), GRACE)
            except TimeoutError:
                process.kill()
                await process.wait()


def upstream_programs() -> dict[tuple[str, ...], Program]:
    return {(f"/{word}",): _program(word) for word in (*_PROGRAMS.values(), "registration-operator")}


@asynccontextmanager
async def open_cluster(directory: Path) -> AsyncIterator[Site]:
    """A kube-apiserver with its controllers, and a node that runs pods of either side."""
    async with AsyncExitStack() as stack:
        plane = KubePlane(directory, KubeOptions(fsync=False, pods=True, node=()))
        stack.push_async_callback(asyncio.to_thread, plane.stop, kill=True)
        await asyncio.to_thread(plane.start)
        admin = HttpClient(load_kubeconfig(plane.kubeconfig, environ={}))
        stack.push_async_callback(admin.close)
        node = RemoteNode(
            admin,
            plane.url,
            {**programs(), **upstream_programs()},
            directory / "node",
            name="node",
            images=(*IMAGES, *UPSTREAM_IMAGES),
            grace=2 * GRACE,
        )
        await stack.enter_async_context(running(node.run()))
        yield Site(admin, plane.kubeconfig)


@asynccontextmanager
async def open_clusters(directory: Path, *names: str) -> AsyncIterator[list[Site]]:
    async with AsyncExitStack() as stack:
        yield await asyncio.gather(*(stack.enter_async_context(open_cluster(directory / name)) for name in names))
