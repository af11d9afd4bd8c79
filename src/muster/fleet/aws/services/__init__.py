"""The operations of STS, IAM and EKS, each a function of a `Call`; a service is a table of them by name.

An operation parses its parameters, checks the caller's permission, and only then looks the resource up: so a caller without
permission does not learn what exists.
"""
