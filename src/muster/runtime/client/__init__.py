"""A client for any Kubernetes API: the verbs, how requests get there, who is asking, and what can go wrong."""
