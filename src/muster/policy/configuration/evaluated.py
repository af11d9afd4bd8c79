"""What was found of an object the last time, so that it is not compared again as long as neither it nor the template changes.

Kept per policy, by the object's UID and the template, with the resourceVersion that was compared. A template that is resolved,
and a policy that changed, begin anew (`forget`). What an evaluation did not come to is forgotten at its end (`settle`): objects
come and go, and what hub templates give changes, for as long as a policy stays. Diffs and the like are in the policy's status and
are taken from there.
"""

from __future__ import annotations

from typing import NamedTuple

import orjson

from muster.machinery.objects import Object


class Verdict(NamedTuple):
    """How an object compared."""

    compliant: bool
    message: str = ""


_Known = dict[tuple[str, bytes], tuple[str, Verdict]]
"""By object and template: the version that was compared, and how."""


class EvaluatedObjects:
    def __init__(self) -> None:
        self._policies: dict[str, _Known] = {}
        self._met: dict[str, _Known] = {}
        """What the evaluation that is under way came to."""

    def __len__(self) -> int:
        return sum(map(len, self._policies.values()))

    def verdict(self, policy_uid: str, obj: Object, template: Object) -> Verdict | None:
        key = _key(obj, template)
        known = self._policies.get(policy_uid, {}).get(key)
        if known is None or not known[0] or known[0] != _version(obj):
            return None
        self._met.setdefault(policy_uid, {})[key] = known
        return known[1]

    def record(self, policy_uid: str, obj: Object, template: Object, verdict: Verdict) -> None:
        if policy_uid:
            key, known = _key(obj, template), (_version(obj), verdict)
            self._policies.setdefault(policy_uid, {})[key] = known
            self._met.setdefault(policy_uid, {})[key] = known

    def settle(self, policy_uid: str) -> None:
        """An evaluation of the policy is over."""
        met = self._met.pop(policy_uid, None)
        if met:
            self._policies[policy_uid] = met
        else:
            self._policies.pop(policy_uid, None)

    def forget(self, policy_uid: str) -> None:
        """The policy changed, is gone, or uses templates."""
        self._policies.pop(policy_uid, None)
        self._met.pop(policy_uid, None)


def _key(obj: Object, template: Object) -> tuple[str, bytes]:
    return obj["metadata"].get("uid") or "", orjson.dumps(template, option=orjson.OPT_SORT_KEYS)


def _version(obj: Object) -> str:
    return obj["metadata"].get("resourceVersion") or ""
