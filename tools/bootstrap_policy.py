"""Records the RBAC objects a fresh kube-apiserver creates, as data for our bootstrap policy.

    python -m tools.bootstrap_policy https://127.0.0.1:PORT CA_FILE TOKEN

Only names, labels, rules, role references and subjects are kept: they are the interface that bindings and upgrades rely on.
"""

from __future__ import annotations

import gzip
import json
import ssl
import sys
import urllib.request
from pathlib import Path
from typing import Any

TARGET = Path(__file__).parent.parent / "src/muster/apiserver/auth/data/policy.json.gz"
PLURALS = {
    "clusterroles": "ClusterRole",
    "clusterrolebindings": "ClusterRoleBinding",
    "roles": "Role",
    "rolebindings": "RoleBinding",
}


def record(url: str, ca_file: str, token: str) -> list[dict[str, Any]]:
    context = ssl.create_default_context(cafile=ca_file)
    found: list[dict[str, Any]] = []
    for plural, kind in PLURALS.items():
        address = f"{url}/apis/rbac.authorization.k8s.io/v1/{plural}?labelSelector=kubernetes.io/bootstrapping%3Drbac-defaults"
        request = urllib.request.Request(address, headers={"Authorization": f"Bearer {token}"})
        with urllib.request.urlopen(request, context=context) as answer:
            items = json.load(answer)["items"]
        for item in sorted(items, key=lambda i: (i["metadata"].get("namespace", ""), i["metadata"]["name"])):
            meta = {k: v for k, v in item["metadata"].items() if k in ("name", "namespace", "labels", "annotations")}
            rest = {k: v for k, v in item.items() if k not in ("metadata", "kind", "apiVersion")}
            found.append({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": meta, **rest})
    return found


def main() -> None:
    objects = record(*sys.argv[1:4])
    TARGET.write_bytes(gzip.compress(json.dumps(objects, separators=(",", ":"), sort_keys=True).encode(), mtime=0))
    print(f"{len(objects)} objects, {TARGET.stat().st_size} bytes")


if __name__ == "__main__":
    main()
