"""The gate: checks which manifests of a work may be applied with its executor's permissions.

In strict mode (the enhancement's rule) one refusal withholds the whole work, and so does a manifest that cannot be applied for any
other reason; per manifest (upstream's rule) each is checked alone. Permissions are cached per executor; when a role or binding of
it or of one of its groups changes, they are dropped at once, and handlers are called a moment later. RBAC is watched only once
there is a work with an executor.

A work is checked with all writes that would be sent for it, before the first one; each write of a guarded kind is checked once more
when it is sent.

It fails closed: a check that fails is a refusal, marked as a failure so that it is retried soon.
"""

from __future__ import annotations

import asyncio
import random as chance
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from muster.api.work.v1 import ExecutorServiceAccount
from muster.kube.rbac import Subject, subjects_of
from muster.machinery.backoff import Backoff
from muster.machinery.clock import SYSTEM, Clock, Random, pause
from muster.machinery.logs import get_logger
from muster.machinery.objects import Object, ObjectRef
from muster.runtime.auth import RbacAuthorizer
from muster.runtime.client import KubeClient, KubeError
from muster.work.agent.executor.demands import action, denial, identity_of, lacking, malformed, verbs
from muster.work.agent.executor.escalation import Escalation, Planned, Undecided, judged, planned_roles
from muster.work.agent.executor.executor_access import ExecutorAccess
from muster.work.agent.interfaces import Drafts, InvalidManifest, Manifest, ManifestWrite, NotPermitted, Refusal, RightsChanged

log = get_logger("muster.work.agent.executor")

MAX_CONCURRENT_CHECKS: Final = 16
"""Manifests of a work that are checked at the same time."""
COALESCE: Final = 0.2
"""Seconds between a change of RBAC and the notification: changes come in groups, and the cluster's own authorizer needs a moment
too."""
SYNC_TIMEOUT: Final = 5.0
ATTEMPTS: Final = 10
"""How often a check begins anew because permissions changed while it ran."""
MOST: Final = 10_000
"""Executors whose permissions are cached; changes for others are not reported until they are checked again."""

Handler = Callable[[ExecutorServiceAccount], None]


@dataclass(frozen=True)
class ExecutorOptions:
    strict: bool = True
    """One refusal withholds the whole work."""
    review_all: bool = False
    """Each object is reviewed by the cluster, for authorizers that decide by name."""
    every_verb: bool = False
    """Every verb is demanded whatever the update strategy."""


class _Executor:
    """One service account that works are executed as."""

    def __init__(self, account: ExecutorServiceAccount, random: Random) -> None:
        self.account = account
        self.who = identity_of(account)
        self.subjects = frozenset(subjects_of(self.who))
        self.access: ExecutorAccess | None = None
        self.changes = 0
        self.notify_at = float("inf")
        """When to call the handlers, after a change of its permissions."""
        self.recheck_at = float("inf")
        """When to check again what no watch reports."""
        self.doubts = Backoff(1.0, ExecutorAccess.ALLOWED_TTL, random=random)


class ExecutorGate:
    """Satisfies `seam.Gate`. `client` is the managed cluster's, with the agent's own identity."""

    def __init__(
        self,
        client: KubeClient,
        options: ExecutorOptions | None = None,
        *,
        clock: Clock = SYSTEM,
        random: Random = chance.random,
    ) -> None:
        self._client = client
        self._options = options or ExecutorOptions()
        self._clock = clock
        self._random = random
        self._rbac = RbacAuthorizer(client, clock=clock, random=random)
        self._rbac.on_change(self._changed)
        self._escalation = Escalation(client, self._rbac)
        self._executors: OrderedDict[ExecutorServiceAccount, _Executor] = OrderedDict()
        self._handlers: list[Handler] = []
        self._wanted = asyncio.Event()
        self._waited = False
        self._news = asyncio.Event()
        self._followed = True

    def consent(self, executor: ExecutorServiceAccount, manifests: Sequence[Manifest]) -> ExecutorConsent:
        return ExecutorConsent(self, executor, planned_roles(manifests))

    def changes(self, executor: ExecutorServiceAccount) -> int:
        """Another number after each change of what it may, at once: an answer from before that is one no longer."""
        known = self._executors.get(executor)
        return known.changes if known is not None else 0

    async def refusal(
        self, account: ExecutorServiceAccount, ref: ObjectRef, write: ManifestWrite, live: Object | None, planned: Planned
    ) -> str:
        """Why the executor may not have this very write; empty if it may. Raises KubeError."""
        access = self._access(self._known(account))
        try:
            problem = await self._escalation.problem(access, ref, write, live, planned)
        except Undecided as error:
            return _unknown(access, ref, error)
        return denial(ref, problem) if problem else ""

    def on_change(self, handler: Handler) -> None:
        self._handlers.append(handler)

    async def run(self) -> None:
        await self._wanted.wait()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._rbac.run())
            tasks.create_task(self._notify_changes())
            tasks.create_task(self._catch_up())

    async def check(
        self, executor: ExecutorServiceAccount, manifests: Sequence[Manifest], invalid: Sequence[InvalidManifest], drafts: Drafts
    ) -> Mapping[int, Refusal]:
        problem = malformed(executor)
        if problem:
            return {manifest.ordinal: Refusal(problem, hidden=problem) for manifest in manifests}
        await self._settle()
        known = self._known(executor)
        refusals = await self._judged(known, manifests, drafts)
        if self._options.strict and (refusals or invalid):
            return {**_withheld(manifests, refusals, invalid), **refusals}
        return refusals

    def _known(self, account: ExecutorServiceAccount) -> _Executor:
        known = self._executors.get(account)
        if known is None:
            known = self._executors[account] = _Executor(account, self._random)
            if len(self._executors) > MOST:
                self._executors.popitem(last=False)
        self._executors.move_to_end(account)
        return known

    async def _judged(self, executor: _Executor, manifests: Sequence[Manifest], drafts: Drafts) -> dict[int, Refusal]:
        """All of them by one and the same state of permissions."""
        for _ in range(ATTEMPTS):
            access = self._access(executor)
            refusals = await self._refusals(access, manifests, drafts)
            if executor.access is access:
                return refusals
        text = f"cannot find out what {executor.who.name} may: its permissions do not stop changing"
        return {manifest.ordinal: Refusal(text, failure=True, hidden=text) for manifest in manifests}

    async def _settle(self) -> None:
        """RBAC is worth waiting for, once and not for long."""
        self._wanted.set()
        if not self._waited:
            await self._rbac.synced(SYNC_TIMEOUT)
            self._waited = True
        if self._rbac.followed != self._followed:
            self._followed = self._rbac.followed
            if self._followed:
                log.info("following RBAC: permissions of executors are decided with it")
            else:
                log.warning("cannot follow RBAC: each object is reviewed by the cluster", error=self._rbac.outage)

    def _access(self, executor: _Executor) -> ExecutorAccess:
        access, followed = executor.access, self._rbac.followed
        if access is None or access.followed != followed:
            access = executor.access = ExecutorAccess(
                self._client,
                self._rbac,
                executor.who,
                self._clock,
                followed=followed,
                review_all=self._options.review_all,
                doubt=lambda: self._recheck(executor, executor.doubts.next()),
            )
        if not followed or self._options.review_all:
            self._recheck(executor, ExecutorAccess.ALLOWED_TTL)
        return access

    async def _refusals(self, access: ExecutorAccess, manifests: Sequence[Manifest], drafts: Drafts) -> dict[int, Refusal]:
        found: dict[int, Refusal] = {}
        planned = planned_roles(manifests)
        turn = asyncio.Semaphore(MAX_CONCURRENT_CHECKS)

        async def judge(manifest: Manifest) -> None:
            async with turn:
                refusal = await self._refusal(access, manifest, planned, drafts)
            if refusal is not None:
                found[manifest.ordinal] = refusal

        async with asyncio.TaskGroup() as tasks:
            for manifest in manifests:
                tasks.create_task(judge(manifest))
        return found

    async def _refusal(self, access: ExecutorAccess, manifest: Manifest, planned: Planned, drafts: Drafts) -> Refusal | None:
        ref = manifest.ref
        demanded = [action(ref, verb) for verb in verbs(manifest, self._options.every_verb)]
        try:
            for index, one in enumerate(demanded):
                verdict = await access.authorize(one)
                if not verdict.allowed:
                    others = [later.verb for later in demanded[index + 1 :] if access.rbac_allows(later) is False]
                    text = denial(ref, lacking(access.who, [one.verb, *others], verdict.reason))
                    return Refusal(text, one.verb, hidden=await _hidden(access, manifest))
            if judged(manifest):
                problem = await self._escalation.foreseen(access, manifest, planned, drafts)
                if problem:
                    return Refusal(denial(ref, problem), "escalate")
        except (KubeError, Undecided) as error:
            text = _unknown(access, ref, error)
            return Refusal(text, failure=True, hidden=text)
        return None

    def _changed(self, subjects: frozenset[Subject]) -> None:
        for executor in self._executors.values():
            if executor.subjects & subjects:
                executor.access = None
                executor.changes += 1
                executor.doubts.reset()
                executor.recheck_at = float("inf")
                executor.notify_at = min(executor.notify_at, self._clock.monotonic() + COALESCE)
                self._news.set()

    async def _catch_up(self) -> None:
        """Changes before the RBAC caches were synced are not reported: executors that were checked without them are checked
        again."""
        while not await self._rbac.synced(SYNC_TIMEOUT):
            pass
        for executor in self._executors.values():
            if executor.access is not None and not executor.access.followed:
                self._recheck(executor, 0.0)

    def _recheck(self, executor: _Executor, seconds: float) -> None:
        due = self._clock.monotonic() + seconds
        if due < executor.recheck_at:
            executor.recheck_at = due
            self._news.set()

    async def _notify_changes(self) -> None:
        while True:
            due = min((min(one.notify_at, one.recheck_at) for one in self._executors.values()), default=float("inf"))
            wait = due - self._clock.monotonic()
            await pause(self._clock, self._news, None if wait == float("inf") else wait)
            now = self._clock.monotonic()
            for executor in list(self._executors.values()):
                if executor.recheck_at <= now:
                    executor.access = None
                elif executor.notify_at > now:
                    continue
                executor.notify_at = executor.recheck_at = float("inf")
                for handler in self._handlers:
                    handler(executor.account)


class ExecutorConsent:
    """Implements `interfaces.Consent`."""

    def __init__(self, gate: ExecutorGate, account: ExecutorServiceAccount, planned: Planned) -> None:
        self._gate = gate
        self._account = account
        self._planned = planned
        self._changes = gate.changes(account)

    @property
    def is_valid(self) -> bool:
        return self._gate.changes(self._account) == self._changes

    async def to(self, manifest: Manifest, write: ManifestWrite, live: Object | None) -> None:
        refusal = ""
        if self.is_valid and judged(manifest):
            refusal = await self._gate.refusal(self._account, manifest.ref, write, live, self._planned)
        if not self.is_valid:
            raise RightsChanged
        if refusal:
            raise NotPermitted(refusal)


def _unknown(access: ExecutorAccess, ref: ObjectRef, error: Exception) -> str:
    return f"cannot find out whether {access.who.name} may have {ref} applied: {error}"


async def _hidden(access: ExecutorAccess, manifest: Manifest) -> str:
    """Why feedback and conditions of the object must not be reported. Raises KubeError."""
    reported = manifest.feedback or manifest.conditions
    if not reported or (await access.authorize(action(manifest.ref, "get"))).allowed:
        return ""
    return f"{access.who.name} may not get it"


def _withheld(
    manifests: Sequence[Manifest], refusals: Mapping[int, Refusal], invalid: Sequence[InvalidManifest]
) -> dict[int, Refusal]:
    """All of them, for the sake of the first that cannot be applied."""
    first = next((manifest for manifest in manifests if manifest.ordinal in refusals), None)
    if first is None:
        meta = invalid[0].meta
        cause = f"manifest {meta.ordinal} ({meta.kind} {meta.name}) of the work cannot be applied"
    elif refusals[first.ordinal].failure:
        cause = f"it could not be found out whether manifest {first.ordinal} ({first.ref}) of the work is allowed"
    else:
        cause = f"manifest {first.ordinal} ({first.ref}) of the work is not allowed"
    text = f"withheld because {cause}: with an executor a work is applied as a whole or not at all"
    return {manifest.ordinal: Refusal(text, withheld=True) for manifest in manifests}
