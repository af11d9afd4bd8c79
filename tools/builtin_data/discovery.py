"""The discovery rows (plural, kind, scope, verbs, short names, categories, subresources) as the real server publishes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from .served import GROUP_VERSIONS, UNSERVED, UNSERVED_RESOURCES, document


def collect(kubernetes: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for group, version in GROUP_VERSIONS:
        path = kubernetes / "api/discovery" / f"{document(group, version)}.json"
        by_name: dict[str, dict[str, Any]] = {}
        for row in json.loads(path.read_text())["resources"]:
            name: str = row["name"]
            parent, _, sub = name.partition("/")
            if name in UNSERVED or parent in UNSERVED_RESOURCES:
                continue
            if sub:
                keep = {key: row[key] for key in ("kind", "group", "version") if row.get(key)}
                by_name[parent].setdefault("subresources", {})[sub] = {**keep, "verbs": row["verbs"]}
                continue
            by_name[name] = {
                "group": group,
                "version": version,
                "plural": name,
                "kind": row["kind"],
                "namespaced": row["namespaced"],
            }
            by_name[name]["singular"] = row["singularName"]
            for key, field in (("verbs", "verbs"), ("shortNames", "short_names"), ("categories", "categories")):
                if row.get(key):
                    by_name[name][field] = row[key]
        rows.extend(by_name.values())
    return rows
