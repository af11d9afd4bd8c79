"""What a node gives to every pod on it, whatever the pod's spec says: as a machine's image and its boot script would.

Objects of the API never name these things: a pod does not know on which machine it will be. What the spec says itself comes first.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Final

from muster.machinery.privatefiles import make_directories, replace_private


@dataclass(frozen=True)
class NodeSettings:
    variables: Mapping[str, str] = field(default_factory=dict)
    """Of every container that does not set them itself."""
    files: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    """By absolute path; each container has a copy of its own, so none can change another's."""
    reachable: Collection[tuple[str, int]] = ()
    """Host and port of what every pod may dial on this machine."""

    def write_files(self, root: Path) -> None:
        """Below the root of a container's file system."""
        for name, content in self.files.items():
            path = root.joinpath(*PurePosixPath(name).parts[1:])
            make_directories(path.parent)
            replace_private(path, content)


NO_SETTINGS: Final = NodeSettings()
