"""One object written: the update strategies, who owns what, and how little is sent."""

from muster.work.agent.applying.applier import ClusterApplier

__all__ = ["ClusterApplier"]
