"""The controller of ConfigurationPolicies: evaluates each when there is reason to, and writes what came of it into its status.

Reasons are a change of the policy, of any object that its last evaluation looked at (missing ones included), of anything on the hub
that its hub templates read, of its encryption key, and time. A policy is evaluated at most once in so many seconds; one that has
been at rest for that long is evaluated at once.

What a reconcile changes of a policy is its status and, where it prunes, its finalizer, by patches of just that. Hub templates are
resolved into a copy that is evaluated and then dropped: resolved text never gets into the policy, nor unresolved text into that.
Objects are enforced before the status tells of it, and pruned before the status forgets them, so a controller that dies in between
does the same again. At rest nothing is sent: a status that says nothing new is not written.
"""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from muster.api.policy.v1 import ConfigurationPolicy, PolicyCondition, TemplateStatus
from muster.machinery.logs import get_logger
from muster.machinery.objects import Object, ObjectKey
from muster.policy.configuration import pruning
from muster.policy.configuration.encryption import REASON as ENCRYPTION_FAILURE
from muster.policy.configuration.encryption import EncryptionError, EncryptionKeys, is_encrypted
from muster.policy.configuration.evaluated import EvaluatedObjects
from muster.policy.configuration.evaluation import evaluate, policy_failure
from muster.policy.configuration.following import KIND, ChosenNamespaces, follower_of, policy_of
from muster.policy.configuration.interfaces import Cluster, Evaluation, EvaluationOptions, TemplateResolver
from muster.policy.configuration.schedule import (
    HUB_FAILURE,
    Interval,
    RateLimit,
    Turns,
    concerns_evaluation,
    interval_of,
    seconds_until_due,
)
from muster.policy.configuration.status import with_unpruned
from muster.policy.configuration.status_writer import StatusWriter
from muster.policy.dependencies import DirectSource, FollowingSource
from muster.policy.metrics import PolicyMetrics
from muster.policy.names import PRUNE_FINALIZER
from muster.policy.reporting import TERMINATING, PolicyReporter
from muster.policy.standalone import HubTemplateError, HubTemplates, PolicyKey
from muster.policy.uninstall import Stage, UninstallState
from muster.runtime.cache import DynamicRESTMapper, FollowedSelections, Informer, MutationCache
from muster.runtime.client import KubeClient, KubeError
from muster.runtime.controller import ControllerContext, add_finalizer, has_finalizer, remove_finalizer

log = get_logger("muster.policy.configuration.controller")

WAITING_WORKERS: Final = 128
"""Reconciles under way beside those that evaluate: they wait for a hub, which must not keep others from being evaluated."""
RETRY_SECONDS: Final = 5.0
MAX_RETRY_SECONDS: Final = 60.0
"""Between evaluations that fail, growing from one to the other."""
CLEANUP_ERROR: Final = "Error cleaning up child objects"
STATUS_ATTEMPTS: Final = 3


@dataclass(frozen=True)
class ConfigurationPolicyOptions:
    namespaces: tuple[str, ...] = ("",)
    """Where policies are read; an empty one stands for all."""
    evaluation_backoff: float = 5.0
    """Seconds between two evaluations of a policy, at least."""
    concurrency: int = 2
    """Policies that are evaluated at once."""
    denylist: frozenset[str] = frozenset()
    drop_terminating_namespaces: bool = False


@dataclass(frozen=True)
class Target:
    """The cluster that policies are about: the one they are in, but for hosted mode. The caller runs selections and mapper."""

    client: KubeClient
    selections: FollowedSelections
    mapper: DynamicRESTMapper


class ConfigurationPolicyController:
    def __init__(
        self,
        context: ControllerContext,
        target: Target,
        hub_templates: HubTemplates,
        resolver: TemplateResolver,
        uninstall: UninstallState,
        reporter: PolicyReporter,
        metrics: PolicyMetrics,
        options: ConfigurationPolicyOptions,
    ) -> None:
        """`context` is of the cluster that the policies are in."""
        self._context = context
        self._clock = context.clock
        self._target = target
        self._hub_templates = hub_templates
        self._resolver = resolver
        self._uninstall = uninstall
        self._metrics = metrics
        self._options = options
        self._pruner = pruning.Pruner(target.client, target.mapper)
        self._evaluated = EvaluatedObjects()
        self._rate = RateLimit(options.evaluation_backoff, clock=context.clock)
        self._turns = Turns(options.concurrency, clock=context.clock)
        self._stage = Stage.EVALUATE
        self._chosen = ChosenNamespaces(target.selections, drop_terminating=options.drop_terminating_namespaces)
        self._failures: dict[ObjectKey, int] = {}
        """How often in a row evaluating failed."""
        self._policies = {
            namespace: MutationCache(context.informers.of(ConfigurationPolicy, namespace), clock=context.clock)
            for namespace in options.namespaces
        }
        self._status = StatusWriter(
            context.client, self._cache, target.selections, reporter, metrics, denylist=options.denylist, clock=context.clock
        )
        self._keys = EncryptionKeys(context.informers, options.namespaces, clock=context.clock)
        self._controller = context.controller(
            "configuration-policy-controller",
            self.reconcile,
            workers=options.concurrency + WAITING_WORKERS,
            max_delay=MAX_RETRY_SECONDS,
        )
        self._watch()

    async def run(self) -> None:
        await self._controller.run()

    # What is reason to look at a policy.

    def _watch(self) -> None:
        informers: list[Informer[Any]] = [self._informer(namespace) for namespace in self._policies]
        for informer in informers:
            informer.on_change(self._policy_changed)
        for informer in (*informers, *self._uninstall.informers):
            self._controller.depend(informer)
        self._target.selections.on_change(self._objects_changed)
        self._target.mapper.on_change(lambda group: self._enqueue_all(self._failures))
        self._hub_templates.on_change(self._hub_changed)
        self._keys.on_change(self._key_changed)
        self._uninstall.on_change(self._uninstall_changed)

    def _informer(self, namespace: str) -> Informer[ConfigurationPolicy]:
        return self._context.informers.of(ConfigurationPolicy, namespace)

    def _policy_changed(self, old: ConfigurationPolicy | None, new: ConfigurationPolicy | None) -> None:
        policy = new or old
        if policy is not None and concerns_evaluation(old, new):
            if old is not None and (new is None or old.metadata.uid != new.metadata.uid):
                self._cache(old.metadata.namespace).confirm_delete(_key(old), old.metadata.uid)
                self._evaluated.forget(old.metadata.uid)
            self._failures.pop(_key(policy), None)
            self._controller.enqueue(_key(policy))

    def _objects_changed(self, follower: str) -> None:
        key = policy_of(follower)
        if key is not None:
            self._controller.enqueue(key)

    def _hub_changed(self, policy: PolicyKey) -> None:
        if policy.kind == KIND:
            self._controller.enqueue(ObjectKey(policy.namespace, policy.name))

    def _key_changed(self, namespace: str) -> None:
        self._enqueue_all(
            key for key in self._all_keys() if key.namespace == namespace and (policy := self._get(key)) and is_encrypted(policy)
        )

    def _uninstall_changed(self, stage: Stage) -> None:
        if stage is Stage.RELEASE or stage is not self._stage:
            self._enqueue_all(self._all_keys())
        self._stage = stage

    def _all_keys(self) -> list[ObjectKey]:
        return [key for namespace in self._policies for key in self._informer(namespace).cache.all_keys()]

    def _enqueue_all(self, keys: Any) -> None:
        for key in list(keys):
            self._controller.enqueue(key)

    def _get(self, key: ObjectKey) -> ConfigurationPolicy | None:
        return self._cache(key.namespace).get(key)

    def _cache(self, namespace: str) -> MutationCache[ConfigurationPolicy]:
        """Policies as they are, this controller's own writes included."""
        return self._policies.get(namespace) or self._policies[""]

    # What is done about it, step by step.

    async def reconcile(self, key: ObjectKey) -> float | None:
        policy = self._get(key)
        if policy is None:
            self._forget(key)
            return None
        stage = self._uninstall.stage
        if stage is Stage.RELEASE:
            await self._release(policy)
            return None
        if stage is Stage.LEAVE_ALONE:
            log.warning("policy left alone: there is no Deployment of this controller", namespace=key.namespace, name=key.name)
            return None
        due = seconds_until_due(policy, self._clock.now(), namespaces_changed=await self._namespaces_changed(key))
        if due is None or due > 0:
            return due
        if (wait := self._rate.take(key)) > 0:
            return wait
        if policy.metadata.deletion_timestamp:
            return await self._clean_up(policy)
        try:
            resolution = await self._hub_templates.resolve(policy.document())
        except HubTemplateError as error:
            # There is no need to try again: the hub's part tells when there is reason to.
            document = policy.document()
            await self._status.report(policy, document, policy_failure(document, HUB_FAILURE, str(error), policy.status))
            return None
        policy = await self._manage_finalizer(policy)
        async with self._turns.take():
            return await self._evaluate(policy, resolution.policy, sensitive=resolution.sensitive)

    def _forget(self, key: ObjectKey) -> None:
        self._unfollow(key)
        self._hub_templates.forget(PolicyKey(KIND, key.namespace, key.name))
        self._rate.forget(key)
        self._failures.pop(key, None)
        self._metrics.forget(KIND, key.namespace, key.name)

    def _unfollow(self, key: ObjectKey) -> None:
        self._target.selections.forget(follower_of(key))
        self._chosen.forget(key)

    async def _namespaces_changed(self, key: ObjectKey) -> bool:
        try:
            return await self._chosen.changed(key)
        except KubeError:
            return False

    async def _release(self, policy: ConfigurationPolicy) -> None:
        """The controller is being uninstalled: hold nothing back."""
        self._unfollow(_key(policy))
        await self._written(policy, remove_finalizer(self._context.client, policy, PRUNE_FINALIZER))

    async def _manage_finalizer(self, policy: ConfigurationPolicy) -> ConfigurationPolicy:
        change = add_finalizer if pruning.prunes(policy.spec) else remove_finalizer
        return await self._written(policy, change(self._context.client, policy, PRUNE_FINALIZER))

    async def _written(self, policy: ConfigurationPolicy, write: Awaitable[Object | None]) -> ConfigurationPolicy:
        """The policy as it is after a write of it."""
        answer = await write
        if answer is None:
            return policy
        return self._cache(policy.metadata.namespace).record_write(answer) or policy

    async def _clean_up(self, policy: ConfigurationPolicy) -> float | None:
        """The policy is being deleted: what it is to take with it goes first."""
        key = _key(policy)
        self._unfollow(key)
        if not has_finalizer(policy, PRUNE_FINALIZER):
            return None
        left = await self._pruner.prune(policy.spec, pruning.to_prune(policy.spec, policy.status.related_objects))
        if left:
            message = f"Failed to delete objects: {', '.join(map(pruning.described, left))}"
            await self._status.report(policy, policy.document(), _terminating(policy, message))
            return self._retry_delay(key, first=1.0)
        await self._written(policy, remove_finalizer(self._context.client, policy, PRUNE_FINALIZER))
        return None

    # Evaluating.

    async def _evaluate(self, policy: ConfigurationPolicy, resolved: Object, *, sensitive: bool) -> float | None:
        """`resolved` is the policy with its hub templates resolved."""
        key = _key(policy)
        watching = interval_of(policy.spec.evaluation_interval, policy.status.compliant).watch
        target = self._target
        source: FollowingSource | DirectSource
        if watching:
            source = FollowingSource(target.selections, target.mapper, follower_of(key))
        else:
            source = DirectSource(target.client, target.mapper)
        began = self._clock.monotonic()
        settled = False
        try:
            evaluation = await self._evaluation(policy, resolved, source, sensitive=sensitive, watching=watching)
            self._metrics.count_evaluation(key.name, self._clock.monotonic() - began)
            if not evaluation.failed and isinstance(source, FollowingSource):
                source.commit()
                settled = True
        finally:
            if not settled and isinstance(source, FollowingSource):
                source.keep()
        gone = pruning.to_prune(policy.spec, policy.status.related_objects, evaluation.related)
        # A policy that could not be evaluated in full may only seem to be about less: nothing is removed then, nor forgotten.
        left = gone if evaluation.failed else await self._pruner.prune(policy.spec, gone)
        evaluation = replace(evaluation, related=with_unpruned(evaluation.related, left))
        after = await self._status.report(policy, resolved, evaluation, watching=watching, sensitive=sensitive)
        interval = interval_of(policy.spec.evaluation_interval, after.status.compliant)
        await self._follow_namespaces(key, resolved, interval)
        return self._next(key, evaluation, interval, watched=watching, retry=bool(left) and not evaluation.failed)

    async def _evaluation(
        self,
        policy: ConfigurationPolicy,
        resolved: Object,
        source: FollowingSource | DirectSource,
        *,
        sensitive: bool,
        watching: bool,
    ) -> Evaluation:
        try:
            encryption = await self._keys.of(policy)
        except EncryptionError as error:
            return policy_failure(resolved, ENCRYPTION_FAILURE, str(error), policy.status)
        options = EvaluationOptions(
            denylist=self._options.denylist,
            drop_terminating_namespaces=self._options.drop_terminating_namespaces,
            sensitive=sensitive,
            watching=watching,
            encryption=encryption,
        )
        compared = partial(self._metrics.count_comparison, policy.metadata.name)
        cluster = Cluster(source, self._target.client, self._evaluated, self._clock, compared)
        return await evaluate(resolved, cluster, self._resolver, options, policy.status)

    async def _follow_namespaces(self, key: ObjectKey, resolved: Object, interval: Interval) -> None:
        if interval.watch:
            self._chosen.forget(key)
            return
        try:
            await self._chosen.follow(key, resolved["spec"].get("namespaceSelector") or {})
        except KubeError as error:
            log.warning("namespaces not followed", kind=KIND, namespace=key.namespace, name=key.name, error=str(error))

    def _next(self, key: ObjectKey, evaluation: Evaluation, interval: Interval, *, watched: bool, retry: bool) -> float | None:
        """After an evaluation: nothing is followed that is not needed; and in how many seconds it is evaluated without a reason."""
        if evaluation.invalid or not interval.watch:
            self._target.selections.forget(follower_of(key))
        if evaluation.invalid:
            return None
        failed = retry or (interval.watch and (evaluation.failed or bool(evaluation.errors)))
        waits = failed or evaluation.retry_after is not None
        if waits:
            self._failures.setdefault(key, 0)
        else:
            self._failures.pop(key, None)
        delays = (
            interval.seconds,
            evaluation.retry_after,
            self._retry_delay(key) if waits and evaluation.retry_after is None else None,
            # What it looked at is to be followed from now on, and was not yet.
            0.0 if interval.watch and not watched else None,
        )
        return min((delay for delay in delays if delay is not None), default=None)

    def _retry_delay(self, key: ObjectKey, first: float = RETRY_SECONDS) -> float:
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        return float(min(first * 2 ** min(failures - 1, 10), MAX_RETRY_SECONDS))


def _key(policy: ConfigurationPolicy) -> ObjectKey:
    return ObjectKey(policy.metadata.namespace, policy.metadata.name)


def _terminating(policy: ConfigurationPolicy, message: str) -> Evaluation:
    said = PolicyCondition(type="violation", status="True", reason=CLEANUP_ERROR, message=message)
    details = TemplateStatus(compliant=TERMINATING, conditions=(said,))
    return Evaluation(TERMINATING, (details,), policy.status.related_objects, failed=True, for_policy=True)
