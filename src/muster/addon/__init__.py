"""Addons of the hub: where they are installed and with which configuration (`manager`), and what an addon's agent is given on each
cluster (`framework`).

A ClusterManagementAddOn is planned as a whole (`plans.Plan`): which cluster gets it, and which configuration each of them may have
by now. What belongs to one cluster is written in one place, into one status, once a pass.
"""
