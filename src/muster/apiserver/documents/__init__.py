"""What describes the server and its objects: discovery, OpenAPI, tables, representations, health and metrics."""
