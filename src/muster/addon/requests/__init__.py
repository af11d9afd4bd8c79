"""The hub's side of credentials of addons' agents: approval and signing of certificate requests, and accounts for tokens.

`request` parses and validates an addon's signing request, `registrations` returns the credentials of an addon on a cluster, and
`approval` and `signer` are the controllers. `token_infrastructure` reconciles the objects for agents with tokens instead of
certificates. `rules` has the permissions on the hub.
"""
