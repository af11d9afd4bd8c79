"""A directory whose files change atomically, as kubelets write volumes (AtomicWriter): a reader sees the old files or the new ones.

The files of each version are in a directory of their own; `..data` is a symbolic link to the present one and is replaced by a
rename, and the names for readers are links through it. Only the owner may read any of it.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from muster.machinery.privatefiles import make_directories

_DATA = "..data"


def write(directory: Path, files: Mapping[str, bytes]) -> bool:
    """Make `directory` contain exactly these files (by relative path); returns False if it already did.

    A writer that was killed may have left the present version without its links, so those are checked every time.
    """
    make_directories(directory)
    data = directory / _DATA
    changed = not data.exists() or read(data) != dict(files)
    if changed:
        _link(directory, _DATA, _write_version(directory, files).name)
    linked = _link_names(directory, {PurePosixPath(name).parts[0] for name in files})
    return changed or linked


def _write_version(directory: Path, files: Mapping[str, bytes]) -> Path:
    version = Path(tempfile.mkdtemp(prefix="..v", dir=directory))
    for name, content in files.items():
        _checked(name)
        target = version / name
        make_directories(target.parent)
        with open(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(content)
    return version


def _link_names(directory: Path, tops: set[str]) -> bool:
    """Create missing links for readers, and remove those of other versions; False if no link was missing."""
    missing = [top for top in tops if not (directory / top).is_symlink()]
    for top in missing:
        _link(directory, top, f"{_DATA}/{top}")
    kept = {_DATA, os.readlink(directory / _DATA), *tops}
    for entry in list(os.scandir(directory)):
        if entry.name in kept:
            continue
        if entry.is_symlink():
            os.unlink(entry.path)
        elif entry.name.startswith("..v"):
            shutil.rmtree(entry.path, ignore_errors=True)
    return bool(missing)


def read(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def _checked(name: str) -> None:
    """The server refuses such names; a node that relied on it could be made to write anywhere."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not path.parts or path.parts[0].startswith(".."):
        raise ValueError(f"{name!r} leads out of the volume")


def _link(directory: Path, name: str, target: str) -> None:
    temporary = directory / f"..tmp-{name.strip('.')}"
    temporary.unlink(missing_ok=True)
    os.symlink(target, temporary)
    os.replace(temporary, directory / name)
