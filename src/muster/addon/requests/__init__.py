"""Credentials of addons' agents, from the hub's side: signing requests approved and signed, and accounts whose tokens agents use.

`request` reads an addon's signing request and says what is wrong with it, `registrations` knows which credentials an addon asks for
on a cluster, and `approval` and `signing` are the controllers that answer. `token_infrastructure` keeps what agents need that use
tokens instead of certificates. `rules` is what all of it needs on the hub.
"""
