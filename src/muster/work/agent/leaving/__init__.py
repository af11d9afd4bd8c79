"""How things leave: works and their records, the objects that were theirs, and what the hub has lost."""

from muster.work.agent.leaving.deletion import FOLLOWER, Finalizing, Leaving
from muster.work.agent.leaving.removal import Remover

__all__ = ["FOLLOWER", "Finalizing", "Leaving", "Remover"]
