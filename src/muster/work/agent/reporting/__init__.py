"""The status of a work: what became of its manifests, and what is reported back of the objects they became.

All of it is calculation: the pass over a work brings outcomes, and gets the status that the hub is to have.
"""

from __future__ import annotations

from muster.work.agent.reporting.manifest_result import ManifestFailure, ManifestResult, failed, refused, unfit
from muster.work.agent.reporting.rules import completes
from muster.work.agent.reporting.status import Reporter, deleting

__all__ = ["ManifestFailure", "ManifestResult", "Reporter", "completes", "deleting", "failed", "refused", "unfit"]
