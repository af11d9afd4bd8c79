"""The Secrets of an addon's credential: the one that its pods mount, and a pending one in the agent's namespace.

The mounted Secret is complete or missing, and is replaced in one write: the former credential stays in use until the new one is
complete. A digest of its registration is stored with it, so that the next agent recognizes it without requests. Both Secrets are
labelled, so that they are found when nothing else is known.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import Final

from muster.api.addon.v1alpha1 import GROUP
from muster.machinery.logs import get_logger
from muster.machinery.objects import Object
from muster.registration.agent.addons.registrations import WantedCredential
from muster.registration.agent.state.kept_secret import Changes, Data, KeptSecret
from muster.registration.agent.state.pending_secret import PendingSecret
from muster.registration.drivers.endpoints import HubAddress
from muster.runtime.client import KubeError

log = get_logger("muster.registration.agent.addons")

AGENT_LABEL: Final = f"{GROUP}/muster-agent"
"""On addons' credentials: the namespace of the agent that keeps them."""
PENDING_LABEL: Final = f"{GROUP}/muster-pending"
"""On Secrets of what is begun for addons: the namespace of the agent, which they are in."""
REGISTRATION: Final = f"{GROUP}/muster-registration"
"""Annotation of a credential: the digest of what it was got for."""


def pending_name(addon: str, secret: str) -> str:
    """Of the Secret of what is begun for a credential, wherever that is to be kept."""
    return f"addon-credential-{sha256(f'{addon}/{secret}'.encode()).hexdigest()[:32]}-pending"


class AddonSecret(KeptSecret):
    registration = ""
    """The digest that it says."""
    _next = ""

    def _take(self, secret: Object | None, *, ours: bool = False) -> None:
        super()._take(secret, ours=ours)
        if secret is None or secret["metadata"]["resourceVersion"] == self._version:
            self.registration = ((secret or {"metadata": {}})["metadata"].get("annotations") or {}).get(REGISTRATION, "")

    def _metadata(self) -> Object:
        return {**super()._metadata(), "annotations": {REGISTRATION: self._next}}

    async def replace(self, whole: Data, registration: str) -> None:
        """Have this and nothing else in it, in one write."""
        self._next = registration
        await self.store({**dict.fromkeys(self.data), **whole})


class AddonStore:
    """A `CredentialStore`. `check` says what is wrong with a credential, if anything is."""

    def __init__(
        self,
        wanted: WantedCredential,
        secret: AddonSecret,
        pending: PendingSecret,
        hub: HubAddress,
        check: Callable[[Data], str],
    ) -> None:
        self._wanted = wanted
        self.secret = secret
        self.pending = pending
        self._hub = hub
        self._check = check

    @property
    def problem(self) -> str:
        return self._check(self.stored())

    def on_change(self, listener: Callable[[], None]) -> Callable[[], None]:
        return self.secret.on_change(listener)

    def stored(self) -> Data:
        """What was got for this very registration; anything else is as good as nothing, though it stays until there is better."""
        data = self.secret.data
        as_wanted = all(data.get(name) == value for name, value in self._wanted.entries.items())
        return data if as_wanted and self.secret.registration == self._wanted.digest else {}

    def begun(self) -> Data:
        return self.pending.begun(self._hub)

    async def replace(self, credential: Data) -> None:
        await self.secret.replace({**self._wanted.entries, **credential}, self._wanted.digest)
        try:
            await self.pending.close(self._hub, ())
        except KubeError as error:
            # The credential is there; the next step finds what is left of how it came.
            log.debug("cannot forget what was pending", addon=self._wanted.addon, error=str(error))

    async def note(self, changes: Changes) -> None:
        await self.pending.note(self._hub, changes, {})
        if not self.begun():
            await self.pending.close(self._hub, ())
