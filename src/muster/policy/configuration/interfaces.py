"""What evaluating a ConfigurationPolicy takes and gives: the controller and the dry run stand above it, everything pure below.

`evaluation.evaluate` takes a policy whose hub templates are resolved (a private copy), reads and writes the cluster, and
answers with what its status is to say. It writes nothing of the policy itself: status, events and finalizers are the controller's.

What is reported, in order: each of `batches` (all details at that moment, as they were before something was enforced), then
`details`. A report is due where details differ from those before it, the first from the policy's last status.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from muster.api.policy.v1 import RelatedObject, TemplateStatus
from muster.machinery.clock import SYSTEM, Clock
from muster.machinery.objects import GVR, Object
from muster.policy.configuration.evaluated import EvaluatedObjects
from muster.policy.resolver.interfaces import Encryption, ObjectSource, Resolution, ResolveOptions
from muster.runtime.client import FieldValidation


class TemplateResolver(Protocol):
    """What evaluation asks of `muster.policy.resolver.Resolver`."""

    async def resolve(self, document_or_text: Any, source: ObjectSource, options: ResolveOptions) -> Resolution: ...


class ObjectClient(Protocol):
    """The verbs of a `KubeClient` by which objects are set right."""

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
    """What `terminatingInclusion: Default` means."""
    sensitive: bool = False
    """Whether the hub's templates have read Secrets: diffs are censored then."""
    full_diffs: bool = False
    """Whether diffs are given in full length."""
    watching: bool = True
    """Whether `Cluster.source` follows what is read: what hinders is waited for then, instead of being tried again."""
    encryption: Encryption | None = None
    """For templates that decrypt; the controller reads the keys."""


@dataclass(frozen=True)
class Cluster:
    """The managed cluster of an evaluation: where objects are read, and who writes."""

    source: ObjectSource
    client: ObjectClient
    evaluated: EvaluatedObjects = field(default_factory=EvaluatedObjects)
    """What evaluations before have found, one for all policies of a controller."""
    clock: Clock = SYSTEM
    on_compared: Callable[[str, str, float], None] = lambda namespace, name, seconds: None
    """Told of every object that was compared, and set right if so, and how long that took."""


@dataclass(frozen=True)
class Evaluation:
    """What came of evaluating a policy once."""

    compliant: str
    """Compliant, NonCompliant, or empty while that is unknown."""
    details: tuple[TemplateStatus, ...]
    """Per object template, without transition times."""
    related: tuple[RelatedObject, ...]
    batches: tuple[tuple[TemplateStatus, ...], ...] = ()
    """What was so before something was enforced, in order: reported as events before the result is."""
    failed: bool = False
    """Whether a template or the cluster failed: nothing is pruned then."""
    for_policy: bool = False
    """Whether the one condition speaks for the policy as a whole, and not for a template (a PolicyInfo event tells it, too)."""
    invalid: bool = False
    """Whether nothing but a change of the policy can help: it is not tried again and nothing is followed."""
    errors: tuple[Exception, ...] = ()
    """What the cluster or a template failed with: the policy is tried again with backoff, or after `retry_after`."""
    retry_after: float | None = None
    """Seconds after which to evaluate again although nothing changes."""
    created: frozenset[str] = field(default_factory=frozenset)
    """UIDs of objects that this evaluation created."""
