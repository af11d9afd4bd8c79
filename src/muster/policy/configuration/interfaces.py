"""The interfaces of an evaluation of a ConfigurationPolicy, for the controller and the dry run.

`evaluation.evaluate` takes a policy whose hub templates are resolved (a private copy), reads and writes the cluster, and returns
the new status. It writes nothing to the policy itself: status, events and finalizers are the controller's.

Each of `batches` is reported in order (all details at that moment, before something was enforced), then `details`. They are only
reported if the details differ from the previous ones, at first from the policy's last status.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from muster.api.policy.v1 import RelatedObject, TemplateStatus
from muster.machinery.clock import SYSTEM, Clock
from muster.machinery.objects import GVR, Object
from muster.policy.configuration.evaluation_cache import EvaluationCache
from muster.policy.resolver.interfaces import Encryption, ObjectSource, Resolution, ResolveOptions
from muster.runtime.client import FieldValidation


class TemplateResolver(Protocol):
    """The part of `muster.policy.resolver.Resolver` that an evaluation needs."""

    async def resolve(self, document_or_text: Any, source: ObjectSource, options: ResolveOptions) -> Resolution: ...


class ObjectClient(Protocol):
    """The methods of a `KubeClient` for remediation."""

    async def get(self, resource: GVR, name: str, namespace: str = "") -> Object: ...

    async def create(
        self, resource: GVR, obj: Object, namespace: str = "", *, field_validation: FieldValidation = ""
    ) -> Object: ...

    async def update(
        self, resource: GVR, obj: Object, *, dry_run: bool = False, field_validation: FieldValidation = ""
    ) -> Object: ...

    async def delete(self, resource: GVR, name: str, namespace: str = "") -> Object: ...


@dataclass(frozen=True)
class EvaluationOptions:
    denylist: frozenset[str] = frozenset()
    drop_terminating_namespaces: bool = False
    """The meaning of `terminatingInclusion: Default`."""
    sensitive: bool = False
    """Whether hub templates have read Secrets: diffs are redacted then."""
    full_diffs: bool = False
    """Whether diffs are not truncated."""
    watching: bool = True
    """Whether `Cluster.source` watches what is read: a missing namespace is watched then, instead of retrying."""
    encryption: Encryption | None = None
    """For templates that decrypt; the controller reads the keys."""


@dataclass(frozen=True)
class Cluster:
    """The managed cluster of an evaluation: the source of objects, and the client for writes."""

    source: ObjectSource
    client: ObjectClient
    evaluated: EvaluationCache = field(default_factory=EvaluationCache)
    """Results of previous evaluations, shared by all policies of a controller."""
    clock: Clock = SYSTEM
    on_compared: Callable[[str, str, float], None] = lambda namespace, name, seconds: None
    """Called for every compared (and possibly remediated) object, with the duration."""


@dataclass(frozen=True)
class Evaluation:
    """The result of one evaluation of a policy."""

    compliant: str
    """Compliant, NonCompliant, or empty if unknown."""
    details: tuple[TemplateStatus, ...]
    """Per object template, without transition times."""
    related: tuple[RelatedObject, ...]
    batches: tuple[tuple[TemplateStatus, ...], ...] = ()
    """The state before something was enforced, in order: reported as events before the result."""
    failed: bool = False
    """Whether a template or the cluster failed: nothing is pruned then."""
    for_policy: bool = False
    """Whether the one condition is about the policy as a whole, not about a template (it is also reported as a PolicyInfo
    event)."""
    invalid: bool = False
    """Whether only a change of the policy can help: it is not retried and nothing is watched."""
    errors: tuple[Exception, ...] = ()
    """Errors of the cluster or a template: the policy is retried with backoff, or after `retry_after`."""
    retry_after: float | None = None
    """Seconds until the next evaluation without a change."""
    created: frozenset[str] = field(default_factory=frozenset)
    """UIDs of objects that this evaluation has created."""
