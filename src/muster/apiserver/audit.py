"""The audit log: one JSON line per finished request at level Metadata, as `audit.k8s.io/v1` Events.

Lines are queued and written by a thread a few times a second; bodies, tokens and certificates are never logged. If writing fails or
the queue is full, lines are dropped, counted and reported in the log; requests and memory are not affected.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal

import orjson

from muster.apiserver.cluster import Cluster
from muster.http import Request, Response, StreamResponse, Takeover
from muster.machinery.authentication import UserInfo
from muster.machinery.authorization import AccessAttributes
from muster.machinery.logs import get_logger
from muster.machinery.privatefiles import open_private
from muster.machinery.uids import new_uid

log = get_logger(__name__)
_FLUSH_INTERVAL = 0.25
_MAX_QUEUED = 100_000
CLIENT_CLOSED_REQUEST = 499
"""The code of a request whose client disconnected before the answer; it may have been carried out."""
INTERNAL_ERROR = 500

Stage = Literal["ResponseStarted", "ResponseComplete"]
RESPONSE_STARTED: Final = "ResponseStarted"
RESPONSE_COMPLETE: Final = "ResponseComplete"


class Audit:
    def __init__(self, path: Path) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        # A device or pipe (/dev/stdout) needs no check against prepared files.
        is_file = path.is_file() or not path.exists()
        self._file = os.fdopen(open_private(path, flags) if is_file else os.open(path, flags), "ab", buffering=0)
        self._lines: deque[bytes] = deque()
        self.lost = 0
        self._wake = threading.Event()
        self._stopping = False
        self._writer = threading.Thread(target=self._write, name="audit", daemon=True)
        self._writer.start()

    def record(
        self,
        cluster: Cluster,
        request: Request,
        attributes: AccessAttributes,
        user: UserInfo | None,
        original: UserInfo | None,
        answer: Response | StreamResponse | Takeover | int,
    ) -> None:
        """Log a finished request; `answer` is a status code if no answer was sent."""
        stage: Stage = RESPONSE_STARTED if isinstance(answer, StreamResponse) else RESPONSE_COMPLETE
        caller = original or user
        event = audit_event(new_uid(), stage, cluster.name, request, attributes, caller, _code(answer))
        if original is not None and user is not None and user is not original:
            event["impersonatedUser"] = user.document()
        self.append(event)

    def append(self, event: Mapping[str, object]) -> None:
        if len(self._lines) >= _MAX_QUEUED:
            self.lost += 1
        else:
            self._lines.append(orjson.dumps(event, option=orjson.OPT_APPEND_NEWLINE))

    def close(self) -> None:
        self._stopping = True
        self._wake.set()
        self._writer.join(timeout=5)
        self._file.close()

    def _write(self) -> None:
        while True:
            self._wake.wait(_FLUSH_INTERVAL)
            lines = [self._lines.popleft() for _ in range(len(self._lines))]
            try:
                rest = memoryview(b"".join(lines))
                while rest:
                    rest = rest[self._file.write(rest) :]
            except OSError as problem:
                self.lost += len(lines)
                log.error("audit lines lost", lines=len(lines), problem=repr(problem))
            if self._stopping and not self._lines:
                return


def audit_event(
    audit_id: str,
    stage: Stage,
    cluster: str,
    request: Request,
    attributes: AccessAttributes,
    user: UserInfo | None,
    code: int,
) -> dict[str, object]:
    """An audit Event; `user` is the authenticated one. Also used by the gateway."""
    event: dict[str, object] = {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "Metadata",
        "auditID": audit_id,
        "stage": stage,
        "requestURI": request.target,
        "verb": attributes.verb,
        "cluster": cluster,
        "user": user.document() if user is not None else {},
        "sourceIPs": [request.connection.remote[0]],
        "userAgent": request.headers.get("user-agent") or "",
        "responseStatus": {"metadata": {}, "code": code},
        "stageTimestamp": _micro_time(),
    }
    if attributes.is_resource:
        event["objectRef"] = {
            "resource": attributes.resource,
            "namespace": attributes.namespace,
            "name": attributes.name,
            "apiGroup": attributes.group,
            "apiVersion": attributes.version,
            "subresource": attributes.subresource,
        }
    return event


_second: tuple[int, str] = (0, "")


def _micro_time() -> str:
    """The present time as metav1.MicroTime. The text of the second is cached, because hundreds of lines share it."""
    global _second  # one tuple, so that threads never see a mix
    second, micros = divmod(time.time_ns() // 1000, 1_000_000)
    known, text = _second
    if second != known:
        text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))
        _second = second, text
    return f"{text}.{micros:06d}Z"


def _code(answer: Response | StreamResponse | Takeover | int) -> int:
    if isinstance(answer, int):
        return answer
    return 101 if isinstance(answer, Takeover) else answer.status
