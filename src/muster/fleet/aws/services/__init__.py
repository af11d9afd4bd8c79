"""The operations of STS, IAM and EKS, each a function of a `Call`; a service is a table of them by name.

An operation looks at its parameters, asks whether the caller may, and only then looks whether what is asked for is there: so nobody
learns of things that are not theirs to see.
"""
