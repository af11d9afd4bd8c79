"""The errors of this room: request bodies that are not what they claim to be."""

from __future__ import annotations


class DecodeError(ValueError):
    """A body that cannot be decoded; the text is what the client reads after `K in version "v" cannot be handled as a K: `."""


class Unrecognized(DecodeError):
    """A body that is not even an object of some kind, so that the answer quotes it instead."""

    def __init__(self, problem: str, body: bytes) -> None:
        super().__init__(problem)
        self._body = body

    def message(self, kind: str) -> str:
        """The whole answer, for an endpoint that serves `kind`."""
        problem = f"couldn't get version/kind; json parse error: {self} ({self._shown()})"
        return f"the object provided is unrecognized (must be of type {kind}): {problem}"

    def _shown(self) -> str:
        if not self._body:
            return "<empty>"
        if self._body[:1] != b"{":
            return self._body[:30].hex()
        text = self._body[:30].decode("utf-8", "replace")
        return f"{text} ..." if len(self._body) > 30 else text
