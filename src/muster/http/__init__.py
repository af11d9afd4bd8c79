"""HTTP/1.1 server and streaming relay on asyncio protocols and httptools; knows nothing of Kubernetes."""
