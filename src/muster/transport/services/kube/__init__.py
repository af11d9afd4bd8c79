"""Services over a Kubernetes API: what is there comes by informers, what agents ask for is written by the server's own account."""

from muster.transport.services.kube.services import kube_services

__all__ = ["kube_services"]
