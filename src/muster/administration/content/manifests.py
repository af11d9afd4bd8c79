"""Reads manifests from files: YAML or JSON, several in one file, directories, lists; each needs apiVersion and kind.

An invalid manifest is refused with the file and the number of its document.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from muster.administration.errors import AdministrationError
from muster.api import Document
from muster.kube import yaml
from muster.machinery.oserrors import explain_file_error
from muster.registration.kinds import MANIFEST_WORKS

SUFFIXES: Final = (".yaml", ".yml", ".json")
STDIN: Final = "-"


def read_manifests(sources: Iterable[str], *, recursive: bool = False) -> list[Document]:
    """All manifests in order; a source is a file, a directory, or `-`. Raises AdministrationError."""
    named = list(sources)
    found = [manifest for source in named for name, text in _texts(source, recursive) for manifest in _manifests(name, text)]
    if not found:
        shallow = not recursive and any(Path(source).is_dir() for source in named)
        remedy = "add --recursive to read subdirectories" if shallow else ""
        raise AdministrationError(f"--filename {','.join(named)}: there is no manifest", remedy)
    return found


def is_work(manifest: Document) -> bool:
    return (manifest["apiVersion"], manifest["kind"]) == (MANIFEST_WORKS.api_version, MANIFEST_WORKS.kind)


def _texts(source: str, recursive: bool) -> Iterator[tuple[str, bytes]]:
    if source == STDIN:
        yield "standard input", sys.stdin.buffer.read()
        return
    path = Path(source)
    try:
        if path.is_dir():
            inside = sorted(one for one in (path.rglob("*") if recursive else path.iterdir()) if one.suffix in SUFFIXES)
            for file in filter(Path.is_file, inside):
                yield str(file), file.read_bytes()
        else:
            yield source, path.read_bytes()
    except OSError as error:
        raise AdministrationError(f"--filename {source}: {explain_file_error(error)}") from None


def _manifests(name: str, text: bytes) -> Iterator[Document]:
    try:
        documents = list(yaml.load_all(text))
    except yaml.YAMLError as error:
        raise AdministrationError(f"--filename {name}: {error}") from None
    for number, document in enumerate(documents, 1):
        if document is not None:
            yield from _flattened(document, f"--filename {name}, document {number}")


def _flattened(document: object, where: str) -> Iterator[Document]:
    if not isinstance(document, dict):
        raise AdministrationError(f"{where}: expected a map")
    for field in ("apiVersion", "kind"):
        if not isinstance(document.get(field), str) or not document[field]:
            raise AdministrationError(f"{where}: {field}: not set")
    if document["kind"].endswith("List") and isinstance(document.get("items"), list):
        for number, item in enumerate(document["items"], 1):
            yield from _flattened(item, f"{where}, item {number}")
        return
    metadata = document.get("metadata")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str) or not metadata["name"]:
        raise AdministrationError(f"{where}: metadata.name: not set")
    yield document
