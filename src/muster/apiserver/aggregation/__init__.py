"""Aggregation: API groups that other API servers serve behind this one, and the APIService objects that register them."""

from muster.apiserver.aggregation.aggregator import Aggregator

__all__ = ["Aggregator"]
