"""Small manifests for kubectl to chew on."""

from __future__ import annotations

from typing import Any

import yaml


def configmap(name: str, data: dict[str, str], **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}, "data": data}


def deployment(name: str, replicas: int = 1, image: str = "example/main:1") -> dict[str, Any]:
    container = {"name": "main", "image": image, "ports": [{"containerPort": 80}]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}},
        },
    }


def definition(group: str) -> dict[str, Any]:
    spec = {
        "type": "object",
        "properties": {"size": {"type": "integer", "minimum": 1, "description": "How large it is."}},
        "required": ["size"],
    }
    schema = {"type": "object", "description": "A gadget.", "properties": {"spec": spec}}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"gadgets.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "shortNames": ["gd"]},
            "versions": [version],
        },
    }


def gadget(group: str, name: str, size: int) -> dict[str, Any]:
    return {"apiVersion": f"{group}/v1", "kind": "Gadget", "metadata": {"name": name}, "spec": {"size": size}}


def text(*documents: dict[str, Any]) -> str:
    return "---\n".join(yaml.safe_dump(document) for document in documents)
