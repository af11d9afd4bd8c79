"""Placements end to end."""
