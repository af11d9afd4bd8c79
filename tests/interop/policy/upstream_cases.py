"""Policies of upstream's own tests, with the objects beside them, from the module that the oracle is built of."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from muster.kube.yaml import YAMLError, load_all
from muster.machinery.objects import Object
from tests.support.peers import ROOT

MODULE = "open-cluster-management.io/config-policy-controller"
POLICY = ("policy.open-cluster-management.io/v1", "ConfigurationPolicy")


@dataclass(frozen=True)
class Case:
    name: str
    policy: Object
    objects: list[Object]


@lru_cache
def module_directory() -> Path:
    command = ["go", "list", "-m", "-f", "{{.Dir}}", MODULE]
    found = subprocess.run(command, cwd=ROOT / "peers" / "policy", capture_output=True, text=True, check=True)
    return Path(found.stdout.strip())


def documents(path: Path) -> list[Object]:
    """Of a file; none of one that is no YAML, as some are on purpose."""
    try:
        return [document for document in load_all(path.read_bytes()) if isinstance(document, dict)]
    except YAMLError:
        return []


def _is_policy(document: Object) -> bool:
    return (document.get("apiVersion"), document.get("kind")) == POLICY


def cases() -> Iterator[Case]:
    """Each policy on an empty cluster, and with the objects of the other files in its directory."""
    tests = module_directory() / "test"
    for directory in sorted({path.parent for part in ("resources", "dryrun") for path in (tests / part).rglob("*.yaml")}):
        found = {path: documents(path) for path in sorted(directory.glob("*.yaml"))}
        objects = [document for content in found.values() for document in content if not _is_policy(document)]
        usable = [obj for obj in objects if isinstance(obj.get("metadata"), dict) and obj["metadata"].get("name")]
        for path, content in found.items():
            for number, policy in enumerate(filter(_is_policy, content)):
                name = f"{path.relative_to(tests)}[{number}]"
                yield Case(f"{name} alone", policy, [])
                if usable:
                    yield Case(f"{name} with objects", policy, usable)
