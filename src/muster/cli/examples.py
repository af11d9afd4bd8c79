"""The examples at the end of a command's help."""

from __future__ import annotations


def examples(*lines: str) -> str:
    """A command's `epilog`: one example per line, which click does not wrap."""
    return "\n".join(("\b", "Examples:", *(f"  {line}" for line in lines)))
