"""Private directories and files: created with restricted permissions, checked before use, and replaced atomically.

Their content (keys, tokens, the state of a cluster) gives its reader an administrator's permissions, and a user who can place a
file or a link there controls what we read and where we write. So a directory is used only if it and everything in it belong to the
user of this process and no other user may write to it, or replace it. Files are opened without following links, new ones with
unpredictable names, and replacements are renamed over the old file.
"""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from muster.machinery.logs import get_logger

log = get_logger(__name__)

_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
TEMPORARY = ".{}."
"""The format of the prefix of a temporary file that will be renamed to a name."""


class UnsafePath(PermissionError):
    """Another user could read or change the content; `strerror` has the reason and the remedy."""

    def __init__(self, path: Path | str, problem: str) -> None:
        super().__init__(errno.EPERM, problem, str(path))


def make_private_directory(path: Path) -> None:
    """Create it if it is missing, and restrict the permissions of an existing one of ours. Raises UnsafePath and other OSErrors."""
    make_directories(path)
    mode = check_private_directory(path)
    if mode & _OTHERS:
        path.chmod(mode & ~_OTHERS)
        log.warning("directory is now the owner's alone", path=str(path), mode_before=f"{mode:o}", mode=f"{mode & ~_OTHERS:o}")


def make_directories(path: Path) -> None:
    """Create a directory and its missing parents, readable by the owner only; existing ones stay unchanged."""
    if not path.is_dir():
        make_directories(path.parent)
        try:
            path.mkdir(mode=0o700, exist_ok=True)
        except FileExistsError:
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path)) from None


def check_private_directory(path: Path) -> int:
    """Raises UnsafePath unless the existing directory is ours and can neither be replaced nor have been prepared by other users.
    Returns its mode, and changes nothing."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        found = os.fstat(descriptor)
        _require_own(path, found)
        mode = stat.S_IMODE(found.st_mode)
        if mode & _OTHERS_WRITE:
            problem = f"others may write to it (mode {mode:o})"
            raise UnsafePath(path, f"{problem}: check its contents, then chmod 700 it, or choose another directory")
        for entry in os.scandir(descriptor):
            # Our own temporary files are created and deleted meanwhile.
            with suppress(FileNotFoundError):
                _require_own(path / entry.name, entry.stat(follow_symlinks=False))
    finally:
        os.close(descriptor)
    _check_parents(path)
    return mode


def open_private(path: Path, flags: int) -> int:
    """A descriptor of a file that is ours; with O_CREAT it is created readable by the owner only. Raises UnsafePath for a link, a
    file of another user, or one with several hard links."""
    try:
        descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise UnsafePath(path, "is a symbolic link: remove it") from None
        raise
    try:
        found = os.fstat(descriptor)
        _require_own(path, found)
        if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
            raise UnsafePath(path, "is no file, or one with a second name (hard link): remove it")
        if stat.S_IMODE(found.st_mode) & _OTHERS:
            os.fchmod(descriptor, 0o600)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def replace_private(path: Path, content: bytes | str, *, mode: int = 0o600, durable: bool = False) -> None:
    """Replace a file with one readable by the owner only; readers see the old or the new content. The target of a link is not
    changed. With `durable` it is on disk before it replaces the other."""
    descriptor, temporary = tempfile.mkstemp(prefix=TEMPORARY.format(path.name), dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(file.fileno(), mode)
            file.write(content.encode() if isinstance(content, str) else content)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _require_own(path: Path, found: os.stat_result) -> None:
    if found.st_uid != os.geteuid():
        problem = f"belongs to another user (uid {found.st_uid}, yours is {os.geteuid()})"
        raise UnsafePath(path, f"{problem}: choose a directory of your own")


def _check_parents(path: Path) -> None:
    """A user who may write to a parent directory could replace ours, unless its sticky bit is set."""
    for parent in path.resolve().parents:
        mode = parent.stat().st_mode
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            problem = f"everybody may write to {parent}, and so put another in its place"
            raise UnsafePath(path, f"{problem}: chmod o-w that one, or choose another directory")
