"""The agent on a managed cluster: maintains a ServiceAccount there for each ManagedServiceAccount, and its token on the hub."""
