"""Resource requirements of containers, by identifiers `<workloads>:<workload>:<container>`.

A part that is `*` matches all. Any other part matches the same text, and as upstream also what it matches as a whole as an RE2
regular expression; RE2 takes linear time for any pattern. An invalid pattern matches only the same text. Of several matching
entries the last is used, as a whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import re2

from muster.addon.agent_addon import AddonError

_ALL: Final = "*"
_PATTERN_MEMORY: Final = 1 << 20


@dataclass(frozen=True)
class ContainerRequirements:
    parts: tuple[str, str, str]
    resources: Mapping[str, Any]


def read_requirements(entries: Sequence[Mapping[str, Any]]) -> tuple[ContainerRequirements, ...]:
    """Of an AddOnDeploymentConfig's `resourceRequirements`. Raises AddonError."""
    return tuple(ContainerRequirements(_parts(entry.get("containerID")), entry.get("resources") or {}) for entry in entries)


def resources_for(requirements: Sequence[ContainerRequirements], container: tuple[str, str, str]) -> Mapping[str, Any] | None:
    """The resources of a container (kind in plural, workload, name); None without a matching entry."""
    for entry in reversed(requirements):
        if all(map(_matches, entry.parts, container)):
            return entry.resources
    return None


def _parts(identifier: object) -> tuple[str, str, str]:
    parts = str(identifier or "").split(":")
    if len(parts) != 3:
        raise AddonError(
            f"AddOnDeploymentConfig: resourceRequirements: containerID {identifier!r}: expected <workloads>:<workload>:<container>"
        )
    return (parts[0], parts[1], parts[2])


def _matches(part: str, name: str) -> bool:
    if part in (_ALL, name):
        return True
    pattern = _compiled(part)
    return pattern is not None and pattern.fullmatch(name) is not None


@lru_cache(maxsize=256)
def _compiled(part: str) -> Any:
    settings = re2.Options()
    settings.log_errors = False
    settings.max_mem = _PATTERN_MEMORY
    try:
        return re2.compile(part, settings)
    except (re2.error, UnicodeError):
        return None
