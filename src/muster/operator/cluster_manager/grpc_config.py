"""The administrator's configuration of the gRPC server: ConfigMap `grpc-server-config`, key `config.yaml`.

The server reads it when it starts. The operator sets a hash of it on the server's pods, so that a change is rolled out like a new
image: pod by pod, and the old pods stay if the new ones cannot run. Invalid keys are reported in the ClusterManager's condition. A
hub without this ConfigMap has no hash, hence no rollout.
"""

from __future__ import annotations

import hashlib
from typing import Final

from muster.machinery.objects import Object
from muster.transport.server.config import ConfigError, parse_config

CONFIG_KEY: Final = "config.yaml"


def config_hash(found: Object | None) -> str:
    """The hash of the configuration; empty if there is none."""
    content = _content(found)
    return "" if content is None else hashlib.sha256(content.encode()).hexdigest()[:16]


def config_problem(found: Object | None) -> str:
    """Why the server would not start with it; empty if it would."""
    content = _content(found)
    if found is None or content is None:
        return ""
    try:
        parse_config(content.encode())
    except ConfigError as error:
        metadata = found["metadata"]
        return f"ConfigMap {metadata['namespace']}/{metadata['name']}: {CONFIG_KEY}: {error}"
    return ""


def _content(found: Object | None) -> str | None:
    """The API server accepts only text in `data`."""
    return None if found is None else (found.get("data") or {}).get(CONFIG_KEY)
