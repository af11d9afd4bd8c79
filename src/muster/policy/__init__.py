"""Policies: which objects a managed cluster has to have (ConfigurationPolicy) and which operators (OperatorPolicy).

Their templates are resolved against the managed cluster and, where the addon for it is enabled, against the hub.
"""
