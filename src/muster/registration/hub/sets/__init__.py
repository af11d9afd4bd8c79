"""Cluster sets: their members, their bindings to namespaces, and the namespaces that they manage on their clusters."""
