"""The addon `cluster-gateway`, which grants the gateway access to a managed cluster."""

from muster.gateway.addon.addon import CLUSTER_GATEWAY

__all__ = ["CLUSTER_GATEWAY"]
