"""Comparing an object with a template of it: what differs, and what the object would be if the template had its way.

Pure: nothing here reads a cluster, nothing changes what it is given, and results share what did not change with the arguments.
Follows config-policy-controller v0.19's `handleKeys` and what is below it, because a policy that both controllers see must be
judged alike: lists are compared without order, scalars as text, quantities as quantities.
"""

from __future__ import annotations

from muster.policy.comparison.objects import Comparison, ComparisonError, compare, identical, matches, without_noise

__all__ = ["Comparison", "ComparisonError", "compare", "identical", "matches", "without_noise"]
