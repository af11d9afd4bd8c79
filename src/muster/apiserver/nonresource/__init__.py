"""Non-resource paths: discovery, OpenAPI, health and metrics."""
