"""Two rewritings of a template's YAML before it is parsed, both by regular expressions as upstream's, quirks included.

The first takes away the quotes around an action that gives something other than a string: YAML then sees a number, a boolean, a
list. It works for values of maps, on lines, up to the last right delimiter of the line. The second turns `autoindent` into
`indent N` by counting the spaces before the action. Go's regular expressions run in linear time; so do these, on RE2.
"""

from __future__ import annotations

from typing import Final

from muster.gotemplate.golang import regexp

_UNQUOTING: Final = ("toInt", "toBool", "toLiteral", "copyConfigMapData", "copySecretData")


class Passes:
    """The rewritings for one pair of delimiters."""

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
