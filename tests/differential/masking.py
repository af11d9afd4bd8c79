"""Replaces what two servers cannot have in common by names that they can.

One `Mask` serves one case on one server. Identities (uids, object revisions, generated names) are numbered in the order
they appear, so "the same revision as before" and "a new uid" are still compared. Times, tokens, certificates, addresses
and ages become a word that says what they were. List revisions, page tokens and table ages depend on what else the
server does and are never compared.
"""

import re
from typing import Any

_UUID = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")
_PATTERNS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z"), "<microtime>"),
    (re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)"), "<time>"),
    (re.compile(r"\b\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d [+-]\d{4}"), "<time>"),
    (re.compile(r"\beyJ[\w-]+\.[\w-]+\.[\w-]+"), "<jwt>"),
    (re.compile(r"-----BEGIN [A-Z ]+-----[\s\S]*?-----END [A-Z ]+-----\n?"), "<pem>"),
    (re.compile(r"\bLS0tLS1CRUdJTi[A-Za-z0-9+/=]+"), "<pem>"),
    (re.compile(r"\b(127\.0\.0\.1|localhost):\d+"), r"\1:<port>"),
    (re.compile(r"\b10\.(0|96)\.\d+\.\d+\b"), "<ip>"),
    (re.compile(r"(\bToo large resource version: \d+, current: )\d+"), r"\1<rv>"),
    (re.compile(r"(\btoo old resource version: \d+ )\(\d+\)"), r"\1(<rv>)"),
    (re.compile(r'(\bresourceVersion\\?"?: ?\\?")\d+'), r"\1<rv>"),
    (re.compile(r"\?hash=[0-9A-Za-z]+"), "?hash=<hash>"),
    (re.compile(r"X509SHA256=[0-9a-f]{64}"), "X509SHA256=<hash>"),
)
_KEPT_BASE = 58
"""So much of `generateName` survives in the name; the rest makes room for the suffix."""
_OPAQUE = {
    "continue": "<continue>",
    "storageVersionHash": None,
    "kubernetes.io/description": "<description>",
}


class Mask:
    """Masks records of one case; `prefix` is the URL path a logical cluster adds in front of every path."""

    def __init__(self, prefix: str = "") -> None:
        self._prefix = prefix
        self._revisions: dict[str, str] = {}
        self._uids: dict[str, str] = {}
        self._generated: dict[str, str] = {}
        self._saved: dict[str, str] = {}

    def remember(self, name: str, value: Any) -> None:
        """A saved value: where it turns up in a text it is written as its name."""
        if isinstance(value, str) and value and value not in self._generated:
            self._saved[value] = f"<{name}>"

    def text(self, text: str) -> str:
        if self._prefix:
            text = text.replace(self._prefix + "/", "/")
        for pattern, word in _PATTERNS:
            text = pattern.sub(word, text)
        text = _UUID.sub(lambda found: self._number(self._uids, found[0], "uid"), text)
        for name, word in self._generated.items():
            text = text.replace(name, word)
        return text

    def prose(self, text: str) -> str:
        """A text for people: saved revisions and the like may stand anywhere in it."""
        text = self.text(text)
        for value, word in self._saved.items():
            text = re.sub(rf"(?<![\w.]){re.escape(value)}(?![\w.])", word, text)
        return text

    def value(self, value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return self._object(value)
        if isinstance(value, list):
            return [self.value(item, key) for item in value]
        if isinstance(value, str):
            return self.prose(value) if key in ("message", "note") else self.text(value)
        return value

    def _object(self, value: dict[str, Any]) -> dict[str, Any]:
        if isinstance(value.get("columnDefinitions"), list):
            value = _without_ages(value)
        elif value.get("kind") == "Table":
            value = _without_ages_by_sight(value)
        metadata = value.get("metadata")
        if isinstance(metadata, dict):
            self._learn_generated_name(metadata)
        is_list = isinstance(value.get("items"), list) or "columnDefinitions" in value
        masked: dict[str, Any] = {}
        for key, item in value.items():
            if key == "metadata" and isinstance(item, dict):
                masked[key] = self._metadata(item, is_list, value.get("kind"))
            elif key in _OPAQUE and isinstance(item, str | int) and item != "":
                word = _OPAQUE[key]
                if word is not None:
                    masked[key] = word
            else:
                masked[key] = self.value(item, key)
        if _is_apply_conflict(masked):
            masked = _in_manager_order(masked)
        return masked

    def _metadata(self, metadata: dict[str, Any], is_list: bool, kind: Any) -> dict[str, Any]:
        masked = self._object({key: item for key, item in metadata.items() if key != "resourceVersion"})
        if isinstance(masked.get("managedFields"), list):
            # Entries are ordered by time, which has the grain of a second: whether it ticks between two writes is luck.
            masked["managedFields"].sort(key=_manager)
        revision = metadata.get("resourceVersion")
        if revision in (None, "", "0"):
            return masked if revision is None else {**masked, "resourceVersion": revision}
        # An object without a name is a bookmark: its revision moves with the whole server, like a list's.
        shared = is_list or ("name" not in metadata and kind not in (None, "Status"))
        masked["resourceVersion"] = "<rv>" if shared else self._number(self._revisions, str(revision), "rv")
        return masked

    def _learn_generated_name(self, metadata: dict[str, Any]) -> None:
        base, name = metadata.get("generateName"), metadata.get("name")
        if isinstance(base, str) and isinstance(name, str) and base and name not in (base, base[:_KEPT_BASE]):
            base = base[:_KEPT_BASE]
            if not name.startswith(base):
                return
            word = f"{base}<{len(name) - len(base)} random>"
            known = sum(1 for other in self._generated.values() if other.startswith(word))
            self._generated.setdefault(name, word if not known else f"{word}{known + 1}")

    @staticmethod
    def _number(known: dict[str, str], value: str, word: str) -> str:
        return known.setdefault(value, f"<{word}{len(known) + 1}>")


def _is_apply_conflict(status: dict[str, Any]) -> bool:
    return status.get("kind") == "Status" and str(status.get("message", "")).startswith("Apply failed with ")


def _in_manager_order(status: dict[str, Any]) -> dict[str, Any]:
    """The real server lists the managers of a conflict in the random order of a Go map."""
    first, *managers = str(status["message"]).split("conflicts with ")
    details = dict(status.get("details") or {})
    details["causes"] = sorted(details.get("causes") or (), key=lambda cause: (str(cause.get("message")), str(cause.get("field"))))
    message = first + "".join("conflicts with " + part.rstrip("\n") + "\n" for part in sorted(managers))
    return {**status, "message": message.rstrip("\n"), "details": details}


def _manager(entry: dict[str, Any]) -> tuple[str, ...]:
    return tuple(str(entry.get(key, "")) for key in ("operation", "manager", "subresource", "apiVersion"))


_AGE = re.compile(r"(\d+[smhdy]){1,2}")


def _without_ages_by_sight(table: dict[str, Any]) -> dict[str, Any]:
    """A Table without columns (later events of a watch): only its cells tell which of them are ages."""
    rows = [
        {**row, "cells": ["<age>" if isinstance(cell, str) and _AGE.fullmatch(cell) else cell for cell in row.get("cells", ())]}
        for row in table.get("rows") or ()
    ]
    return {**table, "rows": rows}


def _without_ages(table: dict[str, Any]) -> dict[str, Any]:
    ages = {
        index
        for index, column in enumerate(table["columnDefinitions"])
        if column.get("name") in ("Age", "Last Seen", "First Seen", "Created At")
    }
    rows = [
        {**row, "cells": ["<age>" if index in ages else cell for index, cell in enumerate(row.get("cells", ()))]}
        for row in table.get("rows") or ()
    ]
    # Column descriptions are prose for people; ours has none.
    columns = [{key: item for key, item in column.items() if key != "description"} for column in table["columnDefinitions"]]
    return {**table, "columnDefinitions": columns, "rows": rows}
