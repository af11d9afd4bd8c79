"""The addon `cluster-gateway`: what lets the gateway into a managed cluster. `HUB_ADDONS` are it and what it stands on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from muster.accounts.hub import MANAGED_SERVICE_ACCOUNT
from muster.addon.hub_addon import HubAddon
from muster.gateway.addon.addon import CLUSTER_GATEWAY

HUB_ADDONS: Final[Mapping[str, HubAddon]] = {one.name: one for one in (MANAGED_SERVICE_ACCOUNT, CLUSTER_GATEWAY)}
"""All addons that Muster brings itself, each after those that it requires."""

__all__ = ["CLUSTER_GATEWAY", "HUB_ADDONS", "with_required"]


def with_required(names: Iterable[str]) -> list[str]:
    """The addons with those that they require, which come first; of each one."""
    found: dict[str, None] = {}
    for name in names:
        known = HUB_ADDONS.get(name)
        found |= dict.fromkeys(with_required(known.requires) if known is not None else ())
        found[name] = None
    return list(found)
