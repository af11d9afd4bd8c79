"""What resolving a policy's hub templates gives, and how its failure is told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from muster.machinery.objects import Object


class PolicyKey(NamedTuple):
    """A policy of either kind; also who follows objects of the hub."""

    kind: str
    namespace: str
    name: str

    @classmethod
    def of(cls, policy: Object) -> PolicyKey:
        metadata = policy["metadata"]
        return cls(policy["kind"], metadata["namespace"], metadata["name"])

    @classmethod
    def parse(cls, text: str) -> PolicyKey:
        kind, namespace, name = text.split("/")
        return cls(kind, namespace, name)

    def __str__(self) -> str:
        return "/".join(self)


@dataclass(frozen=True)
class HubResolution:
    policy: Object
    """The policy with its hub templates resolved: a private copy where there were any, else the very policy that was given."""
    sensitive: bool
    """Whether Secrets of the hub were read, or may have been: what the policy says is not to be shown."""
    from_cache: bool
    """Whether this is the last resolved state, because the hub cannot be reached."""


class HubTemplateError(Exception):
    """Why the hub templates of a policy are not resolved. The text is for the policy's status: nothing of it is enforced meanwhile.

    Whoever wants to try again need not: `HubTemplates` says when there is reason to (see `on_change`).
    """
