"""Planes of the kind MUSTER_E2E names whose pods are run by a node that knows Muster's programs and those of `tests.e2e.node_host`.

The node is part of the embedded server's process, or a process of its own beside a real kube-apiserver.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.support import peers
from tests.support.planes import EmbeddedPlane, KubeOptions, KubePlane
from tests.support.processes import Server

HOST = (sys.executable, "-m", "tests.e2e.node_host")


class NodePlane(EmbeddedPlane):
    """The embedded plane of all tests, with a node on each cluster."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, ("spare",))
        command = [*HOST, *self._server.command[2:]]
        self._server = Server("node host", command, self.logs[0], {"PYTHONPATH": str(peers.ROOT)})

    def restart_node(self, *, kill: bool) -> None:
        self.restart(kill=kill)


Nodes = NodePlane | KubePlane


def lent_nodes(directory: Path) -> Iterator[Nodes]:
    """One, for as long as whoever has it goes on."""
    kube = os.environ.get("MUSTER_E2E") == "kube"
    plane = KubePlane(directory, KubeOptions(fsync=False, pods=True, node=(*HOST, "node"))) if kube else NodePlane(directory)
    plane.start()
    yield plane
    plane.stop(kill=True)
