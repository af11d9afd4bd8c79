"""Go's text handling for all packages: quoting, numbers, durations, times, quantities, versions, URLs, addresses.

Users and programs depend on what a Kubernetes API server, its templates and its expressions accept, print and report, so each
module follows one Go package (named at its top) exactly, including error texts. Go's errors are raised as `errors.GoError` with
Go's text; callers convert them to their own errors.
"""
