"""Client certificates by signing request: the base under every driver and addon that proves itself by one.

`profile.py` says which certificate is wanted: for whom, from which signer, under which names. `requests.py` makes requests and
reads what comes back. `machine.py` is the agent's side, a state machine from nothing to a certificate and from each to the next,
over a `RequestChannel`; `signing_requests.py` is the channel that goes by CertificateSigningRequests on the hub. `agents.py` has
what is particular to certificates of registration agents, and how the hub's side reads their requests; `approval.py` is the hub's
controller that approves what needs no administrator, by `first_requests.py`, and `issuing.py` how the hub answers requests.
`options.py` has what people may say to every driver that stands on this.
"""
