"""The state of a local AWS in one private file, replaced as a whole.

An answer is sent after its change is in the file. A thread writes; calls that arrive during a write share the next one, so many
concurrent calls cost few writes. Without a directory the state is in memory only.
"""

from __future__ import annotations

import asyncio
import secrets
from datetime import datetime
from pathlib import Path
from typing import Final

import msgspec

from muster.fleet.aws.model import FORMAT, State
from muster.kube.certificates import CertificateAuthority
from muster.machinery.privatefiles import make_private_directory, replace_private

STATE: Final = "aws.json"
AUTHORITY: Final = "ca.crt"
"""The file for AWS_CA_BUNDLE."""


class UnreadableState(Exception):
    """The message names the file and the remedy."""


def load(directory: Path | None, now: datetime, partition: str) -> State:
    """The stored state, or a new one. Raises UnreadableState, UnsafePath and other OSErrors."""
    if directory is None:
        return _new(now, partition)
    make_private_directory(directory)
    path = directory / STATE
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return _new(now, partition)
    try:
        state = msgspec.json.decode(content, type=State)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise UnreadableState(f"{path}: damaged ({error}): mend it, or remove the directory {directory}") from None
    if state.version != FORMAT:
        raise UnreadableState(f"{path}: written in format {state.version}, and this muster knows {FORMAT} only")
    if state.partition != partition:
        raise UnreadableState(f"{path}: of partition {state.partition}, not {partition}: choose another directory")
    return state


def _new(now: datetime, partition: str) -> State:
    authority = CertificateAuthority.create("muster local AWS", now)
    pair = authority.pair()
    return State(partition, secrets.token_hex(32), pair.certificate.decode(), pair.key.decode())


class StateFile:
    def __init__(self, state: State, directory: Path | None) -> None:
        self._state = state
        self._directory = directory
        self._lock = asyncio.Lock()
        self._wanted = 0
        self._written = 0
        self.writes = 0

    async def save(self) -> None:
        """Returns when the present state is in the file. Raises OSError."""
        if self._directory is None:
            return
        self._wanted += 1
        mine = self._wanted
        async with self._lock:
            if self._written >= mine:
                return
            covered = self._wanted
            content = msgspec.json.encode(self._state)
            await asyncio.to_thread(replace_private, self._directory / STATE, content)
            self._written = covered
            self.writes += 1

    def write_authority(self) -> Path | None:
        """Write the CA certificate for clients; returns its path."""
        if self._directory is None:
            return None
        path = self._directory / AUTHORITY
        replace_private(path, self._state.authority)
        return path
