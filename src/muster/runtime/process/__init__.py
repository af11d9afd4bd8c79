"""What a process is made of besides its controllers: parts that run together, health and metrics."""

from muster.runtime.process.metrics_server import MetricsServer, SecureServing
from muster.runtime.process.serve import serve

__all__ = [
    "MetricsServer",
    "SecureServing",
    "serve",
]
