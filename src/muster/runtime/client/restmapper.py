"""From apiVersion and kind to the resource, as apimachinery's RESTMapper.

Discovery of a group version happens when it is first needed, so an unavailable API affects only its users, and a user of three
group versions sends three small requests. Missing kinds are looked up again at most every few seconds, once for all waiting
callers. Errors are not cached: they are raised for the callers that waited, and later callers cause a new request.
`cache.restmapper.DynamicRESTMapper` also notices kinds that come and go.
"""

from __future__ import annotations

import asyncio
import re
from typing import Final

from muster.machinery.clock import SYSTEM, Clock, within
from muster.machinery.objects import GVR
from muster.runtime.client.base import KubeClient
from muster.runtime.client.errors import KubeError, NotFound, StatusError, Unreachable

MISS_TTL: Final = 3.0
"""Seconds for which a missing kind is cached."""
UNSERVED_TTL: Final = 600.0
"""Seconds after which a group version that is not served and not requested is forgotten. Callers that wait for it request it more
often.
"""
_GROUP_VERSION: Final = re.compile(r"(?:[a-z0-9](?:[-a-z0-9.]*[a-z0-9])?/)?[a-z0-9](?:[-a-z0-9]*[a-z0-9])?", re.ASCII)


class NoKindMatch(Exception):
    """The cluster does not serve the kind, as far as is known. If `error` is set, discovery of the group version failed with it."""

    def __init__(self, api_version: str, kind: str, error: StatusError | None = None) -> None:
        why = "" if error is None else f": discovery of {api_version} failed: {error}"
        super().__init__(f'the server doesn\'t have a resource type "{kind}"{why}')
        self.api_version = api_version
        self.kind = kind
        self.error = error


class _Listing:
    """The resources of one group version."""

    __slots__ = ("discovered_at", "error", "failed_at", "kinds", "lock")

    def __init__(self) -> None:
        self.kinds: dict[str, GVR] = {}
        self.discovered_at = float("-inf")
        self.lock = asyncio.Lock()
        self.error: KubeError | None = None
        """Why discovery failed, if it did, since `failed_at`."""
        self.failed_at = float("-inf")

    def named(self, plural: str) -> GVR | None:
        return next((resource for resource in self.kinds.values() if resource.plural == plural), None)


class RESTMapper:
    """The known kinds of one cluster."""

    def __init__(self, client: KubeClient, *, clock: Clock = SYSTEM, timeout: float | None = None) -> None:
        """`timeout` bounds a discovery request in seconds, if the client's own timeout is too long."""
        self._client = client
        self._timeout = timeout
        self._clock = clock
        self._listings: dict[str, _Listing] = {}
        self._groups: set[str] = set()
        """Groups in which a resource of any version was requested."""
        self._tidied = clock.monotonic()

    def known(self, api_version: str, kind: str) -> GVR | None:
        """The known resource, without a request."""
        listing = self._listings.get(api_version)
        return None if listing is None else listing.kinds.get(kind)

    async def mapping(self, api_version: str, kind: str) -> GVR:
        """Raises NoKindMatch, or KubeError if there was no response."""
        found = self.known(api_version, kind)
        if found is not None:
            return found
        if not kind or _GROUP_VERSION.fullmatch(api_version) is None:
            raise NoKindMatch(api_version, kind)
        listing = self._listing(api_version)
        came = self._clock.monotonic()
        async with listing.lock:
            if kind not in listing.kinds and self._is_due(listing, came):
                await self._discover(api_version, listing)
        found = listing.kinds.get(kind)
        if found is None:
            raise NoKindMatch(api_version, kind, _answer(listing.error)) from listing.error
        return found

    async def resource_for(self, group: str, version: str, plural: str) -> GVR | None:
        """A resource by its plural: in this version, else in another served version; None if the cluster does not have it.

        Raises KubeError if there was no response.
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
            came = self._clock.monotonic()
            async with listing.lock:
                if listing.named(plural) is None and self._is_due(listing, came):
                    await self._discover(api_version, listing)
            found = listing.named(plural)
            if found is None:
                _answer(listing.error)
        return found

    def _is_due(self, listing: _Listing, came: float) -> bool:
        """Whether a caller that came at that time must send the request: not if another one has succeeded or failed since."""
        if listing.error is not None:
            return listing.failed_at < came
        return self._clock.monotonic() - listing.discovered_at >= MISS_TTL

    def _listing(self, api_version: str) -> _Listing:
        found = self._listings.get(api_version)
        if found is None:
            self._tidy()
            found = self._listings[api_version] = _Listing()
        return found

    def _tidy(self) -> None:
        """Drop old entries: manifests can name any number of versions that do not exist."""
        now = self._clock.monotonic()
        if now - self._tidied < UNSERVED_TTL:
            return
        self._tidied = now
        for api_version, listing in list(self._listings.items()):
            if not listing.kinds and not listing.lock.locked() and now - listing.discovered_at >= UNSERVED_TTL:
                del self._listings[api_version]

    async def _versions(self, group: str) -> list[str]:
        try:
            return await self._client.api_versions(group)
        except StatusError:
            return []

    async def _discover(self, api_version: str, listing: _Listing) -> None:
        """The result before a failure remains: an aggregated API may be unavailable, or discovery forbidden."""
        listing.error = None
        try:
            served = await self._api_resources(api_version)
        except NotFound:
            served = []
        except KubeError as error:
            listing.error, listing.failed_at = error, self._clock.monotonic()
            return
        listing.kinds = {}
        for resource in served:
            listing.kinds.setdefault(resource.kind, resource)
        listing.discovered_at = self._clock.monotonic()

    async def _api_resources(self, api_version: str) -> list[GVR]:
        gate = self._client.gate
        if gate is not None and gate.error is not None:
            raise gate.error.with_traceback(None)
        if self._timeout is None:
            return await self._client.api_resources(api_version)
        try:
            return await within(self._clock, self._timeout, self._client.api_resources(api_version))
        except TimeoutError:
            raise Unreachable(self._client.server, f"no answer within {self._timeout:g} s") from None

    async def refresh(self, group: str) -> None:
        """Repeat discovery of the known versions of a group. Raises KubeError if there was no response."""
        for api_version, listing in list(self._listings.items()):
            if api_version.rpartition("/")[0] == group:
                async with listing.lock:
                    await self._discover(api_version, listing)
                _answer(listing.error)

    def is_discovered(self, api_version: str) -> bool:
        """Whether this group version, or any version of its group, was ever requested."""
        return api_version in self._listings or api_version.rpartition("/")[0] in self._groups

    def has(self, resource: GVR) -> bool:
        """Whether the server served it at the last discovery; without a kind, whether it served anything of its group version."""
        listing = self._listings.get(resource.api_version)
        if listing is None or not resource.kind:
            return listing is not None and bool(listing.kinds)
        return listing.kinds.get(resource.kind) == resource


def _answer(error: KubeError | None) -> StatusError | None:
    """A failure that is a response of the server; others are raised."""
    if error is None or isinstance(error, StatusError):
        return error
    # The traceback would grow each time the error is raised.
    raise error.with_traceback(None)
