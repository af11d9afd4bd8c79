"""How many files this process may have open, and how many of them connections may take.

The usual soft limit (1,024) is far below what the system allows, so servers raise it to the hard one. What connections must leave
is for the process itself: its database, its logs, and the connections that it opens to others.
"""

from __future__ import annotations

import resource

_MOST = 1 << 20
"""Beyond this a limit only makes programs that walk all descriptors slow."""
_LEAST_RESERVE = 64
_MOST_RESERVE = 1024


def raise_file_limit() -> int:
    """Raise the soft limit as far as the hard one allows; gives what it is then."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST if hard == resource.RLIM_INFINITY else min(hard, _MOST)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return file_limit()
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError):  # a system that allows less than it says: what was there has to do
        return file_limit()
    return wanted


def file_limit() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MOST if soft == resource.RLIM_INFINITY else min(soft, _MOST)


def files_for_connections() -> int:
    """Descriptors below this number are for anybody; the rest is the process's own reserve."""
    limit = file_limit()
    return limit - max(_LEAST_RESERVE, min(limit // 4, _MOST_RESERVE))
