"""Builds the desired Subscription and OperatorGroup of a policy: resolves managed templates, validates, applies the package's
defaults and the operator's namespace, and checks for overlapping policies. Follows `buildResources` of config-policy-controller.

Templates of `versions`, `subscription` and `operatorGroup` are resolved separately and without a context. The first problem ends
the build and is reported as the condition `ValidPolicySpec`. What is known by then is returned nevertheless, because a missing
namespace, for example, does not prevent other checks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

import orjson

from muster.api.policy.v1beta1 import OperatorPolicy
from muster.machinery.objects import Object
from muster.policy.operators.desired import (
    InvalidSpec,
    desired_operator_group,
    desired_subscription,
    starting_csv,
)
from muster.policy.operators.kinds import (
    PACKAGE_MANIFESTS,
    PACKAGE_NAMESPACE,
    SUBSCRIPTIONS,
    name_of,
    namespace_of,
    subscription_label,
)
from muster.policy.operators.object_reader import ObjectReader
from muster.policy.operators.overlap import overlap_problem, overlapping
from muster.policy.operators.package_manifest import (
    DefaultsUnknown,
    missing_package,
    needs_defaults,
    with_defaults,
    with_fields_of,
)
from muster.policy.operators.policy import ResolvedPolicy, canonical_versions
from muster.policy.operators.resolved_policies import ResolvedPolicies
from muster.policy.resolver import ResolveError, ResolveOptions, Resolver, has_template
from muster.runtime.client import KubeClient, KubeError, NoKindMatch, NotFound
from muster.runtime.client.builtin import NAMESPACES

_VERSIONS: Final = "unable to create template resolver: "
"""Upstream's prefix of problems with versions."""


@dataclass(frozen=True)
class OtherPolicies:
    """The other policies."""

    policies: Callable[[], Iterable[OperatorPolicy]]
    resolved: ResolvedPolicies


@dataclass(frozen=True)
class BuiltResources:
    policy: ResolvedPolicy
    problem: str = ""
    subscription: Object | None = None
    operator_group: Object | None = None
    manifest: Object | None = None
    label: str = ""
    """Label of the Subscription; empty if it is not known, or its namespace is missing."""
    overlapping: tuple[str, ...] = ()
    unresolved: bool = False
    """Whether a template failed."""
    waits_for_package: bool = False
    """Whether nothing more can be reported before the package exists."""
    failure: KubeError | None = None
    """The cluster's error, if that is the problem."""


@dataclass(frozen=True)
class ResourceBuilder:
    policy: OperatorPolicy
    """The policy as stored in the cluster."""
    resolver: Resolver | None
    """None if templates are disabled."""
    reader: ObjectReader
    client: KubeClient
    other_policies: OtherPolicies
    denylist: frozenset[str]
    default_namespace: str
    known_namespace: str
    """Namespace in which the policy's Subscription was found last."""
    sensitive: bool
    """Whether hub templates have read Secrets."""

    async def build(self, policy: ResolvedPolicy) -> BuiltResources:
        """Raises KubeError if the cluster failed."""
        try:
            policy, subscription, sensitive = await self._subscription(policy)
        except _Unresolved as error:
            return BuiltResources(policy, str(error), unresolved=True, failure=error.failure)
        except InvalidSpec as error:
            return BuiltResources(policy, str(error))
        build = BuiltResources(policy)
        try:
            manifest = await self._manifest(name_of(subscription))
            subscription = await self._with_defaults(subscription, manifest)
        except KubeError as error:
            return replace(build, problem=str(error), failure=error)
        except DefaultsUnknown as error:
            return replace(build, problem=str(error), waits_for_package=error.may_come)
        namespace = namespace_of(subscription)
        if not namespace:
            return replace(build, problem="namespace is required in spec.subscription")
        build = replace(build, subscription=subscription)
        try:
            group = await self._operator_group(bytes(policy.spec.operator_group), namespace, sensitive)
        except _Unresolved as error:
            return replace(build, problem=str(error), unresolved=True, failure=error.failure)
        except InvalidSpec as error:
            return replace(build, problem=str(error))
        label = subscription_label(name_of(subscription), namespace)
        build = self._check_overlap(replace(build, operator_group=group, manifest=manifest, label=label))
        if not build.problem and policy.is_musthave and await self.reader.object(NAMESPACES, "", namespace) is None:
            return replace(build, problem=f"the operator namespace ('{namespace}') does not exist", label="")
        return build

    def _check_overlap(self, build: BuiltResources) -> BuiltResources:
        """If several enforced policies manage the same operator, none of them does."""
        self.other_policies.resolved.record(self.policy, build.label, build.policy)
        if not build.policy.is_enforced:
            return build
        sharing = self.other_policies.resolved.sharing(build.label, self.other_policies.policies())
        shared = overlapping(self.policy, sharing)
        if not shared:
            return build
        return BuiltResources(build.policy, overlap_problem(shared), label=build.label, overlapping=shared)

    async def _subscription(self, policy: ResolvedPolicy) -> tuple[ResolvedPolicy, Object, bool]:
        spec = policy.spec
        versions, secret = await self._resolve(list(spec.versions), f"{_VERSIONS}could not resolve the version template")
        if not isinstance(versions, list) or not all(isinstance(version, str) for version in versions):
            raise InvalidSpec(f"{_VERSIONS}spec.versions must be a list of strings after template resolution")
        document, secret_too = await self._resolve(orjson.loads(bytes(spec.subscription) or b"{}"), "could not build subscription")
        resolved = replace(policy, versions=canonical_versions(versions), starting_csv=starting_csv(document))
        sensitive = self.sensitive or secret or secret_too
        return resolved, desired_subscription(resolved, document, sensitive=sensitive), sensitive

    async def _operator_group(self, raw: bytes, namespace: str, sensitive: bool) -> Object:
        if not raw:
            return desired_operator_group(None, namespace)
        document, secret = await self._resolve(orjson.loads(raw), "could not build operator group")
        return desired_operator_group(document, namespace, sensitive=sensitive or secret)

    async def _resolve(self, document: Any, failing: str) -> tuple[Any, bool]:
        """The document, and whether it contains data of a Secret."""
        if self.resolver is None or not has_template(orjson.dumps(document).decode()):
            return document, False
        try:
            options = ResolveOptions(denylist=self.denylist, sensitive=self.sensitive)
            resolution = await self.resolver.resolve(document, self.reader.source, options)
        except ResolveError as error:
            raise _Unresolved(f"{failing}: {error}", error.__cause__) from error
        return resolution.value, resolution.sensitive

    async def _manifest(self, package: str) -> Object | None:
        """PackageManifests are computed on request and cannot be watched."""
        try:
            return await self.client.get(PACKAGE_MANIFESTS, package, PACKAGE_NAMESPACE)
        except NotFound:
            return None

    async def _with_defaults(self, subscription: Object, manifest: Object | None) -> Object:
        if needs_defaults(subscription):
            if manifest is not None:
                subscription = with_defaults(subscription, manifest, self.known_namespace)
            else:
                subscription = await self._as_existing(subscription)
        namespace = namespace_of(subscription) or self.default_namespace
        return {**subscription, "metadata": {**subscription["metadata"], "namespace": namespace}}

    async def _as_existing(self, subscription: Object) -> Object:
        namespace = namespace_of(subscription) or self.known_namespace
        try:
            existing = await self.reader.object(SUBSCRIPTIONS, namespace, name_of(subscription)) if namespace else None
        except NoKindMatch:
            existing = None
        if existing is None:
            raise missing_package()
        placed = {**subscription, "metadata": {**subscription["metadata"], "namespace": namespace}}
        return with_fields_of(placed, existing)


class _Unresolved(Exception):
    def __init__(self, problem: str, cause: BaseException | None) -> None:
        super().__init__(problem)
        self.failure = cause if isinstance(cause, KubeError) else None


def templates_disabled(annotation: str) -> bool:
    """As Go's ParseBool; invalid values are false."""
    return annotation in ("1", "t", "T", "TRUE", "true", "True")
