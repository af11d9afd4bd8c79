"""Options of the work agent; every default is upstream's, except for the options that are marked as ours."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from muster.work.agent.executor import ExecutorOptions

NEVER: Final = 100 * 365 * 24 * 3600.0
"""A grace period as long as this means that nothing is ever evicted."""


@dataclass(frozen=True)
class WorkAgentOptions:
    cluster_name: str
    """The managed cluster's name: its namespace on the hub has the works."""
    agent_id: str = ""
    """Of the records that are ours; empty: the hub's hash."""
    hub_url: str = ""
    """The hub's address as the kubeconfig has it, letter by letter; empty: the client's."""
    eviction_grace: float = 3600.0
    """Seconds for which objects of works stay that are no longer on the hub."""
    poll_seconds: float = 10.0
    """How often objects are read that cannot be watched."""
    workers: int = 16
    """Works at once."""
    writers: int = 8
    """Manifests of a work at once."""
    raw_json: bool = False
    """Feature gate RawFeedbackJsonString."""
    max_json_raw_length: int = 1024
    executor: ExecutorOptions = field(default_factory=ExecutorOptions)
