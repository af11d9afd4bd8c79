"""HTTP/2 for programs that speak to programs: both roles on asyncio protocols, without push, priorities or upgrade.

`frames` are the bytes, `fields` the header fields in them, `flow` and `connection` what both roles do, `stream` one exchange.
`server` accepts and looks after connections with what `HttpServer` has for it, `client` dials. What is spoken on top (gRPC) is in
other rooms: here an exchange is a head, data and trailers.
"""
