"""Which cluster requests are for, where they do not say it themselves: one word before a block of code.

A ContextVar, so that every task and every thread has its own, and what a task starts has its parent's.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from muster.kube.names import dns1123_label

current_cluster: Final[ContextVar[str | None]] = ContextVar("muster_current_cluster", default=None)


class NoCluster(LookupError):
    """A request was to go to the cluster of the context, and there is none."""

    def __init__(self) -> None:
        super().__init__("no cluster was chosen: put the request into `with using_cluster(NAME):`, or allow fallback_to_hub")


def require_cluster_name(cluster: str) -> str:
    """The name, which ends up in a path. Raises ValueError for one that no ManagedCluster has."""
    if flaws := dns1123_label(cluster):
        raise ValueError(f"{cluster!r} cannot name a cluster: {flaws[0]}")
    return cluster


@contextmanager
def using_cluster(name: str | None) -> Iterator[None]:
    """Requests of this block are for this cluster; with None they are the hub's own, where that is allowed."""
    token = current_cluster.set(None if name is None else require_cluster_name(name))
    try:
        yield
    finally:
        current_cluster.reset(token)
