"""Parameters of a call, validated with the constraints that AWS documents; errors name the parameter.

Error messages never contain values: one of them may be a credential.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from muster.fleet.aws.errors import AwsRefusal, invalid

NAME: Final = re.compile(r"[A-Za-z0-9_+=,.@-]+")
MOST_TAGS: Final = 50
_TAG: Final = re.compile(r"[\w\s.:/=+@-]*")


class Parameters:
    def __init__(self, values: Mapping[str, Any], refusal: Callable[[str], AwsRefusal] = invalid) -> None:
        self._values = values
        self._refusal = refusal

    def __contains__(self, name: str) -> bool:
        return self._values.get(name) not in (None, "")

    def value(self, name: str) -> Any:
        return self._values.get(name)

    def text(
        self,
        name: str,
        *,
        pattern: re.Pattern[str] | None = None,
        shortest: int = 1,
        longest: int = 2048,
        default: str | None = None,
    ) -> str:
        given = self._values.get(name)
        if given is None:
            if default is None:
                raise self.broken(name, "Member must not be null")
            return default
        if not isinstance(given, str):
            raise self.broken(name, "Member must be a string")
        if not shortest <= len(given) <= longest:
            raise self.broken(name, f"Member must have length between {shortest} and {longest}")
        if pattern is not None and not pattern.fullmatch(given):
            raise self.broken(name, f"Member must satisfy regular expression pattern: {pattern.pattern}")
        return given

    def number(self, name: str, low: int, high: int, default: int) -> int:
        given = self._values.get(name)
        if given is None:
            return default
        if isinstance(given, bool) or not re.fullmatch(r"[0-9]{1,9}", str(given)):
            raise self.broken(name, "Member must be a number")
        if not low <= int(given) <= high:
            raise self.broken(name, f"Member must have value between {low} and {high}")
        return int(given)

    def texts(self, name: str, *, most: int = 100, longest: int = 255) -> tuple[str, ...]:
        given = self._values.get(name)
        if given in (None, ""):
            return ()
        if not isinstance(given, Sequence) or isinstance(given, str) or not all(isinstance(one, str) for one in given):
            raise self.broken(name, "Member must be a list of strings")
        if len(given) > most or any(len(one) > longest for one in given):
            raise self.broken(name, f"Member must have at most {most} values of length up to {longest}")
        return tuple(given)

    def pairs(self, name: str) -> dict[str, str]:
        """Tags in IAM's format: a list of Key and Value."""
        given = self._values.get(name)
        if given in (None, ""):
            return {}
        if not isinstance(given, list) or not all(isinstance(one, dict) and "Key" in one and "Value" in one for one in given):
            raise self.broken(name, "Member must be a list of tags with Key and Value")
        folded = [str(one["Key"]).lower() for one in given]
        if len(set(folded)) != len(folded):
            raise AwsRefusal("InvalidInput", "Duplicate tag keys found. Please note that Tag keys are case insensitive.")
        return self._checked(name, {one["Key"]: one["Value"] for one in given})

    def mapping(self, name: str) -> dict[str, str]:
        """Tags in EKS' format: a mapping."""
        given = self._values.get(name)
        if given is None:
            return {}
        if not isinstance(given, dict):
            raise self.broken(name, "Member must be a map of strings")
        return self._checked(name, given)

    def _checked(self, name: str, tags: dict[str, Any]) -> dict[str, str]:
        if len(tags) > MOST_TAGS:
            raise self.broken(name, f"Member must have length less than or equal to {MOST_TAGS}")
        for key, value in tags.items():
            if not isinstance(value, str) or not 1 <= len(key) <= 128 or len(value) > 256:
                raise self.broken(name, "a tag's key must have 1 to 128 characters, its value up to 256")
            if not _TAG.fullmatch(key) or not _TAG.fullmatch(value):
                raise self.broken(name, f"tags must satisfy regular expression pattern: {_TAG.pattern}")
            if key.lower().startswith("aws:"):
                raise self.broken(name, "tag keys beginning with aws: are reserved")
        return tags

    def refuse(self, *names: str) -> None:
        """Refuse parameters that AWS has and this server does not support, instead of ignoring them."""
        for name in names:
            if name in self:
                raise self._refusal(f"the local AWS does not know the parameter {name} here")

    def broken(self, name: str, constraint: str) -> AwsRefusal:
        shown = name[:1].lower() + name[1:]
        return self._refusal(f"1 validation error detected: Value at '{shown}' failed to satisfy constraint: {constraint}")
