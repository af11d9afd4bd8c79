"""Merges contexts for clusters into an existing kubeconfig.

Entries for other servers are never replaced by accident: an entry of the same name counts as an earlier one of ours only if its
server is a gateway, and a user only if all its contexts are.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from muster.administration.errors import AdministrationError, Refused
from muster.gateway.names import PROXY, RESOURCE
from muster.kube import yaml

Document = dict[str, Any]


def read(text: bytes | str, path: str) -> Document:
    """Parse an existing kubeconfig. Raises AdministrationError."""
    try:
        found = yaml.load(text)
    except yaml.YAMLError as error:
        raise AdministrationError(f"{path}: {error}") from None
    if found is None:
        return {}
    collections = ("clusters", "users", "contexts")
    if not isinstance(found, dict) or any(not isinstance(found.get(collection), list | None) for collection in collections):
        raise AdministrationError(f"{path}: not a kubeconfig", "choose another file")
    return found


def merge(there: Mapping[str, Any], ours: Mapping[str, Any], *, overwrite: bool = False) -> Document:
    """`there` with our clusters, users and contexts; its current context stays, if it has one.

    Raises Refused if an entry for another server has one of our names, unless `overwrite` is set.
    """
    merged: Document = {"apiVersion": "v1", "kind": "Config", **deepcopy(dict(there))}
    for collection, kind in (("clusters", "cluster"), ("users", "user"), ("contexts", "context")):
        known = {one.get("name"): one for one in merged.get(collection) or () if isinstance(one, dict)}
        for one in ours[collection]:
            before = known.get(one["name"])
            if before is not None and before != one and not overwrite and not _is_ours(there, collection, one["name"]):
                remedy = "choose another --prefix or file, or replace it with --overwrite"
                raise Refused(f"there is a {kind} {one['name']} for another server", remedy)
            known[one["name"]] = deepcopy(one)
        merged[collection] = list(known.values())
    merged["current-context"] = merged.get("current-context") or ours["current-context"]
    return merged


def _is_ours(document: Mapping[str, Any], collection: str, name: str) -> bool:
    clusters, contexts = (_entries(document, kind) for kind in ("clusters", "contexts"))
    if collection == "clusters":
        return _by_gateway(clusters.get(name))
    concerned = [one for other, one in contexts.items() if (other if collection == "contexts" else one.get("user")) == name]
    return all(_by_gateway(clusters.get(one.get("cluster"))) for one in concerned)


def _by_gateway(cluster: Mapping[str, Any] | None) -> bool:
    server = str((cluster or {}).get("server") or "").rstrip("/")
    return f"/{RESOURCE}/" in server and server.endswith(f"/{PROXY}")


def _entries(document: Mapping[str, Any], collection: str) -> dict[Any, Mapping[str, Any]]:
    kind = collection.removesuffix("s")
    listed = [one for one in document.get(collection) or () if isinstance(one, dict)]
    return {one.get("name"): one.get(kind) or {} for one in listed}
