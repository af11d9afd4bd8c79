"""What was found of an object the last time, so that it is not compared again as long as neither it nor the template changes.

Kept per policy, by the object's UID and the template, with the resourceVersion that was compared. A template that is resolved,
and a policy that changed, begin anew (`forget`). Diffs and the like are in the policy's status and are taken from there.
"""

from __future__ import annotations

from typing import NamedTuple

import orjson

from muster.machinery.objects import Object


class Verdict(NamedTuple):
    """How an object compared."""

    compliant: bool
    message: str = ""


class EvaluatedObjects:
    def __init__(self) -> None:
        self._policies: dict[str, dict[tuple[str, bytes], tuple[str, Verdict]]] = {}

    def verdict(self, policy_uid: str, obj: Object, template: Object) -> Verdict | None:
        version, verdict = self._policies.get(policy_uid, {}).get(_key(obj, template), ("", Verdict(False)))
        return verdict if version and version == _version(obj) else None

    def record(self, policy_uid: str, obj: Object, template: Object, verdict: Verdict) -> None:
        if policy_uid:
            self._policies.setdefault(policy_uid, {})[_key(obj, template)] = _version(obj), verdict

    def forget(self, policy_uid: str) -> None:
        """The policy changed, is gone, or uses templates."""
        self._policies.pop(policy_uid, None)


def _key(obj: Object, template: Object) -> tuple[str, bytes]:
    return obj["metadata"].get("uid") or "", orjson.dumps(template, option=orjson.OPT_SORT_KEYS)


def _version(obj: Object) -> str:
    return obj["metadata"].get("resourceVersion") or ""
