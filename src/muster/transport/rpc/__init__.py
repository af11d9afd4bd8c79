"""gRPC as the transport needs it: unary calls and streams over HTTP/2, of messages that are bytes here."""
