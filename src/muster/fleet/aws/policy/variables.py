"""Policy variables such as `${aws:PrincipalTag/team}` in resources and conditions, replaced by the request's values.

AWS does not treat a wildcard in a variable's value as one; here such a value makes the text match nothing, which is stricter.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

_VARIABLE: Final = re.compile(r"\$\{([^}]*)\}")
_DOLLAR: Final = "$"
UNSUPPORTED: Final = ("${*}", "${?}")
"""AWS' escapes for literal wildcards; a policy with one is refused here."""


def substituted(text: str, values: Mapping[str, Sequence[str]]) -> str | None:
    """None if a variable has no value, or one with a wildcard: then nothing matches."""
    if "${" not in text:
        return text
    missing = False

    def fill(found: re.Match[str]) -> str:
        nonlocal missing
        name, comma, default = found[1].partition(",")
        key = name.strip().lower()
        given = values.get(key, ())
        if len(given) == 1 and not any(one in given[0] for one in ("*", "?")):
            return given[0]
        if not given and comma:
            return default.strip().strip("'")
        missing = missing or found[1] != _DOLLAR
        return found[1]

    filled = _VARIABLE.sub(fill, text)
    return None if missing else filled
