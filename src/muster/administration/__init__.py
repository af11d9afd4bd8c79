"""Administration of a fleet: initialize a hub, join, accept, unjoin, clean up; used by `clusteradm` and `muster up`.

Functions are asynchronous, take clients and a `Progress`, are idempotent, and return what they did as data. They parse no command
lines and print nothing.
"""
