"""The result of resolving a policy's hub templates, and its error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from muster.machinery.objects import Object


class PolicyKey(NamedTuple):
    """A policy of either kind; also the name of a follower on the hub."""

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
    """The policy with its hub templates resolved: a private copy if there were any, else the given policy itself."""
    sensitive: bool
    """Whether Secrets of the hub were read, or may have been: the policy's content must not be shown."""
    from_cache: bool
    """Whether this is the last resolved state, because the hub cannot be reached."""


class HubTemplateError(Exception):
    """Why the hub templates of a policy are not resolved. The message is for the policy's status: nothing is enforced meanwhile.

    The caller need not retry: `HubTemplates.on_change` reports when there is a reason to.
    """
