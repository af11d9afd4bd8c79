"""Services between events and the storage of objects."""
