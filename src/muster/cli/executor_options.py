"""Flags about the permissions of executors, shared by the agent and by commands that predict its decisions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click


def review_options(command: Callable[..., Any]) -> Callable[..., Any]:
    reviews = click.option(
        "--executor-reviews",
        type=click.Choice(["auto", "always"]),
        default="auto",
        show_default=True,
        help="Access reviews for executors; `always` has the cluster review each object, for authorizers that decide by name.",
    )
    verbs = click.option(
        "--executor-verbs",
        type=click.Choice(["needed", "all"]),
        default="needed",
        show_default=True,
        help="Verbs an executor must be allowed: those `needed` by the update strategy, or `all`.",
    )
    return reviews(verbs(command))
