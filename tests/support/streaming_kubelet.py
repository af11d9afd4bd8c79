"""A node of a real kube-apiserver that has no more than kubectl's exec, attach, cp, port-forward and logs need, of upstream's own
streaming code (`peers/kubelet`). Commands run on this machine; the one pod is said to run by whoever makes the node, not by it."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support import peers
from tests.support.pki import Authority
from tests.support.planes import Cluster
from tests.support.processes import Server, free_ports

POD = "terminal"
CONTAINER = "main"
PODS = "/api/v1/namespaces/default/pods"
MAIN_PROCESS = 'echo begun; while read line; do [ "$line" = quit ] && exit; echo "heard $line"; done'


@contextmanager
def streaming_kubelet(cluster: Cluster, directory: Path) -> Iterator[Server]:
    """The node, and on it the running pod `POD`, whose main process repeats lines until it is told to quit."""
    directory.mkdir(exist_ok=True)
    (port,) = free_ports(1)
    serving = Authority(directory, "kubelet-ca").issue("kubelet", hosts=("127.0.0.1",))
    command: list[str | Path] = [peers.own_program("kubelet"), f"--address=127.0.0.1:{port}"]
    command += [f"--tls-cert-file={serving.cert}", f"--tls-private-key-file={serving.key}", f"--client-ca-file={cluster.ca}"]
    server = Server("kubelet", [*command, "sh", "-c", MAIN_PROCESS], directory / "kubelet.log")
    server.start()

    def listens() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    try:
        server.wait_until(listens)
        _announce(cluster, port)
        yield server
    finally:
        server.stop(kill=True)


def _announce(cluster: Cluster, port: int) -> None:
    admin = cluster.client()
    node: dict[str, Any] = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "streaming"}}
    admin.post("/api/v1/nodes", node).expect(201)
    place = {
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
    }
    admin.patch("/api/v1/nodes/streaming/status", {"status": place}).expect(200)
    container = {"name": CONTAINER, "image": "none", "stdin": True}
    spec = {"nodeName": "streaming", "containers": [container], "automountServiceAccountToken": False}
    admin.post(PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": POD}, "spec": spec}).expect(201)
    state = {"name": CONTAINER, "ready": True, "image": "none", "imageID": "none", "restartCount": 0, "containerID": "test://main"}
    state["state"] = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
    admin.patch(f"{PODS}/{POD}/status", {"status": {"phase": "Running", "containerStatuses": [state]}}).expect(200)
