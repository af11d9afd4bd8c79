"""The current cluster of requests that do not name one, set for a block of code by `using_cluster`.

It is a ContextVar: every task and every thread has its own, and a task inherits that of its parent.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from muster.kube.names import dns1123_label

current_cluster: Final[ContextVar[str | None]] = ContextVar("muster_current_cluster", default=None)


class NoCluster(LookupError):
    """A request needs the cluster of the context, and none is set."""

    def __init__(self) -> None:
        super().__init__("no cluster is set: put the request into `with using_cluster(NAME):`, or allow fallback_to_hub")


def require_cluster_name(cluster: str) -> str:
    """Returns the name, which becomes part of a path. Raises ValueError for a name that no ManagedCluster can have."""
    if flaws := dns1123_label(cluster):
        raise ValueError(f"{cluster!r} cannot name a cluster: {flaws[0]}")
    return cluster


@contextmanager
def using_cluster(name: str | None) -> Iterator[None]:
    """Requests in this block are for this cluster; with None they are for the hub itself, where that is allowed."""
    token = current_cluster.set(None if name is None else require_cluster_name(name))
    try:
        yield
    finally:
        current_cluster.reset(token)
