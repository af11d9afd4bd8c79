"""The storage of a gRPC server's objects, by its names in flags and records."""

from __future__ import annotations

from typing import Final

KUBE: Final = "kube"
"""In the hub cluster's API."""
SQL: Final = "sql"
"""In a database; the server then is the hub's API server."""
