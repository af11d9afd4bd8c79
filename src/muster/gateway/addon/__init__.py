"""The addon `cluster-gateway`: what lets the gateway into a managed cluster."""

from muster.gateway.addon.addon import CLUSTER_GATEWAY

__all__ = ["CLUSTER_GATEWAY"]
