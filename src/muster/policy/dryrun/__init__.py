"""Evaluates a ConfigurationPolicy without a controller, against objects in files or the current state of a cluster.

Follows config-policy-controller's `dryrun` command: the policy is always informed, and the result is printed.
"""
