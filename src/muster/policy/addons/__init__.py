"""The two policy addons on the hub.

`config-policy-controller` runs the policy controller on a cluster. `governance-standalone-hub-templating` gives that controller
its own user on the hub, with which it resolves hub templates; both names are OCM's. Neither requires the policy framework.
"""

from __future__ import annotations

from typing import Final

from muster.addon.hub_addon import HubAddon
from muster.policy.addons.config_policy import CONFIG_POLICY
from muster.policy.addons.standalone import STANDALONE

POLICY_ADDONS: Final[tuple[HubAddon, ...]] = (CONFIG_POLICY, STANDALONE)

__all__ = ["CONFIG_POLICY", "POLICY_ADDONS", "STANDALONE"]
