"""Where a gRPC server keeps a hub's objects, by the names that flags and records have for it."""

from __future__ import annotations

from typing import Final

KUBE: Final = "kube"
"""In the hub cluster."""
SQL: Final = "sql"
"""In a database; the server is the hub's API server then."""
