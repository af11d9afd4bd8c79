"""The wildcards `*` and `?` of policies, and ARNs, which are matched part by part.

A wildcard in one of an ARN's first five parts never matches a colon; in the last part, which may contain colons and slashes, it
matches everything.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

ARN_PARTS: Final = 6


@lru_cache(maxsize=4096)
def _compiled(pattern: str, ignore_case: bool) -> re.Pattern[str]:
    parts = (".*" if one == "*" else "." if one == "?" else re.escape(one) for one in pattern)
    return re.compile("".join(parts), re.DOTALL | (re.IGNORECASE if ignore_case else 0))


def matches(pattern: str, text: str, *, ignore_case: bool = False) -> bool:
    return _compiled(pattern, ignore_case).fullmatch(text) is not None


def is_arn(text: str) -> bool:
    return text.startswith("arn:") and text.count(":") >= ARN_PARTS - 1


def arn_matches(pattern: str, arn: str) -> bool:
    wanted, given = pattern.split(":", ARN_PARTS - 1), arn.split(":", ARN_PARTS - 1)
    if len(wanted) != ARN_PARTS or len(given) != ARN_PARTS:
        return False
    return all(matches(one, other) for one, other in zip(wanted, given, strict=True))


def resource_matches(pattern: str, arn: str) -> bool:
    return pattern == "*" or arn_matches(pattern, arn)
