"""Services over a Kubernetes API: informers read the objects, and the server's own account writes for agents."""

from muster.transport.services.kube.services import kube_services

__all__ = ["kube_services"]
