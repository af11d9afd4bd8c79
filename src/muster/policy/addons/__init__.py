"""The two addons of policies, as their hub sees them.

`config-policy-controller` runs the policy controller on a cluster. `governance-standalone-hub-templating` gives that controller a
user of its own on the hub, as whom it resolves hub templates; both names are OCM's. Neither needs the policy framework.
"""

from __future__ import annotations

from typing import Final

from muster.addon.hub_addon import HubAddon
from muster.policy.addons.config_policy import CONFIG_POLICY
from muster.policy.addons.standalone import STANDALONE

POLICY_ADDONS: Final[tuple[HubAddon, ...]] = (CONFIG_POLICY, STANDALONE)

__all__ = ["CONFIG_POLICY", "POLICY_ADDONS", "STANDALONE"]
