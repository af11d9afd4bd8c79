"""The identity of a pod, written into its directory: its logs can be listed without an API server."""

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
    """The log of a container's last attempt."""

    pod: PodRecord
    container: str
    files: tuple[Path, ...]

    def lines(self) -> Iterator[str]:
        """Ends early if the files are removed meanwhile."""
        for path in self.files:
            try:
                content = path.read_bytes().splitlines()
            except FileNotFoundError:
                continue
            yield from (line.decode(errors="replace").rstrip("\n") for line in formatted(content, "", timestamps=False))


def app_of(name: str, labels: Mapping[str, str] | None) -> str:
    """The name of the program: by the pod's labels, else the pod's name."""
    return next((found for label in _NAMES if (found := (labels or {}).get(label))), name)


def record_pod(directory: Path, namespace: str, name: str, labels: Mapping[str, str] | None) -> None:
    make_directories(directory)
    replace_private(directory / _FILE, msgspec.json.encode(PodRecord(namespace, name, app_of(name, labels))))


def kept_logs(node: Path) -> list[KeptLog]:
    """The logs of all pods in a node's directory, sorted; directories of versions without records are left out."""
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
