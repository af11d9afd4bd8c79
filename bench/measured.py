"""A kube-apiserver of its own with an audit log, and the one process on it that is measured."""

from __future__ import annotations

import abc
from pathlib import Path

from tests.support.planes import KubeOptions, KubePlane
from tests.support.processes import Server

from bench.audit import AuditLog
from bench.sides import cpu_seconds, resident


class MeasuredProcess(abc.ABC):
    """Whoever starts it sets `_server`."""

    name: str

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.plane = KubePlane(directory / "plane", KubeOptions(audit_log=True))
        self.audit = AuditLog(directory / "plane" / "audit.log")
        self._server: Server | None = None

    @abc.abstractmethod
    def install(self) -> None:
        """What its side needs on the server: definitions, accounts, and what those may do."""

    @property
    def server(self) -> Server:
        assert self._server is not None, f"{self.name} is not started"
        return self._server

    def memory(self) -> float:
        """MiB"""
        return resident(self.server.pid) / 2**20

    def cpu(self) -> float:
        return cpu_seconds(self.server.pid)

    def discard(self) -> None:
        if self._server is not None:
            self._server.stop(timeout=5)
        self.plane.discard()
