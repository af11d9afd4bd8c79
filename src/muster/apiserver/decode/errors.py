"""The one error of this room: a request body that is not what it claims to be. Its text is what the client reads after
`K in version "v" cannot be handled as a K: `."""

from __future__ import annotations


class DecodeError(ValueError):
    """A body that cannot be decoded."""
