"""Errors of the operating system as sentences: the cause and a remedy, where `strerror` has three words.

An error with its own text was explained where it was raised (`UnsafePath`, `Outside`), and keeps that.
"""

from __future__ import annotations

import errno
import os
from typing import Final

_FILES: Final = {
    errno.ENOENT: "there is no such file or directory: check the path, or make what is missing",
    errno.EACCES: "this user ({user}) may not use it: change its owner or mode, or name another path",
    errno.EPERM: "this user ({user}) may not change it: change its owner, or name another path",
    errno.EEXIST: "it exists already: remove it, or name another path",
    errno.ENOTDIR: "there is a file where a directory is needed: name another path",
    errno.EISDIR: "there is a directory where a file is needed: name a file",
    errno.ENOTEMPTY: "the directory is not empty: empty it, or name another path",
    errno.ENOSPC: "the disk is full: free some space, or name a path on another disk",
    errno.EDQUOT: "the quota of this user ({user}) is used up: free some space, or name a path on another disk",
    errno.EROFS: "the file system is read-only: name a path on another one",
    errno.ELOOP: "symbolic links lead in circles: remove one, or name another path",
    errno.ENAMETOOLONG: "the path is too long: name a shorter one",
    errno.EBUSY: "another program uses it: end that, or name another path",
    errno.ETXTBSY: "it is a program that runs: end it, or name another path",
    errno.EMFILE: "this process has too many files open: raise the limit (ulimit -n)",
    errno.ENFILE: "the machine has too many files open: end other programs",
    errno.EIO: "its disk fails: see the kernel's log",
}
_PORTS: Final = {
    errno.EADDRINUSE: "another program listens there",
    errno.EADDRNOTAVAIL: "this machine has no such address",
    errno.EACCES: "this user ({user}) may not listen on ports below 1024",
}


def explain_file_error(error: OSError) -> str:
    """The text after the path and a colon in a message."""
    return _explain(error, _FILES)


def explain_listen_error(error: OSError) -> str:
    """The text after the address and a colon in a message; the remedy is the flag, which only the caller knows."""
    return _explain(error, _PORTS)


def _explain(error: OSError, sentences: dict[int, str]) -> str:
    if error.errno is None or error.strerror != os.strerror(error.errno):
        return error.strerror or str(error)
    return sentences.get(error.errno, error.strerror).format(user=f"uid {os.geteuid()}")
