"""The front door: which words open which store."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import muster.store
from muster.store import MemoryStore, StoreError, open_store
from muster.store.postgres import PostgresStore
from muster.store.sqlite import SQLiteStore


def test_each_spec_opens_its_backend(tmp_path: Path) -> None:
    assert isinstance(open_store("memory"), MemoryStore)
    assert isinstance(open_store("sqlite", tmp_path), SQLiteStore)
    assert isinstance(open_store("postgresql://host/database"), PostgresStore)


def test_a_wrong_spec_is_explained_without_its_secrets(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="expected memory, sqlite, sqlite:///file or postgresql") as error:
        open_store("mysql://user:hunter2@host/db")
    assert "hunter2" not in str(error.value)
    with pytest.raises(StoreError, match="data directory"):
        open_store("sqlite")
    with pytest.raises(StoreError, match="sqlite:///file"):
        open_store("sqlite:///")


async def test_a_sqlite_file_is_named_after_three_slashes(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path}/named.db")
    await store.start()
    await store.close()
    assert (tmp_path / "named.db").is_file()


async def test_an_unreachable_database_is_named_without_its_password() -> None:
    store = open_store("postgresql://user:hunter2@127.0.0.1:1/state")
    with pytest.raises(StoreError, match=r"127\.0\.0\.1 state") as error:
        await store.start()
    assert "hunter2" not in str(error.value)


def test_the_public_surface_is_what_it_says() -> None:
    assert all(hasattr(muster.store, name) for name in muster.store.__all__)


def test_backends_are_loaded_when_needed_only() -> None:
    code = "import sys, muster.store; print([m for m in ('asyncpg', 'sqlite3') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30)
    assert done.stdout == "[]\n"
