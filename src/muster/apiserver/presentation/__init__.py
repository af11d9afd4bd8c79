"""Presentation of objects: negotiated media types, lists, tables, metadata-only forms, and the responses."""
