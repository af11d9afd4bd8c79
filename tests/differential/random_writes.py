"""Random writes to an object: patches of all kinds, applied configurations, replacements, by several managers."""

from dataclasses import dataclass, replace
from random import Random
from typing import Any

import orjson

from tests.differential.random_kinds import FIXED, Kind, Object, merged, text_map
from tests.support.client import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH

MANAGERS = ("m1", "m2", "kubectl")
CROWD = tuple(f"u{number}" for number in range(14))
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


@dataclass(frozen=True)
class Write:
    """One request to an object. `content_type` is empty for a PUT."""

    content_type: str
    body: Any
    manager: str
    force: bool = False
    subresource: str = ""
    version: str = ""
    """The API version written in, where it is not the kind's own."""


def with_nulls(rng: Random, value: Any, chance: float = 0.2) -> Any:
    """Some values replaced by null, as merge patches do to delete them."""
    if isinstance(value, dict):
        return {
            key: None if key not in FIXED and rng.random() < chance else with_nulls(rng, item, chance)
            for key, item in value.items()
        }
    return [with_nulls(rng, item, chance / 4) for item in value] if isinstance(value, list) else value


def json_patch(rng: Random, live: Object) -> list[Object]:
    """A few operations on places that exist, or nearly."""
    places = [*_places(live, ""), ("/metadata/labels", {"a": "1"})]
    made: list[Object] = []
    for _ in range(rng.randint(1, 3)):
        path, value = rng.choice(places)
        other, _ = rng.choice(places)
        made.append(
            rng.choice(
                [
                    {"op": "add", "path": path, "value": value},
                    {"op": "replace", "path": path, "value": value},
                    {"op": "remove", "path": path},
                    {"op": "test", "path": path, "value": value},
                    {"op": "copy", "from": other, "path": path},
                    {"op": "move", "from": other, "path": path},
                    {"op": "add", "path": "/metadata/labels/new~1one", "value": "1"},
                    {"op": "test", "path": "/metadata/nothing", "value": rng.choice([None, "1"])},
                    {"op": "replace", "path": "/metadata/annotations", "value": {"a": "1"}},
                ]
            )
        )
    return made


def _places(value: Any, path: str) -> Any:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        if path == "" and key in ("apiVersion", "kind", "status"):
            continue
        if key in FIXED or (path == "/metadata" and key not in ("labels", "annotations", "finalizers")):
            continue
        below = f"{path}/{str(key).replace('~', '~0').replace('/', '~1')}"
        if below != "/metadata":
            yield below, item
        yield from _places(item, below)
    if isinstance(value, list):
        yield f"{path}/-", value[0] if value else "z"
        yield f"{path}/-1", value[0] if value else "z"


def random_write(rng: Random, kind: Kind, live: Object) -> Write:
    if kind.status is not None and rng.random() < 0.12:
        return _status_write(rng, kind, live, kind.status(rng))
    version = rng.choice(kind.versions) if kind.versions and rng.random() < 0.3 else kind.api_version
    write = _plain_write(rng, kind, live, version)
    return replace(write, version=version)


def _status_write(rng: Random, kind: Kind, live: Object, status: Object) -> Write:
    body = merged(kind.identity(live["metadata"]["name"]), status)
    if rng.random() < 0.3:
        body["metadata"]["labels"] = text_map(rng)
    if rng.random() < 0.5:
        return Write(APPLY_PATCH, body, rng.choice(MANAGERS), rng.random() < 0.7, "status", kind.api_version)
    return Write(MERGE_PATCH, body, rng.choice(MANAGERS), False, "status", kind.api_version)


def _plain_write(rng: Random, kind: Kind, live: Object, version: str) -> Write:
    manager = rng.choice(MANAGERS)
    roll = rng.random()
    config = kind.config(rng)
    identity = {**kind.identity(live["metadata"]["name"]), "apiVersion": version}
    if roll < 0.5:
        applied = merged(identity, config)
        if rng.random() < 0.03:
            applied["metadata"]["bogus"] = 1
        elif rng.random() < 0.08:
            kind.damage(rng, applied)
        return Write(APPLY_PATCH, applied, manager, force=rng.random() < 0.6)
    if rng.random() < 0.3:
        manager = rng.choice(CROWD)
    if roll < 0.6:
        return Write(JSON_PATCH, json_patch(rng, live), manager)
    if roll < 0.65:
        recorded = merged(merged(identity, {"metadata": {"annotations": {}}}), config)
        patch = merged(config, {"metadata": {"annotations": {LAST_APPLIED: orjson.dumps(recorded).decode() + "\n"}}})
        return Write(MERGE_PATCH, patch, "kubectl-client-side-apply")
    if roll < 0.75 or (kind.custom and roll < 0.9):
        return Write(MERGE_PATCH, with_nulls(rng, config), manager)
    if roll < 0.9:
        patch = with_nulls(rng, config)
        kind.sprinkle(rng, patch)
        return Write(STRATEGIC_PATCH, patch, manager)
    return Write("", _replacement(rng, kind, live, config, version), manager)


def _replacement(rng: Random, kind: Kind, live: Object, config: Object, version: str) -> Object:
    """The body of a PUT; now and then with managedFields a client made up."""
    made = {**live, **{key: value for key, value in merged(kind.base(rng), config).items() if key != "metadata"}}
    made["apiVersion"] = version
    made["metadata"] = {**live["metadata"], **config.get("metadata", {})}
    entries = live["metadata"].get("managedFields", [])
    versions = [version, "", *kind.versions] if kind.custom else [version, "", "v9"]
    roll = rng.random()
    if roll < 0.2:
        made["metadata"]["managedFields"] = rng.choice([[], [{}], entries[:1], entries[1:]])
    elif roll < 0.3 and entries:
        made["metadata"]["managedFields"] = [{**entries[0], "apiVersion": rng.choice(versions)}, *entries[1:]]
    elif roll < 0.5:
        made["metadata"].pop("managedFields", None)
    return made
