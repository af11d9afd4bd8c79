"""The hub's side of ManagedServiceAccounts: the addon that brings the agent to clusters, and accounts whose time is up."""

from muster.accounts.hub.addon import MANAGED_SERVICE_ACCOUNT

__all__ = ["MANAGED_SERVICE_ACCOUNT"]
