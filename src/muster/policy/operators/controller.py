"""The controller of OperatorPolicies: watches them and their dependencies, evaluates, and reports.

A policy is evaluated when its spec, a relevant annotation, or a reset status changes; when an object changes that its last
evaluation read, on the managed cluster or (hub templates) on the hub; when a policy with the same Subscription changes; and when
a missing kind (such as OLM's) is installed. There is no polling, except for what cannot be watched. Hub templates are resolved
first, into a copy that is evaluated; only the policy's status is written, and only if it has changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from muster.api.policy.v1beta1 import OperatorPolicy
from muster.api.resource import MalformedObject
from muster.machinery.confinement import host_name
from muster.machinery.objects import ObjectKey
from muster.policy.dependencies import FollowingSource
from muster.policy.metrics import PolicyMetrics
from muster.policy.names import DISABLE_TEMPLATES_ANNOTATION, ENCRYPTION_IV_ANNOTATION
from muster.policy.operators import conditions
from muster.policy.operators.evaluation import Evaluation
from muster.policy.operators.kinds import SUBSCRIPTIONS
from muster.policy.operators.object_reader import ObjectReader
from muster.policy.operators.overlap import key_of, parse_policies
from muster.policy.operators.resolved_policies import ResolvedPolicies, unresolved_policy
from muster.policy.operators.resource_builder import OtherPolicies, ResourceBuilder, templates_disabled
from muster.policy.operators.status import StatusDraft
from muster.policy.operators.steps import Report
from muster.policy.reporter import HISTORY_LENGTH, PolicyReporter
from muster.policy.resolver import Resolver
from muster.policy.standalone import HubTemplateError, HubTemplates, PolicyKey
from muster.runtime.cache import DynamicRESTMapper, FollowedSelections, MutationCache
from muster.runtime.client import Conflict, KubeClient, RESTMapper, patch_object
from muster.runtime.controller import ControllerContext

KIND: Final = OperatorPolicy.resource.kind
_ANNOTATIONS: Final = (DISABLE_TEMPLATES_ANNOTATION, ENCRYPTION_IV_ANNOTATION)


@dataclass(frozen=True)
class OperatorPolicyOptions:
    namespaces: tuple[str, ...] = ("",)
    """Namespaces of the policies; an empty one means all."""
    default_namespace: str = ""
    """Namespace of operators if neither policy nor package sets one."""
    denylist: frozenset[str] = frozenset()
    """Template functions that fail when called."""
    history_length: int = HISTORY_LENGTH


class OperatorPolicyController:
    def __init__(
        self,
        context: ControllerContext,
        hub_templates: HubTemplates,
        resolver: Resolver,
        selections: FollowedSelections,
        mapper: RESTMapper,
        target: KubeClient,
        options: OperatorPolicyOptions,
        metrics: PolicyMetrics,
    ) -> None:
        self._context = context
        self._client = context.client
        self._clock = context.clock
        self._hub_templates = hub_templates
        self._resolver = resolver
        self._selections = selections
        self._mapper = mapper
        self._target = target
        self._options = options
        self._metrics = metrics
        self._reporter = PolicyReporter(context.client, context.events, host_name(), clock=context.clock)
        self._resolved = ResolvedPolicies()
        self._other_policies = OtherPolicies(self._policies, self._resolved)
        self._absent_groups: dict[ObjectKey, frozenset[str]] = {}
        """API groups of kinds that policies need but the cluster does not serve."""
        self._controller = context.controller("operator-policy-controller", self._reconcile)
        self._caches: Mapping[str, MutationCache[OperatorPolicy]] = {
            namespace: self._watch(namespace) for namespace in options.namespaces
        }
        selections.on_change(self._on_dependency_change)
        hub_templates.on_change(self._on_hub_change)
        if isinstance(mapper, DynamicRESTMapper):
            mapper.on_change(self._on_kinds_change)

    def _watch(self, namespace: str) -> MutationCache[OperatorPolicy]:
        informer = self._context.informers.of(OperatorPolicy, namespace)
        informer.on_change(self._on_policy_change)
        self._controller.depend(informer)
        return MutationCache(informer, clock=self._clock)

    async def run(self) -> None:
        await self._controller.run()

    # Watches

    def _on_policy_change(self, old: OperatorPolicy | None, new: OperatorPolicy | None) -> None:
        policy = new or old
        assert policy is not None, "a change has an object"
        if new is None:
            self._cache(policy.metadata.namespace).confirm_delete(key_of(policy), policy.metadata.uid)
        if old is None or new is None or _is_to_be_evaluated(old, new):
            self._controller.enqueue(key_of(policy))
        sharing = {key for side in (old, new) if side is not None for key in parse_policies(side.status.overlapping_policies)}
        for key in sharing - {key_of(policy)}:
            self._controller.enqueue(key)

    def _on_dependency_change(self, follower: str) -> None:
        kind, _, rest = follower.partition("/")
        if kind == KIND:
            self._controller.enqueue(ObjectKey(*rest.split("/", 1)))

    def _on_hub_change(self, policy: PolicyKey) -> None:
        if policy.kind == KIND:
            self._controller.enqueue(ObjectKey(policy.namespace, policy.name))

    def _on_kinds_change(self, group: str) -> None:
        for key, absent in self._absent_groups.items():
            if group in absent:
                self._controller.enqueue(key)

    # Reconcile

    async def _reconcile(self, key: ObjectKey) -> float | None:
        policy = self._policy(key)
        if policy is None or policy.spec is None:
            self._forget(key)
            return None
        draft = StatusDraft(policy.status, policy.metadata.generation, policy.spec)
        try:
            hub = await self._hub_templates.resolve(policy.document())
            spec = OperatorPolicy.decode(hub.policy).spec or policy.spec
        except (HubTemplateError, MalformedObject) as error:
            draft.put(Report(conditions.valid(str(error))))
            await self._report(policy, draft)
            return None
        draft.spec = spec
        source = FollowingSource(self._selections, self._mapper, _follower(key))
        evaluation = self._evaluation(policy, draft, ObjectReader(source), sensitive=hub.sensitive)
        try:
            await evaluation.run(unresolved_policy(key, spec))
        except Conflict:
            source.keep()
            raise
        if evaluation.failed:
            source.keep()
        else:
            source.commit()
        self._absent_groups[key] = source.absent_groups
        await self._report(policy, draft)
        if evaluation.failure is not None:
            raise evaluation.failure
        return evaluation.retry_after

    def _evaluation(self, policy: OperatorPolicy, draft: StatusDraft, reader: ObjectReader, *, sensitive: bool) -> Evaluation:
        disabled = templates_disabled(policy.metadata.annotations.get(DISABLE_TEMPLATES_ANNOTATION, ""))
        subscriptions = draft.related_of(SUBSCRIPTIONS.kind)
        builder = ResourceBuilder(
            policy,
            None if disabled else self._resolver,
            reader,
            self._target,
            self._other_policies,
            self._options.denylist,
            self._options.default_namespace,
            subscriptions[0].object.metadata.namespace if len(subscriptions) == 1 else "",
            sensitive,
        )
        return Evaluation(builder, reader, self._target, self._other_policies, draft, self._clock.now)

    async def _report(self, policy: OperatorPolicy, draft: StatusDraft) -> None:
        """Report to the owner first: until the status is written, it is reported again."""
        status, messages = draft.finished(self._clock.now(), self._options.history_length)
        for message in messages:
            await self._reporter.report_compliance(policy.document(), message.partition(";")[0], message)
        answer = await patch_object(self._client, policy, msgspec.structs.replace(policy, status=status), status=True)
        if answer is not None:
            self._cache(policy.metadata.namespace).record_write(answer)
        metadata = policy.metadata
        self._metrics.set_compliance(KIND, metadata.namespace, metadata.name, draft.spec.severity, status.compliant)

    def _forget(self, key: ObjectKey) -> None:
        self._selections.forget(_follower(key))
        self._hub_templates.forget(PolicyKey(KIND, key.namespace, key.name))
        self._resolved.forget(key)
        self._absent_groups.pop(key, None)
        self._metrics.forget(KIND, key.namespace, key.name)

    # Policies

    def _cache(self, namespace: str) -> MutationCache[OperatorPolicy]:
        return self._caches.get(namespace) or self._caches[""]

    def _policy(self, key: ObjectKey) -> OperatorPolicy | None:
        """The key may be in a namespace that this controller does not watch."""
        if key.namespace not in self._caches and "" not in self._caches:
            return None
        return self._cache(key.namespace).get(key)

    def _policies(self) -> Iterable[OperatorPolicy]:
        for cache in self._caches.values():
            for snapshot in cache.snapshots():
                found = cache.get(snapshot.key)
                if found is not None:
                    yield found


def _follower(key: ObjectKey) -> str:
    return f"{KIND}/{key.namespace}/{key.name}"


def _is_to_be_evaluated(old: OperatorPolicy, new: OperatorPolicy) -> bool:
    before, after = old.metadata, new.metadata
    return (
        before.uid != after.uid
        or before.generation != after.generation
        or bool(after.deletion_timestamp)
        or any(before.annotations.get(one) != after.annotations.get(one) for one in _ANNOTATIONS)
        or (bool(old.status.compliant) and not new.status.compliant)
    )


def operator_policy_controller(
    context: ControllerContext,
    hub_templates: HubTemplates,
    resolver: Resolver,
    selections: FollowedSelections,
    mapper: RESTMapper,
    target: KubeClient,
    options: OperatorPolicyOptions,
    metrics: PolicyMetrics,
) -> OperatorPolicyController:
    """`context` is of the cluster that contains the policies; `resolver` (of managed templates), `selections`, `mapper` and
    `target` are of the managed cluster. The caller runs selections, mapper, hub templates and the context."""
    return OperatorPolicyController(context, hub_templates, resolver, selections, mapper, target, options, metrics)
