"""The hub's side of ManagedServiceAccounts: the addon that deploys the agent to clusters, and the expiry of ephemeral accounts."""

from muster.accounts.hub.addon import MANAGED_SERVICE_ACCOUNT

__all__ = ["MANAGED_SERVICE_ACCOUNT"]
