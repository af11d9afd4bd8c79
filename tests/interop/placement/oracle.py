"""Talks to the placement oracle built by `make -C peers/placement`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.interop.oracle_program import Oracle

Answer = dict[str, Any]
_ORACLE = Oracle("placement")


def binary() -> Path:
    return _ORACLE.binary()


def play(worlds: Iterable[list[dict[str, Any]]]) -> list[list[dict[str, Answer]]]:
    """What upstream decides in each world: by step and placement."""
    return _ORACLE.play(worlds)
