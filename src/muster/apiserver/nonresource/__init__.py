"""What lies outside the resource tree: discovery, OpenAPI, health and metrics."""
