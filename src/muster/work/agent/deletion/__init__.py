"""How things leave: works and their records, the objects that were theirs, and what the hub has lost."""

from muster.work.agent.deletion.deletion import FOLLOWER, AppliedWorkFinalizer, WorkFinalizer
from muster.work.agent.deletion.removal import Remover

__all__ = ["FOLLOWER", "AppliedWorkFinalizer", "Remover", "WorkFinalizer"]
