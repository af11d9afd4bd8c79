"""The findings of a diagnosis, each with its remedy, and the state that its steps share."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from muster.api import is_true
from muster.api.cluster.v1 import AVAILABLE, ManagedCluster
from muster.aws.process_env import ProcessEnv
from muster.machinery.clock import SYSTEM, Clock
from muster.runtime.client import KubeClient

if TYPE_CHECKING:
    from muster.administration.aws.view import HubOnAws

OK: Final = "ok"
NOTE: Final = "note"
PROBLEM: Final = "problem"


@dataclass(frozen=True)
class Finding:
    verdict: str
    subject: str
    text: str
    remedy: str = ""


@dataclass
class Diagnosis:
    """The state of one diagnosis. `cluster` is set once it is found."""

    name: str
    hub: KubeClient
    managed: KubeClient | None = None
    clock: Clock = SYSTEM
    cluster: ManagedCluster | None = field(default=None)
    aws: HubOnAws | None = None
    """Set if the hub accepts clusters that register with AWS identities."""
    process_env: ProcessEnv = field(default_factory=ProcessEnv)
    """The caller's environment."""

    @property
    def available(self) -> bool:
        return self.cluster is not None and is_true(self.cluster.status.conditions, AVAILABLE)


Findings = AsyncIterator[Finding]
