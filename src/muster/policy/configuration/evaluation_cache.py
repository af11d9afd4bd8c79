"""Caches how objects compared, so that they are not compared again while neither they nor the template change.

Results are kept per policy, by uid of the object and template, with the resourceVersion that was compared. A policy that changed
or uses templates starts again (`forget`). Results that an evaluation did not use are dropped at its end (`finish`), because
objects and the values of hub templates change during the lifetime of a policy. Diffs are taken from the policy's status.
"""

from __future__ import annotations

from typing import NamedTuple

import orjson

from muster.machinery.objects import Object


class CompareResult(NamedTuple):
    """How an object compared with a template."""

    compliant: bool
    message: str = ""


_Results = dict[tuple[str, bytes], tuple[str, CompareResult]]
"""By object and template: the resourceVersion that was compared, and the result."""


class EvaluationCache:
    def __init__(self) -> None:
        self._policies: dict[str, _Results] = {}
        self._current: dict[str, _Results] = {}
        """Results used by the current evaluation."""

    def __len__(self) -> int:
        return sum(map(len, self._policies.values()))

    def get(self, policy_uid: str, obj: Object, template: Object) -> CompareResult | None:
        key = _key(obj, template)
        known = self._policies.get(policy_uid, {}).get(key)
        if known is None or not known[0] or known[0] != _version(obj):
            return None
        self._current.setdefault(policy_uid, {})[key] = known
        return known[1]

    def record(self, policy_uid: str, obj: Object, template: Object, result: CompareResult) -> None:
        if policy_uid:
            key, known = _key(obj, template), (_version(obj), result)
            self._policies.setdefault(policy_uid, {})[key] = known
            self._current.setdefault(policy_uid, {})[key] = known

    def finish(self, policy_uid: str) -> None:
        """The evaluation of the policy has ended."""
        current = self._current.pop(policy_uid, None)
        if current:
            self._policies[policy_uid] = current
        else:
            self._policies.pop(policy_uid, None)

    def forget(self, policy_uid: str) -> None:
        """The policy was changed or deleted, or uses templates."""
        self._policies.pop(policy_uid, None)
        self._current.pop(policy_uid, None)


def _key(obj: Object, template: Object) -> tuple[str, bytes]:
    return obj["metadata"].get("uid") or "", orjson.dumps(template, option=orjson.OPT_SORT_KEYS)


def _version(obj: Object) -> str:
    return obj["metadata"].get("resourceVersion") or ""
