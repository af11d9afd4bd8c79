"""Files of the current task: in a pod, those of its mounts and of its scratch directory, without links that lead out of them."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path, PurePosixPath

from muster.machinery.confinement.boundary import Outside, current


def located(path: str) -> Path:
    """The location of a file that a variable or an option names."""
    confinement = current()
    return Path(path) if confinement is None else confinement.path(path)


def sibling_path(base: Path, name: str) -> Path:
    """The location of a file that a document in the directory `base` names; an empty one is the current directory. Raises Outside
    if that directory is not the pod's."""
    confinement = current()
    if confinement is None:
        return base / name
    directory = PurePosixPath("/") if base == Path() else confinement.inside(base)
    if directory is None:
        raise _outside(base)
    return confinement.path(directory / name)


def own(path: Path) -> Path:
    """Returns the path, if the current task may read and write it. Raises Outside."""
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
    """The path as the current task knows it: a pod does not know the machine's directories."""
    confinement = current()
    inside = None if confinement is None else confinement.inside(path)
    return str(path if inside is None else inside)


def temporary_directory(prefix: str) -> tempfile.TemporaryDirectory[str]:
    """For files that a program creates and reads itself."""
    confinement = current()
    if confinement is None:
        return tempfile.TemporaryDirectory(prefix=prefix)
    directory = confinement.path("/tmp")
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    return tempfile.TemporaryDirectory(prefix=prefix, dir=own(directory))


def _outside(path: Path) -> Outside:
    return Outside(errno.EACCES, "a pod has the files of its own volumes only", shown(path))
