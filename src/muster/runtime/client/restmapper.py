"""From apiVersion and kind to the resource of a cluster's API, as apimachinery's RESTMapper.

A group version is asked for its resources when somebody first needs it, so an API that is dead hurts nobody but those who use it,
and whoever needs three group versions sends three small requests. What a server does not have is asked for again, at most every
few seconds and once for all who wait. Who must hear of kinds that come and go has a `cache.restmapper.DynamicRESTMapper`.
"""

from __future__ import annotations

import asyncio
import re
from typing import Final

from muster.machinery.clock import SYSTEM, Clock
from muster.machinery.objects import GVR
from muster.runtime.client.base import KubeClient
from muster.runtime.client.errors import NotFound, StatusError

MISS_TTL: Final = 3.0
"""Seconds for which a miss is remembered."""
UNSERVED_TTL: Final = 600.0
"""Seconds after which a group version that is not served, and that nobody has asked for since, is forgotten. Whoever waits for it
asks more often."""
_GROUP_VERSION: Final = re.compile(r"(?:[a-z0-9](?:[-a-z0-9.]*[a-z0-9])?/)?[a-z0-9](?:[-a-z0-9]*[a-z0-9])?", re.ASCII)


class NoKindMatch(Exception):
    """The cluster serves no such kind, as far as it says."""

    def __init__(self, api_version: str, kind: str, why: str = "") -> None:
        super().__init__(f'the server doesn\'t have a resource type "{kind}"' + (f": {why}" if why else ""))
        self.api_version = api_version
        self.kind = kind


class _Listing:
    """What one group version said it has."""

    __slots__ = ("asked", "asking", "kinds", "why")

    def __init__(self) -> None:
        self.kinds: dict[str, GVR] = {}
        self.asked = float("-inf")
        self.asking = asyncio.Lock()
        self.why = ""
        """Why it could not say, where that is so."""

    def named(self, plural: str) -> GVR | None:
        return next((resource for resource in self.kinds.values() if resource.plural == plural), None)


class RESTMapper:
    """Knows the kinds of one cluster."""

    def __init__(self, client: KubeClient, *, clock: Clock = SYSTEM) -> None:
        self._client = client
        self._clock = clock
        self._listings: dict[str, _Listing] = {}
        self._groups: set[str] = set()
        """In which somebody looked for a resource in any version."""
        self._tidied = clock.monotonic()

    def known(self, api_version: str, kind: str) -> GVR | None:
        """What can be said without asking the server."""
        listing = self._listings.get(api_version)
        return None if listing is None else listing.kinds.get(kind)

    async def mapping(self, api_version: str, kind: str) -> GVR:
        """Raises NoKindMatch, or KubeError when the server could not be asked at all."""
        found = self.known(api_version, kind)
        if found is not None:
            return found
        if not kind or _GROUP_VERSION.fullmatch(api_version) is None:
            raise NoKindMatch(api_version, kind)
        listing = self._listing(api_version)
        async with listing.asking:
            if kind not in listing.kinds and self._clock.monotonic() - listing.asked >= MISS_TTL:
                await self._ask(api_version, listing)
        found = listing.kinds.get(kind)
        if found is None:
            raise NoKindMatch(api_version, kind, listing.why)
        return found

    async def resource_for(self, group: str, version: str, plural: str) -> GVR | None:
        """A resource by its plural: in this version, else in another that is served; None when the cluster has no such thing.

        Raises KubeError when the server could not be asked at all.
        """
        if found := await self._listed(f"{group}/{version}" if group else version, plural):
            return found
        self._groups.add(group)
        for other in await self._versions(group) if group else ():
            if found := await self._listed(other, plural):
                return found
        return None

    async def _listed(self, api_version: str, plural: str) -> GVR | None:
        if _GROUP_VERSION.fullmatch(api_version) is None:
            return None
        listing = self._listing(api_version)
        found = listing.named(plural)
        if found is None:
            async with listing.asking:
                if listing.named(plural) is None and self._clock.monotonic() - listing.asked >= MISS_TTL:
                    await self._ask(api_version, listing)
            found = listing.named(plural)
        return found

    def _listing(self, api_version: str) -> _Listing:
        found = self._listings.get(api_version)
        if found is None:
            self._tidy()
            found = self._listings[api_version] = _Listing()
        return found

    def _tidy(self) -> None:
        """Manifests can name versions that do not exist, without end."""
        now = self._clock.monotonic()
        if now - self._tidied < UNSERVED_TTL:
            return
        self._tidied = now
        for api_version, listing in list(self._listings.items()):
            if not listing.kinds and not listing.asking.locked() and now - listing.asked >= UNSERVED_TTL:
                del self._listings[api_version]

    async def _versions(self, group: str) -> list[str]:
        try:
            return await self._client.api_versions(group)
        except StatusError:
            return []

    async def _ask(self, api_version: str, listing: _Listing) -> None:
        listing.why = ""
        try:
            served = await self._client.api_resources(api_version)
        except NotFound:
            served = []
        except StatusError as error:
            # An aggregated API that is dead, or kinds that we may not see. What was known before remains.
            listing.why = f"{api_version} cannot be asked for its resources: {error}"
            listing.asked = self._clock.monotonic()
            return
        listing.kinds = {}
        for resource in served:
            listing.kinds.setdefault(resource.kind, resource)
        listing.asked = self._clock.monotonic()

    async def refresh(self, group: str) -> None:
        """Ask anew for what was asked for of a group. Raises KubeError when the server could not be asked at all."""
        for api_version, listing in list(self._listings.items()):
            if api_version.rpartition("/")[0] == group:
                async with listing.asking:
                    await self._ask(api_version, listing)

    def is_asked_for(self, api_version: str) -> bool:
        """Whether anybody has ever needed something of this group version, or of its group in whichever version."""
        return api_version in self._listings or api_version.rpartition("/")[0] in self._groups

    def has(self, resource: GVR) -> bool:
        """Whether the server was last seen to serve it; without a kind, whether it serves anything of its group version."""
        listing = self._listings.get(resource.api_version)
        if listing is None or not resource.kind:
            return listing is not None and bool(listing.kinds)
        return listing.kinds.get(resource.kind) == resource
