"""Field ownership: field sets, typed comparison, managedFields and server-side apply. Follows structured-merge-diff."""
