"""Go's ways with text, once for all rooms: quoting, numbers, durations, times, quantities, versions, URLs, addresses.

Users and programs compare what a Kubernetes API server, its templates and its expressions accept, print and complain about, so
each module follows one Go package (it says which) to the letter, error texts included. Whatever Go returns an error for is raised
as `errors.GoError` with Go's text; a room that has errors of its own translates at its edge.
"""
