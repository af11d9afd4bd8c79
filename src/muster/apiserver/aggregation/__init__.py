"""Aggregation: API groups that other servers serve, reached through this one, and the APIService objects that say so."""

from muster.apiserver.aggregation.aggregator import Aggregator

__all__ = ["Aggregator"]
