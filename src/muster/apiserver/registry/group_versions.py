"""A served group version as discovery shows it, and the order of versions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class GroupVersion:
    group: str
    version: str
    resources: list[dict[str, Any]] = field(default_factory=list)
    """Aggregated discovery rows."""
    stale: bool = False
    priorities: tuple[int, int] = (1000, 100)
    """(groupPriorityMinimum, versionPriority) of the APIService; built-in groups have a fixed order."""
    qualifies_kinds: bool = False
    """Whether kinds in aggregated discovery always have group and version, as those of custom resources do."""


def version_priority(version: str) -> tuple[int, int, int, str]:
    """The sort key of Kubernetes' version order: GA, beta, alpha, higher numbers first, other names last
    (`version.CompareKubeAwareVersionStrings`)."""
    digits, _, rest = version.removeprefix("v").partition("beta")
    stage = 0
    if rest or "beta" in version:
        stage = 1
    elif "alpha" in version:
        digits, _, rest = version.removeprefix("v").partition("alpha")
        stage = 2
    if not version.startswith("v") or not digits.isdigit() or (rest and not rest.isdigit()):
        return 3, 0, 0, version
    return stage, -int(digits), -int(rest or 0), ""
