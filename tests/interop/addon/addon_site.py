"""A hub and a managed cluster in a test of addons, whoever's programs run there."""

from __future__ import annotations

from tests.e2e.addon.conftest import Site
from tests.support.registration import Hub, Spoke


class AddonSite(Site):
    """What an administrator makes and sees is the same as with programs of ours; of these it knows nothing."""

    def __init__(self, hub: Hub, spoke: Spoke, cluster: str) -> None:
        self.hub, self.spoke = hub, spoke
        self._cluster = cluster

    @property
    def cluster(self) -> str:
        return self._cluster
