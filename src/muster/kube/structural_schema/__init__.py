"""The schema engine of custom resources: structural rules, pruning, defaulting, validation, ratcheting."""
