"""What would change in an object, as a unified diff of its YAML, for the policy's status.

A diff is censored where the object's kind holds secrets, or where templates have read some, unless the template's `recordDiff` says
otherwise: who writes it has been told what that means.
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
"""Not among what a policy may say: what is done where it says nothing."""
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
    """What is done about diffs of a template; `record_diff` is what it says itself."""
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
