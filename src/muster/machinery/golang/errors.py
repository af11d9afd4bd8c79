"""The error of all functions of this package."""

from __future__ import annotations


class GoError(ValueError):
    """The error that the Go function would have returned; the text is Go's."""
