"""The resources of one container of a pod, and the context variable that has the current one."""

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
"""Replaces an exec plugin's command: (arguments, variables) to the ExecCredential that it would print. Raises ProgramFailed."""


class ProgramFailed(Exception):
    """A credential program failed; the text is its error message."""


class Outside(PermissionError):
    """A pod's program tried to access something of the machine that is not the pod's."""


class Network(Protocol):
    """Decides about addresses of the machine."""

    def may_dial(self, name: str, address: IPv4Address | IPv6Address, port: int) -> bool:
        """For a guarded address (see `network.is_guarded`); `name` is the host name that was resolved to it."""

    def remedy(self, name: str, port: int) -> str:
        """What an administrator must do to permit it."""

    def opened(self, address: str, port: int) -> None:
        """A program of a pod listens there from now on."""

    def closed(self, address: str, port: int) -> None: ...


class Nowhere:
    """A network that permits no addresses."""

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
    """`mounts` has the container's paths and their location; everything else of its file system is below `scratch`. There is one
    for each container, from its start to its end."""

    pod: str
    """namespace/name"""
    ip: str
    environ: Mapping[str, str] = field(repr=False)
    mounts: Mapping[str, Path] = field(repr=False)
    scratch: Path
    network: Network = field(default_factory=Nowhere, repr=False)
    plugins: Mapping[str, CredentialProgram] = field(default_factory=dict, repr=False)
    """By the command in a kubeconfig; there are no others."""
    held: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)
    """State of credential programs between runs, by program, for the lifetime of the container."""

    def path(self, inside: str | PurePosixPath) -> Path:
        """The location of a path of the container."""
        wanted = PurePosixPath("/", os.path.normpath(f"/{inside}").lstrip("/"))
        for candidate in (wanted, *wanted.parents):
            found = self.mounts.get(str(candidate))
            if found is not None:
                return found.joinpath(*wanted.relative_to(candidate).parts)
        return self.scratch.joinpath(*wanted.parts[1:])

    def inside(self, kept: Path) -> PurePosixPath | None:
        """The inverse: the container's path of a location; None if it is not its own."""
        plain = Path(os.path.normpath(kept))
        tops = [*((mount_point, top) for top, mount_point in self.mounts.items()), (self.scratch, "/")]
        found = [(mount_point, top) for mount_point, top in tops if plain.is_relative_to(mount_point)]
        if not found:
            return None
        mount_point, top = max(found, key=lambda one: len(one[0].parts))
        return PurePosixPath(top, *plain.relative_to(mount_point).parts)


_current: ContextVar[Confinement | None] = ContextVar("the pod whose program this is", default=None)


def current() -> Confinement | None:
    """The confinement of the current task; None in an ordinary process."""
    return _current.get()


@contextmanager
def confined(confinement: Confinement | None) -> Iterator[None]:
    token = _current.set(confinement)
    try:
        yield
    finally:
        _current.reset(token)


def unconfined() -> AbstractContextManager[None]:
    """For actions of this process itself for a pod, such as serving its requests."""
    return confined(None)


def host_name() -> str:
    """The host name of the current task: a pod has its own."""
    confinement = _current.get()
    return socket.gethostname() if confinement is None else confinement.pod.partition("/")[2]


def environ() -> Mapping[str, str]:
    """The variables of the current task."""
    confinement = _current.get()
    return os.environ if confinement is None else confinement.environ
