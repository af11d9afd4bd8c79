"""Who owns which field: field sets, typed comparison, managedFields and server-side apply."""
