"""Files of whoever asks: in a pod, those of its mounts and of its scratch directory, and nothing that a link leads to elsewhere."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path, PurePosixPath

from muster.machinery.confinement.boundary import Outside, current


def located(path: str) -> Path:
    """Where a file is that a variable or an option names."""
    confinement = current()
    return Path(path) if confinement is None else confinement.path(path)


def sibling_path(base: Path, name: str) -> Path:
    """Where a file is that a document in the directory `base` names; an empty one is where the asker is. Raises Outside if that
    directory is not the pod's."""
    confinement = current()
    if confinement is None:
        return base / name
    directory = PurePosixPath("/") if base == Path() else confinement.inside(base)
    if directory is None:
        raise _outside(base)
    return confinement.path(directory / name)


def own(path: Path) -> Path:
    """The path again, if it is the asker's to read and write. Raises Outside."""
    confinement = current()
    if confinement is None:
        return path
    real = os.path.realpath(path)
    for directory in (confinement.scratch, *confinement.mounts.values()):
        top = os.path.realpath(directory)
        if real == top or real.startswith(top + os.sep):
            return path
    raise _outside(path)


def read(path: Path) -> bytes:
    """Raises OSError, of which Outside is one."""
    return own(path).read_bytes()


def shown(path: Path) -> str:
    """As the asker knows it: a pod has never heard of the machine's directories."""
    confinement = current()
    inside = None if confinement is None else confinement.inside(path)
    return str(path if inside is None else inside)


def temporary_directory(prefix: str) -> tempfile.TemporaryDirectory[str]:
    """For files that a program makes and reads itself."""
    confinement = current()
    if confinement is None:
        return tempfile.TemporaryDirectory(prefix=prefix)
    directory = confinement.path("/tmp")
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    return tempfile.TemporaryDirectory(prefix=prefix, dir=own(directory))


def _outside(path: Path) -> Outside:
    return Outside(errno.EACCES, "a pod has the files of its own volumes only", shown(path))
