"""Errors in a placement's spec, with the message of the condition Misconfigured.

Misconfiguration never depends on clusters. `plugin` is the filter or prioritizer that refuses the spec, or empty.
"""

from __future__ import annotations


class Misconfigured(ValueError):
    def __init__(self, plugin: str, message: str) -> None:
        self.plugin = plugin
        self.message = message
        super().__init__(f"{plugin}:{message}")
