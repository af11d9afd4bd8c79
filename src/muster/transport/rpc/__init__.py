"""The parts of gRPC that the transport needs: unary and streaming calls over HTTP/2, with messages as bytes."""
