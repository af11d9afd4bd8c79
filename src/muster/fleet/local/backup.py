"""Backups of a local fleet: one private archive with its configuration, the database of its clusters and its simulated AWS.

While the fleet runs, its process has the database locked. So a backup creates a directory `backup-…` in the fleet's directory and
signals the process, which copies the database into it between two transactions and writes `done.json`. For a stopped fleet the same
is done under the fleet's lock.

A backup contains keys and tokens of every cluster: only their owner can read archives. An archive is restored into a directory
beside the target, checked, and renamed into place, so there is never half a fleet. Only the files of a backup are extracted.
"""

from __future__ import annotations

import asyncio
import gzip
import os
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

import msgspec

from muster.fleet.local.directory import FORMAT as FLEET_FORMAT
from muster.fleet.local.directory import Fleet, FleetDirectory, FleetError
from muster.machinery.privatefiles import make_private_directory, replace_private
from muster.store import Store, StoreError
from muster.store.datafile import DataFile
from muster.store.sqlite import SQLiteStore
from muster.transport.persistence import SQL

FORMAT: Final = 1
PREFIX: Final = "backup-"
DATABASE: Final = "muster.db"
_ABOUT: Final = "muster-backup.json"
_RECORD: Final = "fleet.json"
_DONE: Final = "done.json"
_AWS: Final = ("aws/aws.json", "aws/ca.crt", "aws/config")
_MEMBERS: Final = frozenset((_ABOUT, _RECORD, DATABASE, *_AWS))
_LARGEST: Final = 16 << 30
"""Bytes of one file: a larger one is refused as no backup."""


class BackupError(FleetError):
    """The message names the file and the remedy."""


class About(msgspec.Struct, frozen=True):
    """The metadata of a backup."""

    format: int
    muster: str
    created: str
    clusters: tuple[str, ...] = ()


class _Outcome(msgspec.Struct, frozen=True):
    error: str = ""


def check_can_be_backed_up(directory: FleetDirectory) -> Fleet:
    fleet = directory.existing()
    if fleet.ephemeral:
        raise BackupError(f"the fleet in {directory.path} is ephemeral: there is nothing on disk to back up")
    if fleet.persistence == SQL:
        raise BackupError(
            f"the hub of the fleet in {directory.path} is a database: stop the fleet with muster down, then back up the database "
            f"by its own means, and the directory separately"
        )
    return fleet


async def fulfil_requests(directory: FleetDirectory, store: Store) -> None:
    """Runs in the fleet's process: make the requested copies."""
    for request in sorted(directory.path.glob(f"{PREFIX}*/")):
        if (request / _DONE).exists():
            continue
        try:
            if not isinstance(store, SQLiteStore):
                raise StoreError("the fleet's state is not in a file")
            await store.backup(request / DATABASE)
            await asyncio.to_thread(_copy_files, directory, request)
            outcome = _Outcome()
        except (StoreError, OSError) as error:
            outcome = _Outcome(str(error))
        replace_private(request / _DONE, msgspec.json.encode(outcome))


@contextmanager
def request(directory: FleetDirectory) -> Iterator[Path]:
    """The directory for the copies; removed at the end with all its content, as are those of earlier requests."""
    for left in directory.path.glob(f"{PREFIX}*/"):
        shutil.rmtree(left, ignore_errors=True)
    staging = Path(tempfile.mkdtemp(prefix=PREFIX, dir=directory.path))
    try:
        yield staging
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def outcome(staging: Path) -> str | None:
    """None until the fleet's process has finished; then its error, or empty."""
    try:
        return msgspec.json.decode((staging / _DONE).read_bytes(), type=_Outcome).error
    except FileNotFoundError:
        return None


def copy_stopped(directory: FleetDirectory, staging: Path) -> None:
    """Copy a stopped fleet whose lock the caller holds. Raises StoreError."""
    source = DataFile(directory.path / DATABASE, "FULL")
    try:
        source.backup(staging / DATABASE)
    finally:
        source.close()
    _copy_files(directory, staging)


def _copy_files(directory: FleetDirectory, staging: Path) -> None:
    for name in (_RECORD, *_AWS):
        source = directory.path / name
        if source.exists():
            make_private_directory((staging / name).parent)
            replace_private(staging / name, source.read_bytes())


def pack(staging: Path, file: Path, about: About) -> None:
    """Write the archive atomically."""
    replace_private(staging / _ABOUT, msgspec.json.encode(about))
    descriptor, temporary = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
    try:
        with os.fdopen(descriptor, "wb") as raw:
            with (
                gzip.GzipFile(fileobj=raw, mode="wb", compresslevel=3) as packed,
                tarfile.open(fileobj=packed, mode="w") as tar,
            ):
                for name in sorted(_MEMBERS):
                    if (staging / name).exists():
                        tar.add(staging / name, name, filter=_anonymous)
            raw.flush()
            os.fsync(raw.fileno())
        os.replace(temporary, file)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mode = 0o600
    return member


@contextmanager
def unpacked(file: Path, directory: FleetDirectory) -> Iterator[tuple[Path, About, Fleet]]:
    """A checked fleet in a directory beside the target, to be renamed into place. Raises BackupError."""
    directory.path.absolute().parent.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=f".{directory.path.name}.restore-", dir=directory.path.absolute().parent))
    try:
        _extract(file, staging)
        yield staging, *_checked(file, staging)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _extract(file: Path, staging: Path) -> None:
    try:
        with tarfile.open(file, mode="r:gz") as archive:
            for member in archive:
                if member.name not in _MEMBERS or not member.isreg() or not 0 <= member.size <= _LARGEST:
                    raise BackupError(f"{file}: {member.name!r} is in no backup of a fleet: choose another file")
                content = archive.extractfile(member)
                assert content is not None, "it is a regular file"
                _write(content, staging / member.name)
    except (tarfile.TarError, EOFError, gzip.BadGzipFile) as error:
        raise BackupError(f"{file}: not a whole backup of a fleet ({error}): choose another file") from None


def _write(content: IO[bytes], path: Path) -> None:
    make_private_directory(path.parent)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        shutil.copyfileobj(content, file, 1 << 20)


def _checked(file: Path, staging: Path) -> tuple[About, Fleet]:
    if missing := [name for name in (_ABOUT, _RECORD, DATABASE) if not (staging / name).is_file()]:
        raise BackupError(f"{file}: not a whole backup of a fleet ({missing[0]} is missing): choose another file")
    try:
        about = msgspec.json.decode((staging / _ABOUT).read_bytes(), type=About)
        fleet = msgspec.json.decode((staging / _RECORD).read_bytes(), type=Fleet)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise BackupError(f"{file}: damaged ({error}): choose another file") from None
    if about.format != FORMAT or fleet.version != FLEET_FORMAT:
        raise BackupError(f"{file}: written by muster {about.muster} in another format: restore it with that version")
    (staging / _ABOUT).unlink()
    database = DataFile(staging / DATABASE, "FULL")
    try:
        database.check()
    except StoreError as error:
        raise BackupError(f"{file}: {error}: choose another file") from None
    finally:
        database.close()
    return about, fleet


def install_backup(staging: Path, directory: FleetDirectory, fleet: Fleet) -> None:
    """Rename the staged fleet into place; the former content of the directory was removed before."""
    replace_private(staging / _RECORD, msgspec.json.format(msgspec.json.encode(fleet)) + b"\n", durable=True)
    os.replace(staging, directory.path.absolute())
