"""Figures of a simulation: read from the kernel and from /metrics, compared between two samples."""

import os

import pytest

from muster.fleet.usage import Sample, Usage, counted, rates, usage

METRICS = b"""# TYPE apiserver_request_total counter
apiserver_request_total{verb="get",code="200"} 12
apiserver_request_total{verb="watch",code="200"} 3
apiserver_request_duration_seconds_count{verb="get"} 12
apiserver_longrunning_requests 2
"""


def test_all_requests_count_and_durations_do_not() -> None:
    assert counted(METRICS) == (15, 2)


def test_a_server_without_these_metrics_has_answered_nothing() -> None:
    assert counted(b"") == (0, 0)


def test_this_process_uses_memory_and_time() -> None:
    found = usage(os.getpid())
    assert found.mib > 1
    assert found.cpu_seconds > 0


def test_rates_are_differences_over_the_time_between() -> None:
    first = Sample(10.0, Usage(1.0, 0), Usage(2.0, 0), 100, 0)
    last = Sample(20.0, Usage(6.0, 0), Usage(12.0, 0), 600, 0)
    found = rates(first, last)
    assert (found.hub_cores, found.agents_cores) == pytest.approx((0.5, 1.0))
    assert found.requests_per_second == pytest.approx(50)
