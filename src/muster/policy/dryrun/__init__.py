"""Evaluating a ConfigurationPolicy without a controller, against objects in files or the present state of a cluster.

Follows config-policy-controller's `dryrun` command: the policy informs, whatever it says, and what comes of it is shown.
"""
