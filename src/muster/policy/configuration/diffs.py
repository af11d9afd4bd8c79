"""The difference to an object as a unified diff of its YAML, for the policy's status.

A diff is redacted if the object's kind contains secrets, or if templates have read some, unless the template sets `recordDiff`
explicitly.
"""

from __future__ import annotations

import difflib
from typing import Final

from muster.kube.yamldump import dump
from muster.machinery.objects import Object

LOG: Final = "Log"
IN_STATUS: Final = "InStatus"
NONE: Final = "None"
CENSORED: Final = "Censored"
"""The default for sensitive data; not a value that a policy can set."""
CENSORED_TEXT: Final = (
    "# The difference is redacted because it contains sensitive data. To override, the "
    'spec["object-templates"][].recordDiff field must be set to "InStatus" for the difference to be recorded '
    "in the policy status. Consider existing access to the ConfigurationPolicy objects and the etcd "
    "encryption configuration before you proceed with an override."
)

_CONTEXT: Final = 5
_MAX_LINES: Final = 50
_HEADER_LINES: Final = 3
_SENSITIVE_KINDS: Final = frozenset(
    (
        ("", "ConfigMap"),
        ("", "Secret"),
        ("oauth.openshift.io", "OAuthAccessToken"),
        ("oauth.openshift.io", "OAuthAuthorizeTokens"),
        ("route.openshift.io", "Route"),
    )
)


def diff_mode(record_diff: str, group: str, kind: str, *, sensitive: bool) -> str:
    """What to do with diffs of a template; `record_diff` is its own setting."""
    if record_diff:
        return record_diff
    return CENSORED if sensitive or (group, kind) in _SENSITIVE_KINDS else IN_STATUS


def unified_diff(existing: Object, updated: Object, *, full: bool) -> str:
    metadata = existing.get("metadata") or {}
    name = "/".join(part for part in (metadata.get("namespace"), metadata.get("name")) if part)
    lines = difflib.unified_diff(
        _lines(existing), _lines(updated), f"{name} : existing", f"{name} : updated", n=_CONTEXT, lineterm="\n"
    )
    diff = "".join(lines)
    split = diff.split("\n")
    if len(split) <= _MAX_LINES + _HEADER_LINES or full:
        return diff
    shown = "\n".join(split[: _MAX_LINES + _HEADER_LINES])
    return f"# Truncated: showing {_MAX_LINES}/{len(split)} diff lines:\n{shown}"


def _lines(obj: Object) -> list[str]:
    """With an empty line at the end, as go-difflib splits a text."""
    return [line + "\n" for line in dump(obj).split("\n")]
