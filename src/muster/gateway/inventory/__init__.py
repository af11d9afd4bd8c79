"""What the gateway knows of clusters: where their requests go, as whom, whether they answer, and what is shown of that."""

from muster.gateway.inventory.health import Health, HealthStatus, ProbeFailed, Send
from muster.gateway.inventory.inventory import Inventory, Shown

__all__ = ["Health", "HealthStatus", "Inventory", "ProbeFailed", "Send", "Shown"]
