"""Clusters come and go: who is accepted, what they may do then, and what has to be gone before they are."""
