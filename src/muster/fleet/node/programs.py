"""The programs that a node can run: those of Muster's own image, in a table that the caller passes.

On a real cluster the image starts `muster <words> <flags>`. Here the same words select an entry of the table, and the rest are its
arguments. The last part of an image's repository decides whether it is ours, with any registry and tag.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from muster.machinery.confinement import CredentialProgram

if TYPE_CHECKING:
    from muster.fleet.node.environment import PodEnvironment

Program = Callable[[Sequence[str], "PodEnvironment"], Awaitable[int]]
"""Runs until done and returns its exit code. Cancellation is its SIGTERM: it has the pod's grace period for its cleanup."""
Programs = Mapping[tuple[str, ...], Program]
"""Programs by the first words of the command line, e.g. ("hub",) or ("addon", "manager"); the longest match is used."""

NO_PLUGINS: Final[Mapping[str, CredentialProgram]] = {}
"""The exec plug-ins that a node offers to the kubeconfigs of its pods, unless it is given others."""
ENTRYPOINT: Final = "muster"
IMAGES: Final = ("muster",)


def is_ours(image: str, repositories: Sequence[str] = IMAGES) -> bool:
    repository = image.partition("@")[0]
    last = repository.rpartition("/")[2].partition(":")[0]
    return last in repositories


def command_line(command: Sequence[str], args: Sequence[str]) -> list[str]:
    """What the image would execute, without the program's own name."""
    arguments = [*(command or (ENTRYPOINT,)), *args]
    arguments[0] = arguments[0].rpartition("/")[2]
    return arguments[1:] if arguments[0] == ENTRYPOINT else arguments


def find_program(programs: Programs, arguments: Sequence[str]) -> tuple[Program, list[str]] | None:
    """The program and its arguments."""
    for length in range(min(len(arguments), max(map(len, programs), default=0)), -1, -1):
        found = programs.get(tuple(arguments[:length]))
        if found is not None:
            return found, list(arguments[length:])
    return None
