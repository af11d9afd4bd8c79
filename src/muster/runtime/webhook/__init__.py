"""Admission webhooks: the server, its certificate, who may ask it, and how a cluster learns of it."""
