"""Edits of the text `mapRoles` in ConfigMap kube-system/aws-auth, which keep all other entries byte for byte.

EKS authenticates nodes and administrators by this text as well. A text that does not parse locks all of them out, and so might one
that was parsed and written again by a YAML library with slightly different rules. So the text itself is edited: YAML tokens give
the lines of an entry, and the result is parsed again before it is returned. If another entry has changed, or ours is not as wanted,
the edit is refused (`Unreadable`), and nothing is written.

Of several entries for one role the last one is in effect, and the case of letters does not matter; adding an entry removes all
others of its role.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import orjson
import yaml

NAME: Final = "aws-auth"
NAMESPACE: Final = "kube-system"
KEY: Final = "mapRoles"
_ODD: Final = f"{KEY} is written in a way that cannot be edited safely; write it as a plain list of mappings"


class Unreadable(Exception):
    """The text is not a list of mappings, or its style cannot be edited without changing other entries."""


@dataclass(frozen=True)
class Mapped:
    """A mapping of a role to a user and groups of the hub."""

    role_arn: str
    username: str
    groups: tuple[str, ...]

    def matches(self, entry: Mapping[str, Any]) -> bool:
        return entry == {"rolearn": self.role_arn, "username": self.username, "groups": list(self.groups)}


def mapped_roles(text: str) -> list[Mapping[str, Any]]:
    """All entries of the text. Raises Unreadable."""
    try:
        found = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise Unreadable(f"{KEY} is not YAML: {_first_line(error)}") from None
    if found is None:
        return []
    if not isinstance(found, list) or not all(isinstance(entry, dict) for entry in found):
        raise Unreadable(f"{KEY} is not a list of mappings")
    return found


def edited(text: str, wanted: Collection[Mapped], unwanted: Collection[str] = ()) -> str:
    """The text with the wanted entries and without entries for the roles in `unwanted`; the same text if nothing changes.

    Raises Unreadable.
    """
    before = mapped_roles(text)
    roles = [role_of(entry) for entry in before]
    of_role = {one.role_arn.lower(): one for one in wanted}
    entries = dict(zip(roles, before, strict=True))
    good = {role for role, one in of_role.items() if roles.count(role) == 1 and one.matches(entries[role])}
    leaving = ({role.lower() for role in unwanted} | of_role.keys()) - good
    coming = [one for role, one in of_role.items() if role not in good]
    indexes = [location for location, role in enumerate(roles) if role in leaving]
    if not indexes and not coming:
        return text
    after = _appended(_cut(text, indexes, len(before)), coming)
    kept = [entry for location, entry in enumerate(before) if location not in indexes]
    _check(mapped_roles(after), kept, coming)
    return after


def role_of(entry: Mapping[str, Any]) -> str:
    """The role's ARN in lower case, for comparisons; empty if there is none.

    EKS accepts the field's name in any case and prefers lower case.
    """
    named = [value for name, value in sorted(entry.items(), key=lambda field: str(field[0])) if str(name).lower() == "rolearn"]
    return str(named[-1] or "").lower() if named else ""


def _check(found: list[Mapping[str, Any]], kept: list[Mapping[str, Any]], coming: list[Mapped]) -> None:
    ours = found[len(kept) :]
    if found[: len(kept)] != kept or len(ours) != len(coming) or not all(map(Mapped.matches, coming, ours)):
        raise Unreadable(_ODD)


def _cut(text: str, indexes: Iterable[int], count: int) -> str:
    """The text without the entries of these indexes."""
    for location in sorted(indexes, reverse=True):
        items = _items_in_brackets(text) if _in_brackets(text) else _items(text)
        if len(items) != count:
            raise Unreadable(_ODD)
        begin, end = items[location]
        text, count = text[:begin] + text[end:], count - 1
    return text


def _items(text: str) -> list[tuple[int, int]]:
    """Start and end of each entry of a block list: whole lines, with comments inside the entry and without those before it."""
    items: list[tuple[int, int]] = []
    level: int | None = None
    ended = 0
    for token in yaml.scan(text, Loader=yaml.SafeLoader):
        if isinstance(token, yaml.BlockEntryToken) and (level is None or token.start_mark.column == level):
            level = token.start_mark.column
            begin = token.start_mark.index - token.start_mark.column
            if text[begin : token.start_mark.index].strip():
                raise Unreadable(_ODD)
            items = _closed(items, ended)
            items.append((begin, len(text)))
        if isinstance(token, yaml.ScalarToken | yaml.FlowSequenceEndToken | yaml.FlowMappingEndToken | yaml.AliasToken):
            line_end = text.find("\n", max(token.end_mark.index - 1, 0))
            ended = len(text) if line_end < 0 else line_end + 1
    return _closed(items, ended)


def _closed(items: list[tuple[int, int]], end: int) -> list[tuple[int, int]]:
    """The items with the end of the last one set."""
    return [*items[:-1], (items[-1][0], end)] if items else []


def _items_in_brackets(text: str) -> list[tuple[int, int]]:
    """Start and end of each entry of a flow list (in brackets), each with the comma that separates it from its neighbour."""
    entries = yaml.compose(text, Loader=yaml.SafeLoader).value
    bounds = [(entry.start_mark.index, entry.end_mark.index) for entry in entries]
    if len(bounds) < 2:
        return bounds
    following = [(begin, after) for (begin, _), (after, _) in pairwise(bounds)]
    return [*following, (bounds[-2][1], bounds[-1][1])]


def _in_brackets(text: str) -> bool:
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    return isinstance(root, yaml.SequenceNode) and bool(root.flow_style)


def _appended(text: str, entries: list[Mapped]) -> str:
    if not entries:
        return text
    if _in_brackets(text):
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        end = root.end_mark.index - 1
        between = ", " if root.value else ""
        return text[:end] + between + ", ".join(map(_written_in_brackets, entries)) + text[end:]
    if text and not text.endswith("\n"):
        text += "\n"
    return text + "".join(_written(entry, " " * _column(text)) for entry in entries)


def _column(text: str) -> int:
    dashes = (
        token.start_mark.column for token in yaml.scan(text, Loader=yaml.SafeLoader) if isinstance(token, yaml.BlockEntryToken)
    )
    return next(dashes, 0)


def _written(entry: Mapped, indent: str) -> str:
    lines = [
        f"- rolearn: {entry.role_arn}",
        f"  username: {entry.username}",
        "  groups:",
        *(f"  - {group}" for group in entry.groups),
    ]
    return "".join(f"{indent}{line}\n" for line in lines)


def _written_in_brackets(entry: Mapped) -> str:
    entry_fields = {"rolearn": entry.role_arn, "username": entry.username, "groups": list(entry.groups)}
    return orjson.dumps(entry_fields).decode()


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
