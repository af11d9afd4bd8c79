"""HTTP/2 for API clients and servers: both roles on asyncio protocols, without push, priorities or upgrade.

`frames` encodes frames, `fields` header fields, `flow` and `connection` have what both roles share, `stream` one exchange. `server`
accepts connections with the limits of `HttpServer`, `client` connects. Protocols above (gRPC) are in other packages: here an
exchange is a head, data and trailers.
"""
