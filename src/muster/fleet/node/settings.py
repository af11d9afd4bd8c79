"""What a node gives to every pod in addition to the pod's spec: as a machine's image and its boot script would.

Objects of the API never name these, because a pod does not know its machine. The pod's spec overrides them.
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
    """Environment variables of every container that does not set them itself."""
    files: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    """Files by absolute path; each container has its own copy, so none can change another's."""
    reachable: Collection[tuple[str, int]] = ()
    """Host and port of addresses on this machine to which every pod may connect."""

    def write_files(self, root: Path) -> None:
        """Write the files below the root of a container's file system."""
        for name, content in self.files.items():
            path = root.joinpath(*PurePosixPath(name).parts[1:])
            make_directories(path.parent)
            replace_private(path, content)


NO_SETTINGS: Final = NodeSettings()
