"""Tunnels to clusters that the gateway cannot reach, opened by their agents from inside.

The agent requests `clustergateways/<cluster>/attach` from the hub's API server as a WebSocket, which carries one HTTP/2
connection whose client is the gateway. Every stream is a CONNECT that the agent joins to its own API server, and TLS runs inside
the stream, between the gateway and that API server: neither the agent nor anybody else on the way can read or change the data.
"""
