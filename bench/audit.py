"""Counts requests in an API server's audit log: who asked for what between two marks.

A mark is the length of the log, so nothing depends on clocks. Both our server's log and kube-apiserver's are JSON lines of
audit.k8s.io/v1 events. Of kube-apiserver's, which has several events for a request, the first (`RequestReceived`) is counted;
ours has one. So a watch counts once, when it begins.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec


class _User(msgspec.Struct):
    username: str = ""


class _Reference(msgspec.Struct):
    resource: str = ""
    subresource: str = ""


class _Event(msgspec.Struct):
    verb: str
    stage: str = ""
    cluster: str = ""
    requestURI: str = ""
    user: _User = msgspec.field(default_factory=_User)
    objectRef: _Reference | None = None


_decode = msgspec.json.Decoder(_Event).decode


@dataclass(frozen=True)
class Request:
    user: str
    cluster: str
    """The logical cluster; empty on a real server."""
    verb: str
    resource: str

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}"


class AuditLog:
    """`stage` is the one event of each request that counts; empty where there is only one."""

    def __init__(self, path: Path, stage: str = "RequestReceived") -> None:
        self.path = path
        self._stage = stage

    def mark(self) -> int:
        return self.path.stat().st_size if self.path.exists() else 0

    def requests(self, since: int = 0, until: int | None = None) -> Iterator[Request]:
        """Each request that began between two marks."""
        with self.path.open("rb") as file:
            file.seek(since)
            while until is None or file.tell() < until:
                line = file.readline()
                if not line.endswith(b"\n"):
                    return
                event = _decode(line)
                if not self._stage or event.stage == self._stage:
                    yield Request(event.user.username, event.cluster, event.verb, _resource(event))


def _resource(event: _Event) -> str:
    reference = event.objectRef
    if reference is None or not reference.resource:
        return event.requestURI.partition("?")[0]
    return f"{reference.resource}/{reference.subresource}" if reference.subresource else reference.resource


def by_party(requests: Iterator[Request], party: Callable[[Request], str]) -> dict[str, Counter[str]]:
    """How often each party asked for each thing; `party` says whose a request is, and "" leaves it out."""
    counted: dict[str, Counter[str]] = {}
    for request in requests:
        if name := party(request):
            counted.setdefault(name, Counter())[str(request)] += 1
    return counted
