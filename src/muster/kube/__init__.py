"""Kubernetes object semantics as pure functions: schemas, selectors, patches, apply, JSONPath, quantities. No I/O, no server."""
