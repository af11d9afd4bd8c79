"""Whose a pod's directory is, written into it: its logs can be read and named when no API server can be asked any more."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from muster.fleet.node.containerlog import formatted
from muster.machinery.privatefiles import make_directories, replace_private

_FILE: Final = "pod.json"
_NAMES: Final = ("app.kubernetes.io/name", "app")


class PodRecord(msgspec.Struct, frozen=True):
    namespace: str
    name: str
    app: str


@dataclass(frozen=True)
class KeptLog:
    """Of a container: what its last attempt wrote."""

    pod: PodRecord
    container: str
    files: tuple[Path, ...]

    def lines(self) -> Iterator[str]:
        """None where the files go meanwhile."""
        for path in self.files:
            try:
                content = path.read_bytes().splitlines()
            except FileNotFoundError:
                continue
            yield from (line.decode(errors="replace").rstrip("\n") for line in formatted(content, "", timestamps=False))


def app_of(name: str, labels: Mapping[str, str] | None) -> str:
    """What people call the program: by the pod's labels, else its name."""
    return next((found for label in _NAMES if (found := (labels or {}).get(label))), name)


def record_pod(directory: Path, namespace: str, name: str, labels: Mapping[str, str] | None) -> None:
    make_directories(directory)
    replace_private(directory / _FILE, msgspec.json.encode(PodRecord(namespace, name, app_of(name, labels))))


def kept_logs(node: Path) -> list[KeptLog]:
    """Of all pods of a node's directory, sorted; directories of before there were records are left out."""
    found = []
    for path in node.glob(f"pods/*/{_FILE}"):
        try:
            pod = msgspec.json.decode(path.read_bytes(), type=PodRecord)
        except (OSError, msgspec.DecodeError):
            continue
        for logs in (path.parent / "logs").glob("*/"):
            attempts = [int(one.name.partition(".")[0]) for one in logs.glob("*.log") if one.name.partition(".")[0].isdigit()]
            if attempts:
                last = logs / f"{max(attempts)}.log"
                found.append(KeptLog(pod, logs.name, (last.with_name(f"{last.name}.1"), last)))
    return sorted(found, key=lambda one: (one.pod.namespace, one.pod.name, one.container))
