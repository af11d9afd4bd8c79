"""What is wrong with a placement's spec, in the words of the condition Misconfigured.

Misconfiguration never depends on clusters: the same spec is misconfigured or not, whoever there is to choose. `plugin` is the
filter or prioritizer that cannot work with the spec, and empty for what belongs to none of them.
"""

from __future__ import annotations


class Misconfigured(ValueError):
    def __init__(self, plugin: str, message: str) -> None:
        self.plugin = plugin
        self.message = message
        super().__init__(f"{plugin}:{message}")
