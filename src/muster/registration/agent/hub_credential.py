"""The store of the agent's own credential for its `CredentialKeeper`: with names and hub configuration, in its Secret.

It replaces the credential of another hub if there was one; pending data is in a Secret of its own. If a credential is computed from
the agent's configuration (`is_derived`), `store_derived` writes it as this agent would.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from muster.machinery.logs import get_logger
from muster.registration.agent.context import AgentContext
from muster.registration.agent.credential import CredentialKeeper, Trouble
from muster.registration.agent.state.hub_secret import names_of
from muster.registration.agent.state.kept_secret import Changes, Data
from muster.registration.drivers.endpoints import HubAddress
from muster.registration.drivers.interfaces import CredentialReport, DriverError, is_derived
from muster.runtime.client import KubeClient, KubeError

log = get_logger("muster.registration.agent")


async def store_derived(context: AgentContext, address: HubAddress) -> None:
    """Where the credential is made of what the agent knows: write it as this agent would, if it is not stored so. Raises KubeError
    and OSError."""
    whole = {**names_of(context.identity), **context.driver.way_to(address)}
    if any(context.secret.data.get(key) != value for key, value in whole.items()):
        await context.secret.replace(address, whole)


def hub_credential_keeper(
    context: AgentContext,
    hub: KubeClient,
    address: HubAddress,
    *,
    trouble: Trouble,
    report: Callable[[CredentialReport], None] = lambda report: None,
) -> CredentialKeeper:
    def on_report(credential_report: CredentialReport) -> None:
        write = log.info if credential_report.status else log.warning
        reason = credential_report.event or credential_report.reason
        write("credential", cluster=context.cluster, reason=reason, message=credential_report.message)
        context.events.event(
            context.secret.reference, "Normal" if credential_report.status else "Warning", reason, credential_report.message
        )
        report(credential_report)

    store = HubCredential(context, address)
    return CredentialKeeper(
        hub, context.driver, store, clock=context.clock, random=context.random, trouble=trouble, report=on_report
    )


class HubCredential:
    """A `CredentialStore`."""

    def __init__(self, context: AgentContext, address: HubAddress) -> None:
        self._context = context
        self._secret = context.secret
        self._address = address

    @property
    def problem(self) -> str:
        return self._context.credential_problem(self._address)

    def on_change(self, listener: Callable[[], None]) -> Callable[[], None]:
        return self._secret.on_change(listener)

    def stored(self) -> Data:
        return self._secret.stored(self._address)

    def begun(self) -> Data:
        return self._secret.pending.begun(self._address)

    async def replace(self, credential: Data) -> None:
        await self._secret.replace(self._address, self._whole(credential))
        try:
            await self._forget()
        except KubeError as error:
            # The credential is there and is to be told of; the driver finds what is left of how it came.
            log.debug("cannot forget what was pending", error=str(error))

    async def note(self, changes: Changes) -> None:
        await self._secret.pending.note(self._address, changes, names_of(self._context.identity))
        if not self.begun() and not self.problem:
            await self._forget()

    def _whole(self, credential: Mapping[str, bytes]) -> dict[str, bytes]:
        """A driver's credential with all that makes it usable."""
        # Somebody else's way to the same hub is as good as ours, unless the way is all that there is of the credential.
        driver, names = self._context.driver, names_of(self._context.identity)
        kept = {} if is_derived(driver) else self._secret.way_to(self._address)
        own = driver.way_to(self._address)
        whole = {**names, **(kept or own), **credential}
        if kept and driver.problem(whole):
            whole = {**names, **own, **credential}
        problem = driver.problem(whole)
        if problem:
            raise DriverError(f"the driver has got a credential that it cannot use itself: {problem}")
        return whole

    async def _forget(self) -> None:
        await self._secret.pending.close(self._address, [candidate.address for candidate in self._context.bootstraps.candidates])
