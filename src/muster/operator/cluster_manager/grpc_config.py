"""What an administrator configures of the gRPC server, in ConfigMap `grpc-server-config`, key `config.yaml`.

The server reads it when it starts. The operator writes a hash of it on the server's pods, so that another configuration is rolled
out as another image would be: pod by pod, and where the new one cannot run, the old ones stay. What the server would refuse is told
in the ClusterManager's condition, by its key. A hub without this ConfigMap has no such mark, hence no rollout of its own.
"""

from __future__ import annotations

import hashlib
from typing import Final

from muster.machinery.objects import Object
from muster.transport.server.config import ConfigError, parse_config

CONFIG_KEY: Final = "config.yaml"


def config_hash(found: Object | None) -> str:
    """Of what the server would read; empty where there is nothing to read."""
    content = _content(found)
    return "" if content is None else hashlib.sha256(content.encode()).hexdigest()[:16]


def config_problem(found: Object | None) -> str:
    """Why the server would not start with it; empty where it would."""
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
    """The API server takes nothing but text there."""
    return None if found is None else (found.get("data") or {}).get(CONFIG_KEY)
