"""Variables of a template: `{{NAME}}` in a manifest becomes the value of NAME.

Manifests are parsed before anything is put into them, so a value is text inside the string it stands in and nothing else: it can
neither end the string nor add a field, and what comes out has the structure of what went in. Keys of objects are strings too. Where
two keys of one object would become the same, the manifest is refused instead of losing one of them.

A name that nobody defines becomes empty, as upstream's does, and is reported. Blanks around a name do not count. Braces that are
not closed are text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from muster.addon.agent_addon import AddonError

_OPEN: Final = "{{"
_CLOSE: Final = "}}"
_NAME_LENGTH: Final = 64
"""Longer ones are cut in reports; a variable's name is not that long, what stands between other people's braces may be."""
_MOST: Final = 16 * 1024 * 1024
"""Characters that values may add to one addon's manifests: no cluster takes as much, and a hub has many clusters to render for."""


class Substitution:
    """Puts values into documents and collects the names that have none, in the order in which they are met."""

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
