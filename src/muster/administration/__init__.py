"""What an administrator does to a fleet: initialize a hub, join, accept, unjoin, clean up; for `clusteradm` and `muster up`.

Functions are asynchronous, take clients and a `Progress`, may be repeated at any time, and give back what they did as data. They
parse no command lines and print nothing.
"""
