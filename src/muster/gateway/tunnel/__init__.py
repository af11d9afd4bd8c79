"""Tunnels: the way to clusters that the gateway cannot reach, opened by their agents from inside.

The agent asks the hub's API server for `clustergateways/<cluster>/attach` as a WebSocket; in it is one HTTP/2 connection whose
client is the gateway. Every stream is a CONNECT which the agent joins to its own API server, and TLS runs inside the stream,
between the gateway and that API server: neither the agent nor anybody else on the way can read or change what passes.
"""
