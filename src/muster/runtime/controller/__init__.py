"""Reconciling: controllers with their queue, leader election, events, and how changes are written."""
