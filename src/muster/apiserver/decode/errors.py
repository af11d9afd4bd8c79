"""Errors of request bodies that cannot be decoded."""

from __future__ import annotations


class DecodeError(ValueError):
    """A body that cannot be decoded; the text follows `K in version "v" cannot be handled as a K: ` in the answer."""


class Unrecognized(DecodeError):
    """A body that is not an object with a kind; the answer quotes it."""

    def __init__(self, problem: str, body: bytes) -> None:
        super().__init__(problem)
        self._body = body

    def message(self, kind: str) -> str:
        """The message of the answer of an endpoint that serves `kind`."""
        problem = f"couldn't get version/kind; json parse error: {self} ({self._excerpt()})"
        return f"the object provided is unrecognized (must be of type {kind}): {problem}"

    def _excerpt(self) -> str:
        if not self._body:
            return "<empty>"
        if self._body[:1] != b"{":
            return self._body[:30].hex()
        text = self._body[:30].decode("utf-8", "replace")
        return f"{text} ..." if len(self._body) > 30 else text
