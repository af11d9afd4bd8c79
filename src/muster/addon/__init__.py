"""Addons on the hub: their installation, configuration and rollout (`manager`), and their agents on each cluster (`framework`).

A ClusterManagementAddOn is planned as a whole (`plans.Plans`): the clusters that get it, and the configuration that each may have
now. Everything of one cluster is written by one controller, with one status update per reconcile.
"""
