"""Clusters behind upstream's cluster-proxy, which are reached through its konnectivity server (apiserver-network-proxy).

The gateway asks the server over gRPC, with a client certificate, to have the agent of a cluster dial: one call for each
connection. TLS runs inside the call, between the gateway and the cluster's API server, so that neither the proxy nor the agent
can read or change the data.
"""
