"""ManagedServiceAccounts: service accounts on managed clusters whose tokens an agent stores on the hub."""
