"""Static bearer tokens from a CSV file in kube-apiserver's format: `token,user,uid[,"group1,group2"]`."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from muster.apiserver.auth.serviceaccounts import implicit_audiences
from muster.machinery.authentication import UserInfo


class TokenFileError(ValueError):
    """The file is malformed; the text names the line and what is expected."""


def load_token_file(path: Path) -> dict[str, UserInfo]:
    try:
        text = path.read_text("utf-8")
    except OSError as error:
        raise TokenFileError(f"{path}: cannot read the token file: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise TokenFileError(f"{path}: the token file is not UTF-8 text (byte {error.start})") from error
    users: dict[str, UserInfo] = {}
    for number, row in _rows(path, text):
        if not row or row[0].startswith("#"):
            continue
        if len(row) < 3:
            raise TokenFileError(f"{path}, line {number}: expected token,user,uid[,groups], found {len(row)} column(s)")
        token, name, uid = (column.strip() for column in row[:3])
        if not token or not name:
            raise TokenFileError(f"{path}, line {number}: token and user must not be empty")
        groups = tuple(g.strip() for g in row[3].split(",") if g.strip()) if len(row) > 3 else ()
        users[token] = UserInfo(name, uid, groups)
    return users


def _rows(path: Path, text: str) -> Iterator[tuple[int, list[str]]]:
    """(line number, columns)"""
    reader = csv.reader(text.splitlines(keepends=True), skipinitialspace=True, strict=True)
    try:
        for row in reader:
            yield reader.line_num, row
    except csv.Error as error:
        raise TokenFileError(f"{path}, line {reader.line_num}: {error}") from error


class StaticTokens:
    def __init__(self, users: Mapping[str, UserInfo]) -> None:
        self._users = dict(users)

    async def __call__(self, token: str, audiences: Sequence[str]) -> tuple[UserInfo, list[str]] | None:
        user, accepted = self._users.get(token), implicit_audiences(audiences)
        return None if user is None or accepted is None else (user, accepted)
