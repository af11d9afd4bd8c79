"""The bootstrap kubeconfigs of an agent, or configurations of another kind, reread when they change.

They come from Secrets in the agent's namespace or from files, in the order of preference. A Secret's contents are written to a
private directory, so that the files it refers to are found there. Files are read again only when they were modified. Invalid ones
are skipped and reported once, and the others are used. A `Candidate` is a value: with another token, CA or server it is another
candidate.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from muster.machinery.clock import Clock, pause
from muster.machinery.confinement import read, shown
from muster.machinery.logs import get_logger
from muster.registration.agent.state.directory import mirror
from muster.registration.drivers.endpoints import EndpointError, EndpointFormat, HubAddress, HubEndpoint
from muster.registration.drivers.kubeconfigs import KUBECONFIGS
from muster.runtime.cache import Informer, Snapshot
from muster.runtime.client import stamp_of

log = get_logger("muster.registration.agent")

FILE_SECONDS = 10.0
"""Interval at which bootstrap kubeconfigs in files are checked."""


@dataclass(frozen=True)
class Candidate:
    source: str
    """Where an administrator finds it."""
    endpoint: HubEndpoint
    digest: str
    api: HubAddress | None = None
    """The hub's API server, where what is given tells of it beside a way of another kind."""

    @property
    def address(self) -> HubAddress:
        return self.endpoint.address


@dataclass
class _Found:
    candidates: list[Candidate] = field(default_factory=list)
    problems: dict[str, str] = field(default_factory=dict)
    files: list[Path] = field(default_factory=list)
    """What was read, and has to be looked at again."""


class Bootstraps:
    """`secrets` has a watch for each Secret; with `files` given, these count alone."""

    def __init__(
        self,
        secrets: Mapping[str, Informer[Snapshot]],
        namespace: str,
        files: tuple[Path, ...],
        directory: Path,
        endpoints: EndpointFormat,
        clock: Clock,
    ) -> None:
        self._secrets = secrets
        self._namespace = namespace
        self._files = files
        self._directory = directory
        self._format = endpoints
        self._clock = clock
        self._news = asyncio.Event()
        self._refreshing = asyncio.Lock()
        self._stamps: Mapping[Path, object] = {}
        self._listeners: list[Callable[[], None]] = []
        self.candidates: tuple[Candidate, ...] = ()
        self.problems: Mapping[str, str] = {}
        """Why sources are no candidates, by source."""
        for informer in secrets.values():
            informer.on_change(lambda old, new: self._news.set())

    def on_change(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener` whenever the candidates have changed; calling what is returned ends that."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    async def run(self) -> None:
        while True:
            await pause(self._clock, self._news, FILE_SECONDS if self._files else None)
            if self._secrets or any(stamp_of(path) != stamp for path, stamp in self._stamps.items()):
                await self.refresh()

    async def refresh(self) -> None:
        """Look at all sources again."""
        async with self._refreshing:
            await self._refresh()

    async def _refresh(self) -> None:
        snapshots = {name: informer.cache.named(name, self._namespace) for name, informer in self._secrets.items()}
        found = await asyncio.to_thread(self._read, {name: _contents(snapshot) for name, snapshot in snapshots.items()})
        for source, problem in found.problems.items():
            if self.problems.get(source) != problem:
                log.warning("bootstrap kubeconfig cannot be used", source=source, problem=problem)
        self.problems = found.problems
        candidates = tuple(found.candidates)
        if candidates != self.candidates:
            self.candidates = candidates
            for listener in list(self._listeners):
                listener()

    def _read(self, secrets: Mapping[str, Mapping[str, bytes] | None]) -> _Found:
        found, key = _Found(files=list(self._files)), self._format.key
        for name, contents in secrets.items():
            source = f"Secret {self._namespace}/{name}"
            directory = self._directory / name
            if contents is None:
                found.problems[source] = "does not exist"
            elif key not in contents:
                found.problems[source] = f"has no key {key!r}"
            else:
                mirror(directory, contents, key)
                self._add(found, source, directory / key, contents)
        # Taken before reading: what is written meanwhile will be seen to have changed.
        self._stamps = {path: stamp_of(path) for path in self._files}
        for path in self._files:
            try:
                contents = {key: read(path)}
            except OSError as error:
                found.problems[shown(path)] = error.strerror or str(error)
            else:
                self._add(found, shown(path), path, contents)
        self._stamps = {path: self._stamps.get(path) or stamp_of(path) for path in found.files}
        return found

    def _add(self, found: _Found, source: str, path: Path, contents: Mapping[str, bytes]) -> None:
        try:
            endpoint = self._format.read(path, contents[self._format.key], source)
            found.files.extend(endpoint.files().values())
        except EndpointError as error:
            found.problems[source] = error.problem
            return
        digest = hashlib.sha256()
        for name in sorted(contents):
            digest.update(f"{name}:{len(contents[name])}:".encode() + contents[name])
        found.candidates.append(Candidate(source, endpoint, digest.hexdigest(), self._api(source, path, contents)))

    def _api(self, source: str, path: Path, contents: Mapping[str, bytes]) -> HubAddress | None:
        siblings = contents.get(KUBECONFIGS.key) if self._format.key != KUBECONFIGS.key else None
        if siblings is None:
            return None
        try:
            return KUBECONFIGS.read(path.parent / KUBECONFIGS.key, siblings, source, contents).address
        except EndpointError as error:
            log.warning("the kubeconfig next to the hub's configuration cannot be used", source=source, problem=error.problem)
            return None


def _contents(secret: Snapshot | None) -> dict[str, bytes] | None:
    if secret is None:
        return None
    return {key: base64.b64decode(value) for key, value in (secret.data.get("data") or {}).items()}
