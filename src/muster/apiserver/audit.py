"""The audit log: one JSON line per finished request at Metadata level, in `audit.k8s.io/v1` form.

Lines are gathered and written by a thread a few times a second; bodies, tokens and certificates never get into them.
"""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

import orjson

from muster.apiserver.attributes import Attributes
from muster.apiserver.auth.identity import User
from muster.apiserver.cluster import Cluster
from muster.apiserver.metadata import new_uid
from muster.http import Request, Response, StreamResponse, Takeover

_FLUSH_SECONDS = 0.25


class Audit:
    def __init__(self, path: Path) -> None:
        self._file: BinaryIO = path.open("ab")
        self._lines: list[bytes] = []
        self._wake = threading.Event()
        self._stopping = False
        self._writer = threading.Thread(target=self._write, name="audit", daemon=True)
        self._writer.start()

    def record(
        self,
        cluster: Cluster,
        request: Request,
        attributes: Attributes,
        user: User | None,
        original: User | None,
        answer: Response | StreamResponse | Takeover,
    ) -> None:
        caller = original or user
        now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        event: dict[str, object] = {
            "kind": "Event",
            "apiVersion": "audit.k8s.io/v1",
            "level": "Metadata",
            "auditID": new_uid(),
            "stage": "ResponseStarted" if isinstance(answer, StreamResponse) else "ResponseComplete",
            "requestURI": request.target,
            "verb": attributes.verb,
            "cluster": cluster.name,
            "user": caller.info() if caller is not None else {},
            "sourceIPs": [request.connection.remote[0]],
            "userAgent": request.headers.get("user-agent") or "",
            "responseStatus": {"metadata": {}, "code": 101 if isinstance(answer, Takeover) else answer.status},
            "stageTimestamp": now,
        }
        if original is not None and user is not None and user is not original:
            event["impersonatedUser"] = user.info()
        if attributes.is_resource:
            event["objectRef"] = {
                "resource": attributes.resource,
                "namespace": attributes.namespace,
                "name": attributes.name,
                "apiGroup": attributes.group,
                "apiVersion": attributes.version,
                "subresource": attributes.subresource,
            }
        self._lines.append(orjson.dumps(event, option=orjson.OPT_APPEND_NEWLINE))

    def close(self) -> None:
        self._stopping = True
        self._wake.set()
        self._writer.join(timeout=5)
        self._file.close()

    def _write(self) -> None:
        while True:
            self._wake.wait(_FLUSH_SECONDS)
            lines, self._lines = self._lines, []
            if lines:
                self._file.write(b"".join(lines))
                self._file.flush()
            if self._stopping and not self._lines:
                return
