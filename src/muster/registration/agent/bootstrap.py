"""The kubeconfigs that an agent was given to introduce itself with, followed while they change.

They come from Secrets in the agent's namespace or from files, in an order that is the order of preference. A Secret's contents are
put into a private directory, so that whatever the kubeconfig names beside itself is found there. What cannot be used is left out
and said once, and the others go on. A `Candidate` is a value: when a token, an authority or the server changes, it is another
candidate.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from muster.logs import get_logger
from muster.registration.agent.hub_kubeconfig import HubAddress, address_of
from muster.registration.agent.hub_secret import KUBECONFIG, mirror
from muster.runtime.cache import Snapshot
from muster.runtime.clock import Clock, pause
from muster.runtime.informer import Informer
from muster.runtime.kubeconfig import KubeconfigError, load_kubeconfig

log = get_logger("muster.registration.agent")

FILE_SECONDS = 10.0
"""Between two looks at bootstrap kubeconfigs that are files."""


@dataclass(frozen=True)
class Candidate:
    source: str
    """Where an administrator finds it."""
    path: Path
    address: HubAddress
    digest: str


class Bootstraps:
    def __init__(
        self,
        secrets: Informer[Snapshot],
        namespace: str,
        names: tuple[str, ...],
        files: tuple[Path, ...],
        directory: Path,
        clock: Clock,
    ) -> None:
        self._secrets = secrets
        self._namespace = namespace
        self._names = () if files else names
        self._files = files
        self._directory = directory
        self._clock = clock
        self._news = asyncio.Event()
        self._listeners: list[Callable[[], None]] = []
        self.candidates: tuple[Candidate, ...] = ()
        self.problems: Mapping[str, str] = {}
        """Why sources are no candidates, by source."""
        secrets.on_change(self._seen)

    def on_change(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener` whenever the candidates have changed; calling what is returned ends that."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def _seen(self, old: Snapshot | None, new: Snapshot | None) -> None:
        if any(side is not None and side.name in self._names for side in (old, new)):
            self._news.set()

    async def run(self) -> None:
        while True:
            await pause(self._clock, self._news, FILE_SECONDS if self._files else None)
            await self.refresh()

    async def refresh(self) -> None:
        """Look at all sources again."""
        contents = {name: self._secrets.cache.named(name, self._namespace) for name in self._names}
        decoded = {name: None if snapshot is None else _contents(snapshot) for name, snapshot in contents.items()}
        candidates, problems = await asyncio.to_thread(self._read, decoded)
        for source, problem in problems.items():
            if self.problems.get(source) != problem:
                log.warning("bootstrap kubeconfig cannot be used", source=source, problem=problem)
        self.problems = problems
        if candidates != self.candidates:
            self.candidates = candidates
            for listener in list(self._listeners):
                listener()

    def _read(self, secrets: Mapping[str, Mapping[str, bytes] | None]) -> tuple[tuple[Candidate, ...], dict[str, str]]:
        candidates: list[Candidate] = []
        problems: dict[str, str] = {}
        for name, contents in secrets.items():
            source = f"Secret {self._namespace}/{name}"
            directory = self._directory / name
            if contents is None:
                problems[source] = "does not exist"
            elif KUBECONFIG not in contents:
                problems[source] = f"has no key {KUBECONFIG!r}"
            else:
                mirror(directory, contents)
                _add(candidates, problems, source, directory / KUBECONFIG, contents)
        for path in self._files:
            try:
                contents = {KUBECONFIG: path.read_bytes()}
            except OSError as error:
                problems[str(path)] = error.strerror or str(error)
            else:
                _add(candidates, problems, str(path), path, contents)
        return tuple(candidates), problems


def _add(candidates: list[Candidate], problems: dict[str, str], source: str, path: Path, contents: Mapping[str, bytes]) -> None:
    try:
        load_kubeconfig(path)
        address = address_of(contents[KUBECONFIG], source, path.parent)
    except KubeconfigError as error:
        problems[source] = error.problem if not error.field else f"{error.where}: {error.field}: {error.problem}".lstrip(": ")
        return
    digest = hashlib.sha256()
    for name in sorted(contents):
        digest.update(f"{name}:{len(contents[name])}:".encode() + contents[name])
    candidates.append(Candidate(source, path, address, digest.hexdigest()))


def _contents(secret: Snapshot) -> dict[str, bytes]:
    return {key: base64.b64decode(value) for key, value in (secret.data.get("data") or {}).items()}
