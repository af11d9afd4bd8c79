"""The agent on a managed cluster: keeps an account there for each ManagedServiceAccount, and its token on the hub."""
