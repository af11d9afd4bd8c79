"""The controller of ConfigurationPolicies: evaluates each policy when something it depends on changes, and writes the result to
its status.

It depends on the policy itself, on all objects that its last evaluation read (including missing ones), on objects of the hub
that its hub templates read, on its encryption key, and on time. A policy is evaluated at most once in a configured number of
seconds; after that time without an evaluation, a change triggers one at once.

A reconcile changes only the policy's status and, for pruning, its finalizer, by patches of just these fields. Hub templates are
resolved into a copy that is evaluated and dropped: resolved text is never written into the policy, nor are unresolved hub
templates evaluated. Objects are enforced before the status reports it, and pruned before the status drops them, so a controller
that is interrupted in between repeats the step. An unchanged status is not written, so an idle controller sends no requests.
"""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from muster.api.policy.v1 import ConfigurationPolicy, PolicyCondition, TemplateStatus
from muster.machinery.logs import get_logger
from muster.machinery.objects import Object, ObjectKey
from muster.policy.configuration import pruner
from muster.policy.configuration.encryption import REASON as ENCRYPTION_FAILURE
from muster.policy.configuration.encryption import EncryptionError, EncryptionKeys, is_encrypted
from muster.policy.configuration.evaluation import evaluate, policy_failure
from muster.policy.configuration.evaluation_cache import EvaluationCache
from muster.policy.configuration.followers import KIND, SelectedNamespaces, follower_of, policy_of
from muster.policy.configuration.interfaces import Cluster, Evaluation, EvaluationOptions, TemplateResolver
from muster.policy.configuration.schedule import (
    HUB_FAILURE,
    EvaluationSlots,
    Interval,
    RateLimit,
    concerns_evaluation,
    interval_of,
    seconds_until_due,
)
from muster.policy.configuration.status import with_unpruned
from muster.policy.configuration.status_writer import StatusWriter
from muster.policy.dependencies import DirectSource, FollowingSource
from muster.policy.metrics import PolicyMetrics
from muster.policy.names import PRUNE_FINALIZER
from muster.policy.reporter import TERMINATING, PolicyReporter
from muster.policy.standalone import HubTemplateError, HubTemplates, PolicyKey
from muster.policy.uninstall import Stage, UninstallState
from muster.runtime.cache import DynamicRESTMapper, FollowedSelections, Informer, MutationCache
from muster.runtime.client import KubeClient, KubeError
from muster.runtime.controller import ControllerContext, add_finalizer, has_finalizer, remove_finalizer

log = get_logger("muster.policy.configuration.controller")

WAITING_WORKERS: Final = 128
"""Additional workers for reconciles that wait for a hub, which must not delay evaluations of other policies."""
INITIAL_RETRY_DELAY: Final = 5.0
MAX_RETRY_DELAY: Final = 60.0
"""Maximum seconds between failing evaluations, with exponential backoff."""
CLEANUP_ERROR: Final = "Error cleaning up child objects"
STATUS_ATTEMPTS: Final = 3


@dataclass(frozen=True)
class ConfigurationPolicyOptions:
    namespaces: tuple[str, ...] = ("",)
    """Namespaces of the policies; an empty one means all."""
    evaluation_backoff: float = 5.0
    """Minimum seconds between two evaluations of a policy."""
    concurrency: int = 2
    """Number of policies that are evaluated concurrently."""
    denylist: frozenset[str] = frozenset()
    drop_terminating_namespaces: bool = False


@dataclass(frozen=True)
class TargetCluster:
    """The cluster that policies apply to: the one that contains them, except in hosted mode. The caller runs selections and
    mapper."""

    client: KubeClient
    selections: FollowedSelections
    mapper: DynamicRESTMapper


class ConfigurationPolicyController:
    def __init__(
        self,
        context: ControllerContext,
        target: TargetCluster,
        hub_templates: HubTemplates,
        resolver: TemplateResolver,
        uninstall: UninstallState,
        reporter: PolicyReporter,
        metrics: PolicyMetrics,
        options: ConfigurationPolicyOptions,
    ) -> None:
        """`context` is of the cluster that contains the policies."""
        self._context = context
        self._clock = context.clock
        self._target = target
        self._hub_templates = hub_templates
        self._resolver = resolver
        self._uninstall = uninstall
        self._metrics = metrics
        self._options = options
        self._pruner = pruner.Pruner(target.client, target.mapper)
        self._evaluated = EvaluationCache()
        self._rate = RateLimit(options.evaluation_backoff, clock=context.clock)
        self._slots = EvaluationSlots(options.concurrency, clock=context.clock)
        self._stage = Stage.EVALUATE
        self._selected = SelectedNamespaces(target.selections, drop_terminating=options.drop_terminating_namespaces)
        self._failures: dict[ObjectKey, int] = {}
        """Number of consecutive failed evaluations."""
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
            max_delay=MAX_RETRY_DELAY,
        )
        self._watch()

    async def run(self) -> None:
        await self._controller.run()

    # Watches

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
        """The policies, including this controller's own writes."""
        return self._policies.get(namespace) or self._policies[""]

    # Reconcile

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
            log.warning(
                "policy not evaluated: the Deployment of this controller does not exist", namespace=key.namespace, name=key.name
            )
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
            # No retry is needed: HubTemplates enqueues the policy when it can be resolved.
            document = policy.document()
            await self._status.report(policy, document, policy_failure(document, HUB_FAILURE, str(error), policy.status))
            return None
        policy = await self._manage_finalizer(policy)
        async with self._slots.take():
            return await self._evaluate(policy, resolution.policy, sensitive=resolution.sensitive)

    def _forget(self, key: ObjectKey) -> None:
        self._unfollow(key)
        self._hub_templates.forget(PolicyKey(KIND, key.namespace, key.name))
        self._rate.forget(key)
        self._failures.pop(key, None)
        self._metrics.forget(KIND, key.namespace, key.name)

    def _unfollow(self, key: ObjectKey) -> None:
        self._target.selections.forget(follower_of(key))
        self._selected.forget(key)

    async def _namespaces_changed(self, key: ObjectKey) -> bool:
        try:
            return await self._selected.changed(key)
        except KubeError:
            return False

    async def _release(self, policy: ConfigurationPolicy) -> None:
        """The controller is being uninstalled: remove the finalizer."""
        self._unfollow(_key(policy))
        await self._record_write(policy, remove_finalizer(self._context.client, policy, PRUNE_FINALIZER))

    async def _manage_finalizer(self, policy: ConfigurationPolicy) -> ConfigurationPolicy:
        change = add_finalizer if pruner.prunes(policy.spec) else remove_finalizer
        return await self._record_write(policy, change(self._context.client, policy, PRUNE_FINALIZER))

    async def _record_write(self, policy: ConfigurationPolicy, write: Awaitable[Object | None]) -> ConfigurationPolicy:
        """The policy after writing it."""
        answer = await write
        if answer is None:
            return policy
        return self._cache(policy.metadata.namespace).record_write(answer) or policy

    async def _clean_up(self, policy: ConfigurationPolicy) -> float | None:
        """The policy is being deleted: prune its objects first."""
        key = _key(policy)
        self._unfollow(key)
        if not has_finalizer(policy, PRUNE_FINALIZER):
            return None
        left = await self._pruner.prune(policy.spec, pruner.to_prune(policy.spec, policy.status.related_objects))
        if left:
            message = f"Failed to delete objects: {', '.join(map(pruner.described, left))}"
            await self._status.report(policy, policy.document(), _terminating(policy, message))
            return self._retry_delay(key, first=1.0)
        await self._record_write(policy, remove_finalizer(self._context.client, policy, PRUNE_FINALIZER))
        return None

    # Evaluation

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
        gone = pruner.to_prune(policy.spec, policy.status.related_objects, evaluation.related)
        # After an incomplete evaluation, related objects may be missing: nothing is pruned or dropped from the status then.
        left = gone if evaluation.failed else await self._pruner.prune(policy.spec, gone)
        evaluation = replace(evaluation, related=with_unpruned(evaluation.related, left))
        after = await self._status.report(policy, resolved, evaluation, watching=watching, sensitive=sensitive)
        interval = interval_of(policy.spec.evaluation_interval, after.status.compliant)
        await self._follow_namespaces(key, resolved, interval)
        return self._next_evaluation(key, evaluation, interval, watched=watching, retry=bool(left) and not evaluation.failed)

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
            encryption = await self._keys.get(policy)
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
            self._selected.forget(key)
            return
        try:
            await self._selected.track(key, resolved["spec"].get("namespaceSelector") or {})
        except KubeError as error:
            log.warning("namespaces not watched", kind=KIND, namespace=key.namespace, name=key.name, error=str(error))

    def _next_evaluation(
        self, key: ObjectKey, evaluation: Evaluation, interval: Interval, *, watched: bool, retry: bool
    ) -> float | None:
        """Drops watches that are no longer needed, and returns the seconds until the next evaluation without a change."""
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
            # The objects that were read are watched from now on, but were not before.
            0.0 if interval.watch and not watched else None,
        )
        return min((delay for delay in delays if delay is not None), default=None)

    def _retry_delay(self, key: ObjectKey, first: float = INITIAL_RETRY_DELAY) -> float:
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        return float(min(first * 2 ** min(failures - 1, 10), MAX_RETRY_DELAY))


def _key(policy: ConfigurationPolicy) -> ObjectKey:
    return ObjectKey(policy.metadata.namespace, policy.metadata.name)


def _terminating(policy: ConfigurationPolicy, message: str) -> Evaluation:
    condition = PolicyCondition(type="violation", status="True", reason=CLEANUP_ERROR, message=message)
    details = TemplateStatus(compliant=TERMINATING, conditions=(condition,))
    return Evaluation(TERMINATING, (details,), policy.status.related_objects, failed=True, for_policy=True)
