"""Policies: the objects that a managed cluster must or must not have (ConfigurationPolicy), and its operators (OperatorPolicy).

Their templates are resolved against the managed cluster and, if the addon for it is enabled, against the hub.
"""
