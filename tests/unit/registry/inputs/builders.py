"""The smallest pieces that objects of many kinds share."""

from __future__ import annotations

from typing import Any

Input = tuple[str, str, dict[str, Any]]
"""(apiVersion, kind, the object without either)"""
Update = tuple[str, str, dict[str, Any], dict[str, Any]]
"""(apiVersion, kind, the object, a merge patch that says how it is replaced)"""

CONTAINER: dict[str, Any] = {"name": "c", "image": "nginx"}
TEMPLATE: dict[str, Any] = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [CONTAINER]}}
SELECTOR: dict[str, Any] = {"matchLabels": {"a": "b"}}
