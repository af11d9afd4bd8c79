"""The limit of open files of this process, and the part of it for connections.

The usual soft limit (1,024) is far below the hard one, so servers raise it. The reserve is for the process itself: its database,
its logs, and outgoing connections.
"""

from __future__ import annotations

import resource

_MOST = 1 << 20
"""A higher limit only slows down programs that iterate over all descriptors."""
_LEAST_RESERVE = 64
_MOST_RESERVE = 1024


def raise_file_limit() -> int:
    """Raise the soft limit as far as the hard one allows; returns the result."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST if hard == resource.RLIM_INFINITY else min(hard, _MOST)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return file_limit()
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError):  # a system that permits less than it reports: the former limit stays
        return file_limit()
    return wanted


def file_limit() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MOST if soft == resource.RLIM_INFINITY else min(soft, _MOST)


def files_for_connections() -> int:
    """Descriptors below this number may be used by connections; the rest is the process's reserve."""
    limit = file_limit()
    return limit - max(_LEAST_RESERVE, min(limit // 4, _MOST_RESERVE))
