"""Directories and files of one owner: what is refused, what is set right, and what nobody else can have a hand in."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from muster.machinery import privatefiles
from muster.machinery.privatefiles import UnsafePath, check_private_directory, make_private_directory, open_private, replace_private


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    made = tmp_path / "data"
    make_private_directory(made)
    return made


def as_somebody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then all that is there belongs to another."""
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)


def test_a_new_directory_is_its_owners_alone_whatever_the_umask_says(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        make_private_directory(tmp_path / "a/b")
    finally:
        os.umask(before)
    assert mode(tmp_path / "a/b") == 0o700


def test_a_directory_of_another_is_refused(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    as_somebody_else(monkeypatch)
    with pytest.raises(UnsafePath, match=f"belongs to another user .*: '{directory}'"):
        make_private_directory(directory)


def test_one_that_others_could_only_read_is_closed_to_them(directory: Path) -> None:
    directory.chmod(0o755)
    assert check_private_directory(directory) == 0o755
    assert mode(directory) == 0o755, "to look is not to take"
    make_private_directory(directory)
    assert mode(directory) == 0o700


@pytest.mark.parametrize("loose", [0o770, 0o707, 0o1777])
def test_one_that_others_could_write_to_is_refused_with_the_remedy(directory: Path, loose: int) -> None:
    directory.chmod(loose)
    with pytest.raises(UnsafePath, match="chmod 700"):
        check_private_directory(directory)
    assert mode(directory) == loose
    directory.chmod(0o700)
    check_private_directory(directory)


def test_something_of_another_in_it_is_refused_by_name(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (directory / "kubeconfig").symlink_to("/etc/passwd")
    own = privatefiles._require_own

    def require_own(path: Path, found: os.stat_result) -> None:
        if path.name == "kubeconfig":
            assert stat.S_ISLNK(found.st_mode), "the link is looked at, not what it leads to"
            as_somebody_else(monkeypatch)
        own(path, found)

    monkeypatch.setattr(privatefiles, "_require_own", require_own)
    with pytest.raises(UnsafePath, match="kubeconfig"):
        check_private_directory(directory)


def test_a_directory_that_anybody_may_swap_is_refused(directory: Path) -> None:
    directory.parent.chmod(0o777)
    with pytest.raises(UnsafePath, match=f"everybody may write to {directory.parent}"):
        check_private_directory(directory)
    directory.parent.chmod(0o1777)
    check_private_directory(directory)


def test_an_own_link_to_an_own_directory_serves(directory: Path) -> None:
    (directory.parent / "link").symlink_to(directory)
    make_private_directory(directory.parent / "link")


def test_a_link_is_not_followed_for_reading_or_writing(directory: Path) -> None:
    victim = directory.parent / "victim"
    victim.write_text("mine")
    (directory / "lock").symlink_to(victim)
    for flags in (os.O_RDWR | os.O_CREAT, os.O_RDONLY, os.O_WRONLY | os.O_APPEND | os.O_CREAT):
        with pytest.raises(UnsafePath, match="symbolic link"):
            open_private(directory / "lock", flags)
    replace_private(directory / "lock", "new")
    assert victim.read_text() == "mine"
    assert not (directory / "lock").is_symlink()


def test_a_file_with_a_second_name_is_refused(directory: Path) -> None:
    (directory / "log").write_text("")
    (directory.parent / "other").hardlink_to(directory / "log")
    with pytest.raises(UnsafePath, match="second name"):
        open_private(directory / "log", os.O_WRONLY)


def test_a_pipe_is_no_file(directory: Path) -> None:
    os.mkfifo(directory / "log")
    with pytest.raises(UnsafePath, match="is no file"):
        open_private(directory / "log", os.O_RDWR)


def test_a_file_of_another_is_refused(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (directory / "log").write_text("")
    as_somebody_else(monkeypatch)
    with pytest.raises(UnsafePath, match="belongs to another user"):
        open_private(directory / "log", os.O_WRONLY)


def test_files_are_their_owners_alone(directory: Path) -> None:
    before = os.umask(0)
    try:
        os.close(open_private(directory / "lock", os.O_RDWR | os.O_CREAT))
        replace_private(directory / "kubeconfig", "text")
        replace_private(directory / "script", b"text", mode=0o700, durable=True)
    finally:
        os.umask(before)
    assert [mode(directory / name) for name in ("lock", "kubeconfig", "script")] == [0o600, 0o600, 0o700]
    (directory / "lock").chmod(0o644)
    os.close(open_private(directory / "lock", os.O_RDWR))
    assert mode(directory / "lock") == 0o600


def test_a_file_that_cannot_be_written_leaves_the_old_one_and_nothing_beside(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace_private(directory / "kubeconfig", "old")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        replace_private(directory / "kubeconfig", "new", durable=True)
    assert [(each.name, each.read_text()) for each in directory.iterdir()] == [("kubeconfig", "old")]


def test_readers_see_the_old_or_the_new(directory: Path) -> None:
    """Another process reads while this one replaces."""
    path = directory / "file"
    replace_private(path, "a" * 100_000)
    script = (
        "import pathlib, sys\np = pathlib.Path(sys.argv[1])\nprint('reading', flush=True)\n"
        "while len(t := p.read_text()) == 100_000 and t.count(t[0]) == 100_000 and t[0] != 'z': pass\nprint(len(t), t[0])"
    )
    reader = subprocess.Popen([sys.executable, "-c", script, str(path)], stdout=subprocess.PIPE, text=True)
    assert reader.stdout is not None
    assert reader.stdout.readline() == "reading\n"
    for number in range(200):
        replace_private(path, "bc"[number % 2] * 100_000)
    replace_private(path, "z" * 100_000)
    assert reader.communicate(timeout=30)[0] == "100000 z\n"
