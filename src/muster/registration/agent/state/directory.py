"""A directory with the contents of a Secret, for this and other processes.

Only its owner may read it. Files are replaced atomically, the one that refers to the others last, and files that the Secret no
longer has are removed. So a reader finds a kubeconfig only if all files that it refers to are there.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from muster.machinery.confinement import own
from muster.machinery.privatefiles import replace_private


def mirror(directory: Path, files: Mapping[str, bytes], last: str) -> None:
    """Make the directory hold exactly these files; `last` is written after all others."""
    own(directory).mkdir(mode=0o700, parents=True, exist_ok=True)
    if directory.stat().st_mode & 0o777 != 0o700:
        directory.chmod(0o700)
    for name in sorted(files, key=lambda name: (name == last, name)):
        _write_file(directory / name, files[name])
    for path in directory.iterdir():
        if path.name not in files and path.is_file():
            path.unlink(missing_ok=True)


def _write_file(path: Path, content: bytes) -> None:
    try:
        if path.read_bytes() == content and path.stat().st_mode & 0o777 == 0o600:
            return
    except OSError:
        # Not there or not readable: it is about to be replaced.
        pass
    replace_private(path, content)
