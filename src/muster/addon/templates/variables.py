"""Variables of a template: `{{NAME}}` in a manifest is replaced by the value of NAME.

Manifests are parsed before the substitution, so a value is only text inside its string: it can neither end the string nor add a
field, and the structure of the manifest is unchanged. Keys of objects are strings too. If two keys of one object would become
equal, the manifest is refused.

Undefined names become empty, as upstream, and are reported. Blanks around a name are ignored. Unclosed braces are text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from muster.addon.agent_addon import AddonError

_OPEN: Final = "{{"
_CLOSE: Final = "}}"
_NAME_LENGTH: Final = 64
"""Longer names are truncated in reports: they are probably text between unrelated braces."""
_MOST: Final = 16 * 1024 * 1024
"""Maximum number of characters that values may add to one addon's manifests: no cluster needs as many, and a hub renders for many
clusters.
"""


class Substitution:
    """Replaces variables in documents and collects undefined names, in order."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = values
        self._unknown: dict[str, None] = {}
        self._added = 0

    @property
    def unknown(self) -> tuple[str, ...]:
        return tuple(self._unknown)

    def apply(self, document: Any) -> Any:
        """A copy of a JSON document with the variables of its strings replaced. Raises AddonError."""
        if isinstance(document, str):
            return "".join(self._pieces(document)) if _OPEN in document else document
        if isinstance(document, dict):
            replaced = {self.apply(key): self.apply(value) for key, value in document.items()}
            if len(replaced) != len(document):
                names = ", ".join(key for key in document if _OPEN in key)
                raise AddonError(f"variables give two fields the same name: {names}; give the variables different values")
            return replaced
        if isinstance(document, list):
            return [self.apply(item) for item in document]
        return document

    def _pieces(self, text: str) -> Iterator[str]:
        done = 0
        while (start := text.find(_OPEN, done)) >= 0 and (end := text.find(_CLOSE, start + len(_OPEN))) >= 0:
            yield text[done:start]
            yield self._value(text[start + len(_OPEN) : end].strip())
            done = end + len(_CLOSE)
        yield text[done:]

    def _value(self, name: str) -> str:
        value = self._values.get(name)
        if value is None:
            self._unknown[name[:_NAME_LENGTH]] = None
            return ""
        self._added += len(value)
        if self._added > _MOST:
            raise AddonError(
                f"variables make the manifests larger by more than {_MOST >> 20} MiB; use fewer of them, or shorter values"
            )
        return value
