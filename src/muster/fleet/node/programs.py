"""What a node can run: programs of Muster's own image, found in a table the caller gives.

On a real cluster the image starts `muster <words> <flags>`. Here the same words find an entry of the table, and the rest is handed
to it as arguments. Whether an image is ours is decided by the last part of its repository, whatever registry and tag it has.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from muster.machinery.confinement import CredentialProgram

if TYPE_CHECKING:
    from muster.fleet.node.environment import PodEnvironment

Program = Callable[[Sequence[str], "PodEnvironment"], Awaitable[int]]
"""Runs until done and gives its exit code. Being cancelled is its SIGTERM: it may tidy up for as long as the pod's grace period."""
Programs = Mapping[tuple[str, ...], Program]
"""By the words that begin its command line, e.g. ("hub",) or ("addon", "manager"); the longest entry that fits counts."""

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
