"""The inventory of clusters: endpoints, credentials and health of each, and its ClusterGateway object."""

from muster.gateway.inventory.health import Health, HealthStatus, ProbeFailed, Send
from muster.gateway.inventory.inventory import Inventory, Publish

__all__ = ["Health", "HealthStatus", "Inventory", "ProbeFailed", "Publish", "Send"]
