"""What one container of a pod may use, and how its tasks know."""

from __future__ import annotations

import os
import socket
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path, PurePosixPath
from typing import Any, Protocol

CredentialProgram = Callable[[Sequence[str], Mapping[str, str]], Awaitable[bytes]]
"""Stands for an exec plug-in's command: (arguments, variables) to the ExecCredential that it would print. Raises ProgramFailed."""


class ProgramFailed(Exception):
    """A credential program has nothing to print; the text is what it would complain of."""


class Outside(PermissionError):
    """A pod's program asked for something of the machine that is not the pod's."""


class Network(Protocol):
    """What is known of the addresses of the machine."""

    def may_dial(self, name: str, address: IPv4Address | IPv6Address, port: int) -> bool:
        """Of a guarded address (see `network.is_guarded`); `name` is what was asked for, of which it is an address."""

    def remedy(self, name: str, port: int) -> str:
        """What an administrator does who wants the pod to dial it."""

    def opened(self, address: str, port: int) -> None:
        """A program of a pod listens there from now on."""

    def closed(self, address: str, port: int) -> None: ...


class Nowhere:
    """A network of which nothing may be dialled."""

    def may_dial(self, name: str, address: IPv4Address | IPv6Address, port: int) -> bool:
        return False

    def remedy(self, name: str, port: int) -> str:
        return "nothing of this machine may be dialled here"

    def opened(self, address: str, port: int) -> None:
        return None

    def closed(self, address: str, port: int) -> None:
        return None


@dataclass(frozen=True, kw_only=True)
class Confinement:
    """`mounts` has the container's paths and where they are kept; everything else of its file system is below `scratch`. Each is
    one container's, from its start to its end."""

    pod: str
    """namespace/name"""
    ip: str
    environ: Mapping[str, str] = field(repr=False)
    mounts: Mapping[str, Path] = field(repr=False)
    scratch: Path
    network: Network = field(default_factory=Nowhere, repr=False)
    plugins: Mapping[str, CredentialProgram] = field(default_factory=dict, repr=False)
    """By the name of the command that a kubeconfig has; there are no others."""
    held: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)
    """What credential programs keep from one run to the next, by program: it is this container's, and goes with it."""

    def path(self, inside: str | PurePosixPath) -> Path:
        """Where a path of the container is kept."""
        wanted = PurePosixPath("/", os.path.normpath(f"/{inside}").lstrip("/"))
        for candidate in (wanted, *wanted.parents):
            found = self.mounts.get(str(candidate))
            if found is not None:
                return found.joinpath(*wanted.relative_to(candidate).parts)
        return self.scratch.joinpath(*wanted.parts[1:])

    def inside(self, kept: Path) -> PurePosixPath | None:
        """The opposite: what the container calls a path; None for one that is not its own."""
        plain = Path(os.path.normpath(kept))
        tops = [*((mount_point, top) for top, mount_point in self.mounts.items()), (self.scratch, "/")]
        found = [(mount_point, top) for mount_point, top in tops if plain.is_relative_to(mount_point)]
        if not found:
            return None
        mount_point, top = max(found, key=lambda one: len(one[0].parts))
        return PurePosixPath(top, *plain.relative_to(mount_point).parts)


_current: ContextVar[Confinement | None] = ContextVar("the pod whose program this is", default=None)


def current() -> Confinement | None:
    """The boundary of the task that asks; None in a process of its own."""
    return _current.get()


@contextmanager
def confined(confinement: Confinement | None) -> Iterator[None]:
    token = _current.set(confinement)
    try:
        yield
    finally:
        _current.reset(token)


def unconfined() -> AbstractContextManager[None]:
    """For what this process itself does on a pod's behalf, such as serving its requests: that is not the pod's doing."""
    return confined(None)


def host_name() -> str:
    """Of whoever asks: a pod is a host of its own."""
    confinement = _current.get()
    return socket.gethostname() if confinement is None else confinement.pod.partition("/")[2]


def environ() -> Mapping[str, str]:
    """The variables of whoever asks."""
    confinement = _current.get()
    return os.environ if confinement is None else confinement.environ
