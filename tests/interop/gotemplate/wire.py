"""The notation in which template data travels to the Go oracle, and the oracle itself as a subprocess.

Plain JSON stands for float64, string, bool, nil, []any and map[string]any; every other Go type is written as
{"$t": type, "v": value}. The oracle answers one JSON line per request, in order.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from muster.gotemplate.values import Map, Slice, Struct, go_type

PEER = Path(__file__).parents[3] / "peers" / "gotemplate"


def to_wire(value: Any) -> Any:
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return {"$t": go_type(value), "v": str(int(value))}
    if isinstance(value, float):
        if math.isnan(value) or math.isinf(value):
            return {"$t": "float64", "v": "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"}
        return value
    if isinstance(value, Struct):
        return {"$t": "struct", "v": [[name, to_wire(item)] for name, item in value.fields.items()]}
    if isinstance(value, (Slice, Map)) and value.is_nil:
        return {"$t": "nil" + value.go_type}
    if isinstance(value, Slice):
        return {"$t": value.go_type, "v": list(value)}
    if isinstance(value, Map):
        return {"$t": value.go_type, "v": {str(key): item for key, item in value.items()}}
    if isinstance(value, dict):
        return {key: to_wire(item) for key, item in value.items()}
    return [to_wire(item) for item in value]


def oracle_directory() -> Path:
    """Where the Go programs are; builds them if they are not there yet."""
    environment = {**os.environ, "MAKEFLAGS": ""}
    subprocess.run(["make", "-s", "-C", str(PEER)], check=True, env=environment, stdout=subprocess.DEVNULL)
    found = subprocess.run(["make", "-s", "-C", str(PEER), "path"], check=True, env=environment, capture_output=True, text=True)
    return Path(found.stdout.strip())


class OracleEnded(Exception):
    """The Go process died, as it does when a value that contains itself is printed."""


class Oracle:
    """Go's text/template with sprig, one reply per request."""

    def __init__(self, binary: Path) -> None:
        self.binary = binary
        self._start()

    def _start(self) -> None:
        self.process = subprocess.Popen(
            [str(self.binary)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            env={**os.environ, "TZ": os.environ.get("TZ", "UTC")},
        )  # fmt: skip

    def ask(self, requests: Iterable[dict[str, Any]]) -> list[dict[str, Any] | None]:
        """Replies to a batch, None for a request that ended the process.

        Keep batches small enough for the pipes, or the two sides wait for each other.
        """
        batch = list(requests)
        try:
            return list(self._exchange(batch))
        except (OracleEnded, BrokenPipeError):
            self._restart()
        replies: list[dict[str, Any] | None] = []
        for request in batch:
            try:
                replies += self._exchange([request])
            except (OracleEnded, BrokenPipeError):
                self._restart()
                replies.append(None)
        return replies

    def _restart(self) -> None:
        self.close()
        self._start()

    def _exchange(self, requests: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        for request in requests:
            self.process.stdin.write(json.dumps(request).encode() + b"\n")
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()
        for _ in requests:
            line = self.process.stdout.readline()
            if not line:
                raise OracleEnded
            yield json.loads(line)

    def close(self) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.wait(timeout=30)
