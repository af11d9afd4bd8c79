"""CloudEvents over gRPC between a hub and its agents, in OCM's wire format: agents need no way to the hub's API server.

`contract` says what is spoken: event types, events and their bytes, one row per kind of resource. `codecs` turn objects into events
and back. `rpc` is gRPC's two kinds of call over HTTP/2. `services` stand between events and where objects are kept: a Kubernetes
API or, in a hub without one, the embedded server's store. `server` is the hub's end: who asks, what they may, who listens. `client`
is the agent's: a client with a client's verbs over a local mirror of what the hub sends.
"""
