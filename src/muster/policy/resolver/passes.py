"""Two regular expression passes over a template's YAML before it is parsed, with the behaviour of upstream's.

The first pass removes the quotes around an action whose output is not a string: YAML then parses a number, a boolean, a list. It
applies to values of maps, per line, up to the last right delimiter of the line. The second pass replaces `autoindent` by `indent
N` with the number of spaces before the action. Go's regular expressions run in linear time; so do these, with RE2.
"""

from __future__ import annotations

from typing import Final

from muster.gotemplate.golang import regexp

_UNQUOTING: Final = ("toInt", "toBool", "toLiteral", "copyConfigMapData", "copySecretData")


class Passes:
    """The passes for one pair of delimiters."""

    def __init__(self, delims: tuple[str, str], additional_indentation: int) -> None:
        left, right = (regexp.quote_meta(delim) for delim in delims)
        self._additional_indentation = additional_indentation
        self._quoted = regexp.compile(
            rf":\s+(?:[\|>]-?\s+)?(?:'?\s*)({left}-?(?:.*\|\s*(?:toInt|toBool|toLiteral)"
            rf"|(?:.*(?:copyConfigMapData|copySecretData))).*{right})(?:\s*'?)"
        )
        self._autoindented = regexp.compile(rf"( *)(?:'|\")?({left}.*\| *autoindent *-?{right})")

    def __call__(self, text: str) -> str:
        if any(word in text for word in _UNQUOTING):
            text = self._quoted.replace(text, ": $1")
        return self._indented(text) if "autoindent" in text else text

    def _indented(self, text: str) -> str:
        processed = text
        for spaces, action in self._autoindented.find_all_groups(text):
            indent = f"indent {len(spaces) - self._additional_indentation}"
            processed = processed.replace(action, action.replace("autoindent", indent, 1), 1)
        return processed
