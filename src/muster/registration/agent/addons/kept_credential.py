"""One credential of an addon, as long as it is wanted in this form.

A certificate comes from the same state machine as the agent's own, a token from `tokens.py`; the same `CredentialKeeper` drives
both. Its state is reported as the condition that OCM's agents use.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from muster.api import Condition
from muster.api.addons import CREDENTIAL_CONDITIONS
from muster.api.resource import Document
from muster.machinery.backoff import Backoff
from muster.machinery.clock import sleep
from muster.machinery.logs import get_logger
from muster.registration.agent.addons.namespaces import AddonNamespace
from muster.registration.agent.addons.registrations import TOKEN_ENTRY, WantedCredential
from muster.registration.agent.addons.secrets import AddonStore
from muster.registration.agent.addons.tokens import FAILED as TOKEN_FAILED
from muster.registration.agent.addons.tokens import TokenSource, refreshed, token_problem
from muster.registration.agent.context import AgentContext
from muster.registration.agent.credential import CredentialKeeper, CredentialSource
from muster.registration.agent.state.kept_secret import Data
from muster.registration.drivers.certificates.certificate_manager import FAILED as CERTIFICATE_FAILED
from muster.registration.drivers.certificates.certificate_manager import CertificateMachine, rotated
from muster.registration.drivers.certificates.profile import CertificateProfile
from muster.registration.drivers.certificates.signing_requests import SigningRequests
from muster.registration.drivers.flags import CSR, TOKEN
from muster.registration.drivers.interfaces import CredentialReport, StepResult
from muster.runtime.cache import Snapshot
from muster.runtime.client import KubeClient, KubeError, Unreachable

log = get_logger("muster.registration.agent.addons")

_FAILURES: Final[Mapping[str, tuple[str, str]]] = {
    CSR: (CERTIFICATE_FAILED, "Failed to rotate client certificate"),
    TOKEN: (TOKEN_FAILED, "Failed to create token"),
}


def condition(driver: str, report: CredentialReport) -> Condition:
    status = "True" if report.status else "False"
    return Condition(type=CREDENTIAL_CONDITIONS[driver], status=status, reason=report.reason, message=report.message)


class CertificateSource:
    """A `CredentialSource` that asks by CertificateSigningRequests."""

    def __init__(self, context: AgentContext, profile: CertificateProfile) -> None:
        self._profile = profile
        self._machine = CertificateMachine(profile, context.clock, context.random)

    async def advance(
        self, hub: KubeClient, stored: Mapping[str, bytes], pending: Mapping[str, bytes], seen: Document | None = None
    ) -> StepResult:
        return await self._machine.advance(SigningRequests(hub, self._profile), stored, pending, seen)


def credential_check(context: AgentContext, wanted: WantedCredential) -> Callable[[Data], str]:
    """What says why a stored credential cannot be used."""
    profile = wanted.profile
    if profile is None:
        return lambda stored: token_problem(stored.get(TOKEN_ENTRY, b""), context.clock.now())
    return CertificateMachine(profile, context.clock, context.random).problem


class KeptCredential:
    """`news` is called when there is another condition."""

    def __init__(
        self, context: AgentContext, hub: KubeClient, wanted: WantedCredential, store: AddonStore, news: Callable[[], None]
    ) -> None:
        self.wanted = wanted
        self.store = store
        self.namespace: AddonNamespace | None = None
        """Where it is kept."""
        self._context = context
        self._hub = hub
        self._news = news
        self._failure: Condition | None = None
        """Why the last step failed."""
        self._refusal: Condition | None = None
        """What the signer said, if it was no."""
        self._keeping: asyncio.Task[None] | None = None

    @property
    def condition(self) -> Condition | None:
        """None while there is nothing to say."""
        if self._refusal is not None or self._failure is not None:
            return self._refusal or self._failure
        return None if self.store.problem else self._in_use()

    def _in_use(self) -> Condition | None:
        data, profile = self.store.stored(), self.wanted.profile
        report = refreshed(data[TOKEN_ENTRY]) if profile is None else rotated(data[profile.certificate_entry])
        return None if report is None else condition(self.wanted.driver, report)

    def begin(self, tasks: asyncio.TaskGroup, namespace: AddonNamespace, former: KeptCredential | None) -> None:
        """Keep it, once who did before has ended."""
        self.namespace = namespace
        before = None if former is None else former._keeping
        self._keeping = tasks.create_task(self._keep(namespace, before), name=f"credential {self.wanted.secret}")

    def end(self) -> None:
        if self._keeping is not None:
            self._keeping.cancel()

    async def _keep(self, namespace: AddonNamespace, before: asyncio.Task[None] | None) -> None:
        if before is not None:
            before.cancel()
            await asyncio.wait([before])
        ignore = namespace.secrets.on_change(self._seen)
        try:
            await self._check()
            self._news()
            clock, random = self._context.clock, self._context.random
            keeper = CredentialKeeper(
                self._hub, self._source(), self.store, clock=clock, random=random, trouble=self._trouble, report=self._report
            )
            await keeper.run()
        finally:
            ignore()

    def _source(self) -> CredentialSource:
        context, wanted = self._context, self.wanted
        if wanted.profile is not None:
            return CertificateSource(context, wanted.profile)
        seconds = context.options.addon_token_seconds
        return TokenSource(context.cluster, wanted.account, wanted.account_uid, seconds, context.clock)

    async def _check(self) -> None:
        """Until it is known what is stored; the watch shows nothing that others have made."""
        backoff = Backoff(1.0, 60.0, random=self._context.random)
        while True:
            try:
                await self.store.secret.load()
                return
            except KubeError as error:
                self._trouble(error)
                await sleep(self._context.clock, backoff.next())

    def _seen(self, old: Snapshot | None, new: Snapshot | None) -> None:
        found = new or old
        if found is not None and found.name == self.store.secret.name:
            self.store.secret.seen(old, new)

    def _trouble(self, error: Exception | None) -> None:
        if isinstance(error, Unreachable | TimeoutError):
            # Nobody could be told either.
            return
        reason, message = _FAILURES[self.wanted.driver]
        failure = None if error is None else condition(self.wanted.driver, CredentialReport(False, reason, f"{message}: {error}"))
        if failure != self._failure:
            self._failure = failure
            if failure is not None:
                log.warning("cannot get a credential of an addon", addon=self.wanted.addon, error=failure.message)
            self._news()

    def _report(self, report: CredentialReport) -> None:
        write = log.info if report.status else log.warning
        write("credential of an addon", addon=self.wanted.addon, secret=self.wanted.secret, message=report.message)
        self._refusal = None if report.status else condition(self.wanted.driver, report)
        self._news()
