"""Where resolving and YAML differ from go-template-utils and yaml.v3 on purpose: the one table, with a reason for each.

A difference is recognised by what was asked, what Go said and what we said, and by no more than it has to be. docs/templates.md
tells users the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from muster.policy.resolver.failures import WITHHELD

FAILED = "error: "
_EXECUTING = re.compile(r'executing "[^"]*" at <.*?>: (?=error calling |\S)', re.DOTALL)


@dataclass(frozen=True)
class AcceptedDifference:
    name: str
    reason: str
    explains: Callable[[str, str, str], bool]
    """Given the text that was asked about, Go's result and ours."""


def _both_fail(_text: str, go: str, ours: str) -> bool:
    return go.startswith(FAILED) and ours.startswith(FAILED)


def _fails_after_comment(text: str, go: str, ours: str) -> bool:
    return _both_fail(text, go, ours) and "#" in text and "- " in text and "cannot start any token" in go


def _prints_keys_of_any_type(text: str, go: str, ours: str) -> bool:
    start = "error: yaml: invalid map key: "
    return go.startswith(start) and ours.startswith(start) and sorted(go) == sorted(ours)


def _panics(_text: str, go: str, ours: str) -> bool:
    return re.search(r"panic: runtime error: hash of unhashable type", go) is not None and ours.startswith(FAILED)


YAML: tuple[AcceptedDifference, ...] = (
    AcceptedDifference(
        "the order of keys in an error text",
        "Go prints a map whose keys have several types in the order of the types' addresses.",
        _prints_keys_of_any_type,
    ),
    AcceptedDifference(
        "a mapping merged into one, or a sequence, as a key of a merged mapping",
        "yaml.v3 panics, which ends the process; ours says that the key is invalid.",
        _panics,
    ),
    AcceptedDifference(
        "which of two errors is reported for an item under a comment",
        "yaml.v3 forgets the first error when it looks for the item's comment, and reports what it meets when it scans on.",
        _fails_after_comment,
    ),
)


def _withholds(_text: str, go: str, ours: str) -> bool:
    shown, withheld, _ = ours.partition(WITHHELD)
    shown = shown.removesuffix("yaml: ")
    return bool(withheld) and (go.startswith(shown) or _EXECUTING.sub("", go).startswith(shown))


def _leaves_source_out(text: str, go: str, ours: str) -> bool:
    return "decrypt=True" in text and _EXECUTING.sub("", go) == ours


def _shortens(_text: str, go: str, ours: str) -> bool:
    start = "error: decryption of $ocm_encrypted:"
    value, _, reason = go.removeprefix(start).partition(" failed: ")
    shown, _, our_reason = ours.removeprefix(start).partition(" failed: ")
    return go.startswith(start) and value.startswith(shown.rstrip("…")) and reason.removeprefix(f"{value}: ") == our_reason


RESOLVER: tuple[AcceptedDifference, ...] = (
    *YAML,
    AcceptedDifference(
        "the reason of a failure once a Secret was read or something decrypted",
        "An error shows a function's arguments, so it may show the Secret; upstream puts it into status and events.",
        _withholds,
    ),
    AcceptedDifference(
        "the source of the part that failed, of a template in which something was decrypted",
        "The source may hold what was decrypted; the position is shown.",
        _leaves_source_out,
    ),
    AcceptedDifference(
        "how much is shown of what cannot be decrypted",
        "Upstream shows all of it, and twice where it is no base64; a Secret of a megabyte would fill status and events.",
        _shortens,
    ),
)


def accepted(differences: tuple[AcceptedDifference, ...], text: str, go: str, ours: str) -> str | None:
    """The name of the accepted difference that this is, if it is one."""
    return next((known.name for known in differences if known.explains(text, go, ours)), None)
