"""A served group and version as discovery shows it, and the order of versions."""

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
    """Of group and version, as APIServices give them; built-in groups have a fixed order."""
    qualifies_kinds: bool = False
    """Whether aggregated rows name the group and version of a kind even where they are their own: custom resources do."""


def version_priority(version: str) -> tuple[int, int, int, str]:
    """Kubernetes' version order, best first: GA before beta before alpha, higher numbers first, strange names last."""
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
