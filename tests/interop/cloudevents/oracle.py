"""Talks to Go's codecs of the transport, built by `make -C peers/cloudevents` on the sdk-go of OCM 1.3 and of 1.2."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PEER = Path(__file__).parents[3] / "peers" / "cloudevents"
VERSIONS = ("1.3", "1.2")


class GoRefused(Exception):
    """What Go's codec says instead of an answer."""


class Oracle:
    """One running program, asked one question after the other."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def ask(self, op: str, **question: Any) -> dict[str, Any]:
        """Raises GoRefused."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        if "wire" in question:
            question["wire"] = base64.b64encode(question["wire"]).decode()
        self._process.stdin.write(json.dumps({"op": op, **question}) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        if "error" in answer:
            raise GoRefused(answer["error"])
        for name in ("wire", "data"):
            if name in answer:
                answer[name] = base64.b64decode(answer[name])
        return answer


def binary(version: str) -> Path:
    found = subprocess.run(["make", "-s", "-C", str(PEER), "print-bin"], capture_output=True, text=True, check=True)
    path = Path(found.stdout.strip()) / f"cloudevents-{version}"
    assert path.exists(), "build it with `make -C peers/cloudevents`"
    return path


@contextmanager
def started(version: str) -> Iterator[Oracle]:
    with subprocess.Popen([str(binary(version))], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Oracle(process)
        finally:
            assert process.stdin is not None
            process.stdin.close()
