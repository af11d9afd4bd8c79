"""Services over a Kubernetes API: informers tell what is there, and the server's own account writes what agents ask for."""

from muster.transport.services.kube.services import kube_services

__all__ = ["kube_services"]
