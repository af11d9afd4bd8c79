"""Messages of failures: the reason and the position, without sensitive data.

They begin as go-template-utils'. Upstream then quotes the whole document, so that the reason is cut off by message limits; here
the reason follows at once, and the quoted source of the failing part is truncated if the message would exceed 200 characters.

After a template has read a Secret, the reason may contain some of it: a function's error contains its arguments. Such a reason
is left out, unless it consists of constants and of arguments that are literals in the template. If the template's own text is
sensitive (decrypted, or the output of hub templates that have read Secrets), it is not quoted either; the position is given.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from muster.gotemplate import ExecError, GoError, LimitError, ParseError
from muster.policy.resolver.errors import FunctionError
from muster.policy.resolver.interfaces import ResolveError
from muster.runtime.client import KubeError, StatusError

WITHHELD: Final = "the reason is not shown, because it may hold sensitive data"
_PARSING: Final = "failed to parse the template JSON string"
_RESOLVING: Final = "failed to resolve the template"
_CONVERTING: Final = "failed to convert the resolved template to JSON"
_READING: Final = "failed to convert the policy template to YAML"
_VISIBLE: Final = 200
"""Characters of a message that are always visible."""
_RECOGNIZABLE: Final = 40
_YAML_LINE: Final = re.compile(r"yaml: (?:line [0-9]+: )?")


@dataclass(frozen=True)
class Redaction:
    """What error messages of a run must not contain."""

    source: str
    """The template."""
    source_is_sensitive: bool
    values_are_sensitive: bool

    def may_show(self, error: FunctionError) -> bool:
        if self.source_is_sensitive:
            return not any(error.arguments)
        return not self.values_are_sensitive or all(argument in self.source for argument in error.arguments)


def unreadable_document(error: GoError, *, sensitive: bool) -> ResolveError:
    return ResolveError(f"{_READING}: {_yaml_reason(error, sensitive)}")


def unparsable(error: ParseError, *, sensitive: bool) -> ResolveError:
    detail = f"template: {error.name}:{error.line}: {WITHHELD}" if sensitive else str(error)
    return ResolveError(f"{_PARSING}: {detail}", detail=detail, line=error.line)


def unconvertible(error: GoError, redaction: Redaction) -> ResolveError:
    reason = _yaml_reason(error, redaction.source_is_sensitive or redaction.values_are_sensitive)
    return ResolveError(f"{_CONVERTING}: {reason}", detail=reason)


def failed(error: ExecError, redaction: Redaction) -> ResolveError:
    message = _message(error, redaction)
    detail = _located(error, message, "" if redaction.source_is_sensitive else error.node)
    text = f"{_RESOLVING}: {detail}"
    if len(text) > _VISIBLE and not redaction.source_is_sensitive:
        room = _VISIBLE - len(text) + len(error.node)
        text = f"{_RESOLVING}: {_located(error, message, _first_words(error.node, room))}"
    return _caused(ResolveError(text, detail=detail, line=error.line, column=error.column), error, redaction)


def _caused(failure: ResolveError, error: ExecError, redaction: Redaction) -> ResolveError:
    """The cause, if it is a client's error or one of our own; others may contain anything."""
    function_error = error.__cause__
    if isinstance(function_error, FunctionError):
        cause = function_error.__cause__ if isinstance(function_error.__cause__, KubeError) else function_error
        failure.__cause__ = cause if redaction.may_show(function_error) else _bare(cause)
    return failure


def _bare(error: KubeError | FunctionError) -> KubeError | FunctionError:
    """The error without its message, which may contain arguments. An unreachable server has sent none."""
    if isinstance(error, StatusError):
        return type(error)(error.code, error.reason, WITHHELD, None, error.retry_after)
    return type(error)(WITHHELD) if isinstance(error, FunctionError) else error


def _message(error: ExecError, redaction: Redaction) -> str:
    if isinstance(error, LimitError):
        return error.message
    cause = error.__cause__
    if isinstance(cause, FunctionError):
        if redaction.may_show(cause):
            return error.message
        kind = type(cause.__cause__).__name__ + ": " if isinstance(cause.__cause__, KubeError) else ""
        return f"error calling {error.function}: {kind}{WITHHELD}"
    sensitive = redaction.source_is_sensitive or (redaction.values_are_sensitive and error.shows_value)
    if not sensitive:
        return error.message
    return f"error calling {error.function}: {WITHHELD}" if error.function else WITHHELD


def _located(error: ExecError, message: str, node: str) -> str:
    if not error.line:
        return f"template: {error.name}: {message}"
    at = f"template: tmpl:{error.line}:{error.column}: "
    return f'{at}executing "{error.name}" at <{node}>: {message}' if node else at + message


def _first_words(node: str, room: int) -> str:
    """As many words as fit, but at least one, truncated to a recognizable length."""
    first, *others = node.split(" ")
    shown = first if len(first) <= _RECOGNIZABLE else first[:_RECOGNIZABLE] + "…"
    for word in others:
        if len(shown) + len(word) + 3 > room:
            return shown + " …"
        shown += " " + word
    return shown


def _yaml_reason(error: GoError, sensitive: bool) -> str:
    if not sensitive:
        return str(error)
    line = _YAML_LINE.match(str(error))
    return (line[0] if line else "yaml: ") + WITHHELD
