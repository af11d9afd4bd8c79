"""CloudEvents over gRPC between a hub and its agents, in OCM's wire format: agents need no connection to the hub's API server.

`contract` defines the protocol: event types, events and their encoding, one row per kind of resource. `codecs` convert objects to
events and back. `rpc` implements gRPC's unary and streaming calls over HTTP/2. `services` connect events with the storage of
objects: a Kubernetes API or, on a hub without one, the embedded server's store. `server` is the hub's side: authentication,
authorization, subscriptions. `client` is the agent's side: a `KubeClient` over a local mirror of the hub's objects.
"""
