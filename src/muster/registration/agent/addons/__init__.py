"""Addons on the managed cluster: their credentials for the hub, and their health.

`controller.py` reconciles the addons of this cluster. `registrations.py` computes which credentials an addon should have, a pure
function of its status; `credentials.py` maintains them, with the agent's own `CredentialKeeper` and certificate state machine, or
with `tokens.py`, in `secrets.py`. `leases.py` evaluates an addon's lease. `namespaces.py` has the namespaces where all of this is
allowed, and caches of them. `status.py` computes the addon's status, which is written at once.
"""
