"""The examples that a command's help ends with."""

from __future__ import annotations


def examples(*lines: str) -> str:
    """For a command's `epilog`: one command per line, which click does not wrap."""
    return "\n".join(("\b", "Examples:", *(f"  {line}" for line in lines)))
