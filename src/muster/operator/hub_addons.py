"""Muster's own addons, as a table; `muster hub-addons` serves them (`muster.addon.hub_addon`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from muster.accounts.hub import MANAGED_SERVICE_ACCOUNT
from muster.addon.hub_addon import HubAddon
from muster.gateway.addon import CLUSTER_GATEWAY
from muster.policy.addons import POLICY_ADDONS

HUB_ADDONS: Final[Mapping[str, HubAddon]] = {one.name: one for one in (MANAGED_SERVICE_ACCOUNT, CLUSTER_GATEWAY, *POLICY_ADDONS)}
"""Ordered by their requirements."""


def with_required(names: Iterable[str]) -> list[str]:
    """The addons with those that they require, which come first; without duplicates."""
    found: dict[str, None] = {}
    for name in names:
        known = HUB_ADDONS.get(name)
        found |= dict.fromkeys(with_required(known.requires) if known is not None else ())
        found[name] = None
    return list(found)
