"""The hub as a whole: preflight checks, initialization, tokens for new clusters, and removal."""
