"""Compares an object with a template of it: the differences, and the object with the template applied.

Pure functions: nothing here reads a cluster or changes its arguments, and results share unchanged parts with the arguments.
Follows `handleKeys` of config-policy-controller v0.19 and the functions below it, because both controllers must judge a policy
alike: lists are compared without order, scalars as text, quantities as quantities.
"""

from __future__ import annotations

from muster.policy.comparison.objects import Comparison, ComparisonError, compare, identical, matches, without_noise

__all__ = ["Comparison", "ComparisonError", "compare", "identical", "matches", "without_noise"]
