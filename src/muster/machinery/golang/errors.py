"""The error of all functions here that follow a Go function."""

from __future__ import annotations


class GoError(ValueError):
    """What the Go function would have returned as its error; the text is Go's."""
