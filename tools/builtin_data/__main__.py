"""Writes src/muster/apiserver/registry/data/*.json.gz from the Kubernetes Go modules of the version in `served.py`.

Usage: python -m tools.builtin_data. Needs `go` to find or download the modules; the product needs neither. Output is deterministic
(sorted, no timestamps), and `manifest.json` records the source version and each file's hash, which a test compares.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from . import columns, discovery, openapi
from .gotypes import Reader
from .served import GROUP_VERSIONS, KUBERNETES, STAGING

_DATA = Path(__file__).parents[2] / "src/muster/apiserver/registry/data"
_MODULES = {
    "k8s.io/kubernetes": KUBERNETES,
    "k8s.io/api": STAGING,
    "k8s.io/apimachinery": STAGING,
    "k8s.io/apiextensions-apiserver": STAGING,
    "k8s.io/kube-aggregator": STAGING,
}
_META = "k8s.io/apimachinery/pkg/apis/meta/v1"
_META_KINDS = (
    "APIGroup", "APIGroupList", "APIResourceList", "APIVersions", "CreateOptions", "DeleteOptions", "GetOptions", "List",
    "ListOptions", "PatchOptions", "Status", "UpdateOptions", "WatchEvent", "PartialObjectMetadata", "PartialObjectMetadataList",
)  # fmt: skip


def _modules() -> dict[str, Path]:
    with tempfile.TemporaryDirectory() as scratch:
        Path(scratch, "go.mod").write_text("module scratch\n")
        found = {}
        for module, version in _MODULES.items():
            command = ["go", "mod", "download", "-json", f"{module}@{version}"]
            found[module] = Path(json.loads(subprocess.run(command, cwd=scratch, check=True, capture_output=True).stdout)["Dir"])
        return found


def _package_of(definition: str) -> tuple[str, str]:
    """`io.k8s.api.core.v1.Pod` → (`k8s.io/api/core/v1`, `Pod`)."""
    _, _, *path, name = definition.split(".")
    return "/".join(["k8s.io", *path]), name


def _types(modules: dict[str, Path], schemas: dict[str, Any]) -> dict[str, Any]:
    reader = Reader(modules)
    kinds: dict[str, str] = {}
    served = set(GROUP_VERSIONS)
    for definition, schema in schemas.items():
        for gvk in schema.get("x-kubernetes-group-version-kind", ()):
            package, name = _package_of(definition)
            if (gvk["group"], gvk["version"]) in served and package != _META and package.startswith("k8s.io/"):
                reader.add(package, name)
                kinds[f"{gvk['group']}/{gvk['version']}/{gvk['kind']}"] = definition
    for name in _META_KINDS:
        reader.add(_META, name)
        kinds[f"meta.k8s.io/v1/{name}"] = f"io.k8s.apimachinery.pkg.apis.meta.v1.{name}"
    return {"kinds": dict(sorted(kinds.items())), "exprs": reader.exprs, "types": dict(sorted(reader.types.items()))}


def main() -> None:
    modules = _modules()
    kubernetes = modules["k8s.io/kubernetes"]
    schemas = openapi.collect(kubernetes)
    files = {
        "schemas.json.gz": schemas,
        "resources.json.gz": discovery.collect(kubernetes),
        "types.json.gz": _types(modules, schemas),
        "columns.json.gz": columns.collect(kubernetes),
    }
    _DATA.mkdir(parents=True, exist_ok=True)
    manifest: dict[str, Any] = {"kubernetes": KUBERNETES, "staging": STAGING, "files": {}}
    for name, content in files.items():
        text = json.dumps(content, separators=(",", ":"), ensure_ascii=False).encode()
        packed = gzip.compress(text, 9, mtime=0)
        (_DATA / name).write_bytes(packed)
        manifest["files"][name] = hashlib.sha256(text).hexdigest()
        print(f"{name}: {len(text)} bytes, {len(packed)} packed")
    (_DATA / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n")


if __name__ == "__main__":
    main()
