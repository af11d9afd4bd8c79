"""Which driver owns a ManagedCluster: the one that has annotated it, enabled here or not, else the default driver."""

from __future__ import annotations

from collections.abc import Callable

from muster.api.cluster.v1 import ManagedCluster
from muster.machinery.logs import get_logger
from muster.registration.drivers import DEFAULT, find, profiles
from muster.registration.drivers.profile import Profile
from muster.registration.names import DRIVER_ANNOTATION

log = get_logger("muster.registration.drivers")


def owner_of(cluster: ManagedCluster) -> Profile | None:
    """The driver that owns the cluster, by its annotations; without any, the default driver. None if the driver is unknown."""
    marked = next((profile for profile in profiles() if _marks(profile, cluster)), None)
    if marked is not None or DRIVER_ANNOTATION in cluster.metadata.annotations:
        return marked
    return find(DEFAULT)


def claimed_by_others(name: str) -> Callable[[ManagedCluster], bool]:
    """A function that returns whether another driver than this, enabled or not, has annotated a cluster."""
    others = tuple(profile for profile in profiles() if name not in (profile.name, *profile.aliases))
    return lambda cluster: any(_marks(one, cluster) for one in others)


def _marks(profile: Profile, cluster: ManagedCluster) -> bool:
    try:
        return profile.marks(cluster)
    except Exception as error:
        # Code of another distribution, called for a cluster that may not be its own.
        log.warning("a registration driver failed on a cluster", driver=profile.name, error=f"{type(error).__name__}: {error}")
        return False
