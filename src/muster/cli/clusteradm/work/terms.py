"""Flags about the executor and the strategy of a work, shared by `create work` and `work can-i`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from muster.administration.content.terms import Terms

STRATEGIES = ("Update", "CreateOnly", "ServerSideApply", "ReadOnly")


def term_options(command: Callable[..., Any]) -> Callable[..., Any]:
    options = (
        click.option(
            "--executor",
            default="",
            metavar="NAMESPACE/NAME",
            help="Service account on the managed cluster as which the manifests are applied.",
        ),
        click.option(
            "--update-strategy",
            type=click.Choice(STRATEGIES),
            help="Strategy for updating objects that already exist.  [default: Update]",
        ),
        click.option(
            "--delete-option",
            type=click.Choice(["Foreground", "Orphan"]),
            help="Propagation of the work's deletion: `Foreground` deletes the applied objects, `Orphan` keeps them.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def given_terms(given: dict[str, Any]) -> Terms:
    """Raises AdministrationError."""
    from muster.administration.content.terms import Terms, parse_executor

    executor = parse_executor(given["executor"]) if given["executor"] else None
    return Terms(executor, given["update_strategy"] or "", given["delete_option"] or "")
