"""Admission control between a valid request and the store: in-process plugins, webhooks, and policies written in CEL."""
