"""Errors of the operating system say what is in the way and what to do; whoever explained one already is not contradicted."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from muster.machinery.oserrors import explain_file_error, explain_listen_error
from muster.machinery.privatefiles import UnsafePath


@pytest.mark.parametrize(
    "number", [errno.ENOENT, errno.EACCES, errno.ENOTDIR, errno.EISDIR, errno.ENOSPC, errno.EROFS, errno.EMFILE, errno.ENAMETOOLONG]
)
def test_a_sentence_with_a_remedy_takes_the_place_of_the_systems_words(number: int) -> None:
    said = explain_file_error(OSError(number, os.strerror(number), "/data"))
    assert os.strerror(number) != said
    assert ": " in said, "what is wrong, and what to do"
    assert "{" not in said


def test_who_may_not_is_named() -> None:
    assert f"uid {os.geteuid()}" in explain_file_error(PermissionError(errno.EACCES, os.strerror(errno.EACCES), "/data"))
    assert f"uid {os.geteuid()}" in explain_listen_error(PermissionError(errno.EACCES, os.strerror(errno.EACCES)))


def test_words_of_whoever_raised_it_are_kept() -> None:
    assert explain_file_error(UnsafePath(Path("/data"), "others may write to it")) == "others may write to it"
    assert explain_listen_error(OSError("no socket today")) == "no socket today"


def test_what_is_not_in_the_table_keeps_the_systems_words() -> None:
    assert explain_file_error(OSError(errno.EXDEV, os.strerror(errno.EXDEV), "/data")) == os.strerror(errno.EXDEV)


def test_a_port_that_is_taken() -> None:
    assert explain_listen_error(OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))) == "another program listens there"
