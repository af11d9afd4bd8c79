"""Addons on the managed cluster: each gets its credentials for the hub, and the hub is told how it is.

`controller.py` follows the addons of this cluster on the hub, one pass per addon. `registrations.py` says which credentials one
should have, a pure function of its status; `credentials.py` keeps them, with the agent's own `CredentialKeeper` and certificate
machine, or with `tokens.py`, in `secrets.py`. `leases.py` judges an addon by its lease. `namespaces.py` knows in which namespaces
all of this may be, and what is there. `status.py` puts what is known into the addon's status, in one write.
"""
