"""The parts of a process besides its controllers: health checks, metrics, and the server for both."""

from muster.runtime.process.metrics_server import MetricsServer, SecureServing
from muster.runtime.process.serve import serve

__all__ = [
    "MetricsServer",
    "SecureServing",
    "serve",
]
