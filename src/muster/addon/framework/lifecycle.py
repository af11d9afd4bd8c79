"""Finalizers of a ManagedClusterAddOn: when they are added and removed.

A finalizer is added before the objects that it protects: for pre-delete hooks, on the own cluster or on the hosting one, and for
works in the hosting cluster's namespace, which owner references cannot cover. Hooks wait for a cluster that may become available
again. They do not wait for a deleted cluster, nor for one that is being deleted and unreachable: its addons must not block its
deletion.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from muster.addon.framework.manifests import Sorted
from muster.api.addons import HOSTING_CLEANUP_FINALIZER, HOSTING_PRE_DELETE_FINALIZER, PRE_DELETE
from muster.api.cluster.v1 import AVAILABLE, GROUP, ManagedCluster
from muster.api.meta import condition_of

FINALIZERS: Final = (PRE_DELETE, HOSTING_PRE_DELETE_FINALIZER, HOSTING_CLEANUP_FINALIZER)
DEPRECATED: Final = frozenset(f"{GROUP}/{name.partition('/')[2]}" for name in FINALIZERS)
"""Of older addon managers: no other program removes them."""


def needed_finalizers(manifests: Sorted, *, hosting: bool) -> frozenset[str]:
    """`hosting` is whether the addon has a hosting cluster."""
    needed = {
        PRE_DELETE: bool(manifests.managed_hooks),
        HOSTING_PRE_DELETE_FINALIZER: hosting and bool(manifests.hosting_hooks),
        HOSTING_CLEANUP_FINALIZER: hosting,
    }
    return frozenset(name for name, wanted in needed.items() if wanted)


def with_finalizers(present: Iterable[str], needed: Iterable[str]) -> tuple[str, ...]:
    """The existing ones without the deprecated, and the needed ones."""
    return tuple(dict.fromkeys(one for one in (*present, *sorted(needed)) if one not in DEPRECATED))


def without_unneeded(present: Iterable[str], needed: Iterable[str] = ()) -> tuple[str, ...]:
    """Without those of this framework that are no longer needed."""
    kept = frozenset(needed)
    return tuple(one for one in present if one not in DEPRECATED and (one not in FINALIZERS or one in kept))


def given_up(cluster: ManagedCluster | None, name: str) -> str:
    """Why no agent will run on a cluster any more; empty if it may."""
    if cluster is None:
        return f"cluster {name} is not a managed cluster of the hub"
    if not cluster.metadata.deletion_timestamp:
        return ""
    if not cluster.spec.hub_accepts_client:
        return f"cluster {name} is being deleted and is not accepted by the hub"
    available = condition_of(cluster.status.conditions, AVAILABLE)
    if available is None or available.status == "Unknown":
        return f"cluster {name} is being deleted and does not answer"
    return ""
