"""What there is on the managed cluster: its kinds, and the live objects that works are about."""

from muster.work.agent.observing.mapping import Mapper, UnservedKind
from muster.work.agent.observing.observer import ClusterObserver

__all__ = ["ClusterObserver", "Mapper", "UnservedKind"]
