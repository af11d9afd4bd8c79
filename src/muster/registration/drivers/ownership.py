"""Whose a ManagedCluster is: the driver that has marked it, enabled here or not, and the default one where nobody has."""

from __future__ import annotations

from collections.abc import Callable

from muster.api.cluster.v1 import ManagedCluster
from muster.machinery.logs import get_logger
from muster.registration.drivers import DEFAULT, find, profiles
from muster.registration.drivers.profile import Profile
from muster.registration.names import DRIVER_ANNOTATION

log = get_logger("muster.registration.drivers")


def owner_of(cluster: ManagedCluster) -> Profile | None:
    """Whose cluster it is, by its marks: one without any is the default driver's. None when it is an unknown driver's."""
    marked = next((profile for profile in profiles() if _marks(profile, cluster)), None)
    if marked is not None or DRIVER_ANNOTATION in cluster.metadata.annotations:
        return marked
    return find(DEFAULT)


def claimed_by_others(name: str) -> Callable[[ManagedCluster], bool]:
    """Tells of clusters whether another driver than this has marked them, enabled or not."""
    others = tuple(profile for profile in profiles() if name not in (profile.name, *profile.aliases))
    return lambda cluster: any(_marks(one, cluster) for one in others)


def _marks(profile: Profile, cluster: ManagedCluster) -> bool:
    try:
        return profile.marks(cluster)
    except Exception as error:
        # Somebody else's code, asked about a cluster that may be nothing to it.
        log.warning("a registration driver failed on a cluster", driver=profile.name, error=f"{type(error).__name__}: {error}")
        return False
