"""Client certificates by signing request: the base of all drivers and addons that authenticate with one.

`profile.py` describes the wanted certificate: subject, signer and names. `requests.py` creates requests and parses answers.
`certificate_manager.py` is the agent's side, a state machine that gets the first certificate and renews it, over a
`RequestChannel`; `signing_requests.py` is the channel that uses CertificateSigningRequests on the hub. `agents.py` has the
specifics of certificates of registration agents, and parses their requests for the hub's side; `approval.py` is the hub's
controller that approves requests which need no administrator, with `first_requests.py`, and `request_answers.py` writes the hub's
answers to requests. `options.py` has the options that all these drivers share.
"""
