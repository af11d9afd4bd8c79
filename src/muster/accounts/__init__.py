"""ManagedServiceAccounts: accounts on managed clusters whose tokens their agents bring to the hub."""
