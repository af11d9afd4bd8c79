"""Configurations that addons refer to, of any kind, as the hub serves them.

`ConfigObjects` is what planning and rendering read from; the dynamic implementation watches just the kinds that some addon refers
to. An object that is missing, or of a kind that the hub does not serve, is None: whoever needs it waits, and is told by a listener.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from muster.addon.agent_addon import ConfigObject


class ConfigObjects(Protocol):
    def get(self, group: str, resource: str, namespace: str, name: str) -> ConfigObject | None: ...

    def on_change(self, listener: Callable[[str, str, str, str], None]) -> None:
        """Called with group, resource, namespace and name of what changed, came or went."""
        ...
