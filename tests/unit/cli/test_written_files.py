"""Files that commands write where they are told to: theirs alone, in one step, and never through a link."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import click
import pytest

from muster.cli.connection import write_file


def test_a_file_that_is_there_is_replaced_and_becomes_the_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("a longer text than the new one")
    path.chmod(0o644)
    write_file(str(path), "secret\n", "--output-file")
    assert path.read_text() == "secret\n"
    assert path.stat().st_mode & 0o777 == 0o600


def test_what_a_link_leads_to_is_left_alone(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / "token").symlink_to(victim)
    write_file(str(tmp_path / "token"), "secret\n", "--output-file", 0o700)
    assert victim.read_text() == "mine"
    assert (tmp_path / "token").read_text() == "secret\n"
    assert (tmp_path / "token").lstat().st_mode & 0o777 == 0o700


def test_a_pipe_is_written_into(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()
    write_file(str(pipe), "secret\n", "--output-file")
    reader.join(10)
    assert read == ["secret\n"]
    assert pipe.is_fifo()


def test_a_place_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        click.ClickException, match=f"--output-file {tmp_path}/no/token: there is no such file or directory: check the path"
    ):
        write_file(f"{tmp_path}/no/token", "secret\n", "--output-file")
