"""Metrics of the policy controller, under upstream's names, for both kinds of policies.

The series of a policy are removed with it.
"""

from __future__ import annotations

from typing import Final

from muster.machinery.metrics import Labels, Metrics
from muster.policy.reporter import COMPLIANT, NON_COMPLIANT

_VALUES: Final = {COMPLIANT: 0.0, NON_COMPLIANT: 1.0}
_UNKNOWN: Final = -1.0
_OWN_LABELS: Final = {
    "config_policy_evaluation_total": "name",
    "config_policy_evaluation_seconds_total": "name",
    "compare_objects_evaluation_total": "config_policy_name",
    "compare_objects_seconds_total": "config_policy_name",
    "policy_user_errors_total": "template",
    "policy_system_errors_total": "template",
}
"""The label that names the policy, by counter."""


class PolicyMetrics:
    """`enabled` is upstream's `--enable-metrics`: without it there are only the metrics of every controller."""

    def __init__(self, metrics: Metrics, *, enabled: bool = True) -> None:
        self._metrics = metrics
        self._enabled = enabled
        self._states: dict[tuple[str, str, str], tuple[str, float]] = {}
        if enabled:
            metrics.gauges(
                "cluster_policy_governance_info",
                "The compliance status of a policy: 0 compliant, 1 not compliant, -1 unknown or pending",
                self._read,
            )

    def set_compliance(self, kind: str, namespace: str, name: str, severity: str, compliant: str) -> None:
        self._states[kind, namespace, name] = severity, _VALUES.get(compliant, _UNKNOWN)

    def count_evaluation(self, name: str, seconds: float) -> None:
        if self._enabled:
            self._metrics.counter("config_policy_evaluation_total", "Evaluations of a configuration policy", name=name).inc()
            self._metrics.counter(
                "config_policy_evaluation_seconds_total", "Seconds spent evaluating a configuration policy", name=name
            ).inc(seconds)

    def count_comparison(self, policy: str, namespace: str, name: str, seconds: float) -> None:
        """An object was compared with a template."""
        if self._enabled:
            labels = {"config_policy_name": policy, "namespace": namespace, "object": name}
            self._metrics.counter("compare_objects_evaluation_total", "Comparisons of an object", **labels).inc()
            self._metrics.counter("compare_objects_seconds_total", "Seconds spent comparing an object", **labels).inc(seconds)

    def count_user_error(self, owner: str, policy: str, kind: str) -> None:
        """The policy is invalid; `owner` is the framework's policy, if there is one."""
        if self._enabled:
            self._metrics.counter(
                "policy_user_errors_total", "Errors of policies' authors", policy=owner, template=policy, type=kind
            ).inc()

    def count_system_error(self, owner: str, policy: str, kind: str) -> None:
        """The cluster failed."""
        if self._enabled:
            self._metrics.counter(
                "policy_system_errors_total", "Errors of the system around policies", policy=owner, template=policy, type=kind
            ).inc()

    def forget(self, kind: str, namespace: str, name: str) -> None:
        self._states.pop((kind, namespace, name), None)
        for family, label in _OWN_LABELS.items():
            self._metrics.forget(label, name, family)

    def _read(self) -> list[tuple[Labels, float]]:
        return [
            ((("kind", kind), ("policy", name), ("policy_namespace", namespace), ("severity", severity)), value)
            for (kind, namespace, name), (severity, value) in self._states.items()
        ]
